"""Samples to time structures on: rows of complete subscriptions, and events generated from rows while none has been matched."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import INTERVAL, JOINED, Events, Rows, make_events, make_rows
from matchwood.encode.picking import pick_groups, pick_rows
from matchwood.store.reading import ReadableStore
from matchwood.store.row_store import RowStore

SEED = 20_240_917


def sample_store(store: ReadableStore, wanted: int) -> Rows:
    """About `wanted` rows of a store, drawn uniformly, with all rows of a subscription. O(slots)."""
    slots = store.live_slots()
    if wanted < len(slots):
        rng = np.random.default_rng(SEED)
        slots = slots[np.sort(rng.choice(len(slots), wanted, replace=False))]
    return store.extract(store.slots_of(np.unique(store.extract(slots).ids)))


def exercise_copying() -> None:
    """Copy rows out of a small store, to load the kernels for it before rows are copied under a lock."""
    store = RowStore()
    store.add(make_rows([0], [0.0], [0, 1], [0], [INTERVAL], [0.0], [1.0], [1.0]))
    sample_store(store, 1)
    ids = store.ids()
    store.extract(store.slots_of(ids[store.knows(ids)]))


def sample_rows(rows: Rows, wanted: int) -> Rows:
    """About `wanted` of the rows, drawn uniformly, with all rows of a subscription. O(rows)."""
    if wanted >= rows.size:
        return rows
    begins = np.flatnonzero(np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]]))
    ends = np.append(begins[1:], rows.size)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(begins))
    chosen = np.sort(order[: max(1, int(np.searchsorted(np.cumsum((ends - begins)[order]), wanted, "right")))])
    _, which = pick_groups(np.append(begins, rows.size), chosen)
    return pick_rows(rows, which)


def generated_events(rows: Rows, count: int) -> Events:
    """Events that rows match: the values of each match one row, and it has other attributes as often as rows name them."""
    if not rows.size:
        return make_events([0] * (count + 1), [], [], [])
    rng = np.random.default_rng(SEED)
    owner = np.repeat(np.arange(rows.size), np.diff(rows.offsets))
    usable = (rows.kinds == INTERVAL) | (rows.kinds == JOINED)
    owner, dims = owner[usable], rows.dims[usable].astype(np.int64)
    keys = random_keys(rng, rows.lo[usable], rows.hi[usable])
    order = np.argsort(dims, kind="stable")
    found, starts, popular = np.unique(dims[order], return_index=True, return_counts=True)
    values = np.full((count, len(found)), np.nan)
    for j in range(len(found)):
        there = rng.random(count) < popular[j] / rows.size
        drawn = order[starts[j] + rng.integers(popular[j], size=count)]
        values[there, j] = keys[drawn][there]
    firsts = np.searchsorted(owner, np.arange(rows.size + 1))
    for event, base in enumerate(rng.integers(rows.size, size=count)):
        mine = slice(firsts[base], firsts[base + 1])
        values[event, np.searchsorted(found, dims[mine])] = keys[mine]
    owners, columns = np.nonzero(~np.isnan(values))
    offsets = np.searchsorted(owners, np.arange(count + 1))
    return make_events(offsets, found[columns], values[owners, columns], values[owners, columns])


def random_keys(rng: np.random.Generator, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """A key in each interval: uniform if it is bounded, else its finite end if it has one, else the key nearest to 0."""
    low, high = np.where(np.isfinite(lo), lo, hi), np.where(np.isfinite(hi), hi, lo)
    bounded = np.isfinite(low) & np.isfinite(high)
    share = rng.random(len(lo))[bounded]
    keys = np.clip(np.zeros(len(lo)), lo, hi)
    keys[bounded] = np.clip(low[bounded] * (1.0 - share) + high[bounded] * share, lo[bounded], hi[bounded])
    return keys
