"""The invariants of a VCR index, verified with the paper's definitions. O(n) in Python: for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from matchwood.store.kernels.rows import ABSENT, NARROWS, NONE, SET
from matchwood.store.pool_check import check_regions, freed
from matchwood.structures.vcr.geometry import Constructs, Rectangle
from matchwood.structures.vcr.kernels import layout as kernel
from matchwood.structures.vcr.kernels.layout import Count

if TYPE_CHECKING:
    from matchwood.structures.vcr.index import VCR


def check_lists(index: VCR) -> None:
    """Every row is in the lists of its decomposition and in no other; no other list, region or position exists."""
    state, counts = index.state, index.state.counts
    expected: dict[int, list[int]] = {}
    live = index.store.live_slots().tolist()
    for slot in live:
        p = int(state.positions[slot])
        assert state.places[p]["slot"] == slot, f"slot {slot} does not know its position {p}"
        _check_place(index, slot, p)
        for id_, entry in entries_of(index, p):
            expected.setdefault(id_, []).append(entry)
    found = {}
    headers = np.flatnonzero(state.directory["id"] >= 0)
    for at in headers.tolist():
        header = state.directory[at]
        assert kernel.find_list(state, int(header["id"])) == at, f"VCR {header['id']} cannot be found"
        start, size = int(header["start"]), int(header["load"] & kernel.SIZE)
        found[int(header["id"])] = sorted(state.entries[start : start + size].tolist())
    assert found == {id_: sorted(entries) for id_, entries in expected.items()}, "lists differ from the rows'"
    assert len(found) == counts[Count.LISTS], "lists are miscounted"
    active = [(c, int(state.active[c])) for c in np.flatnonzero(state.active).tolist()]
    bits = [c * len(state.shapes) + bit for c, word in active for bit in range(64) if word >> bit & 1]
    assert sorted(found) == bits, "active bits and lists differ"
    assert counts[Count.GROUPS : Count.GROUPS + 4].sum() == len(live), "rows are miscounted"
    _check_pools(index, headers, len(live))


def entries_of(index: VCR, p: int) -> list[tuple[int, int]]:
    """The VCRs that position p should be in, by the paper's definitions, in the grid with its margin: id, and entry there.

    An entry has the flags of the row's sides that are sides of the VCR too.
    """
    place, (side_x, side_y) = index.state.places[p], index.sides
    constructs = Constructs(int(index.state.counts[Count.PITCH]), side_x, side_y)
    x, y, width, height = (int(place[name]) for name in ("x", "y", "width", "height"))
    whole = Rectangle(x + side_x - 1, y + side_y - 1, width, height)
    cut = constructs.overlapped if index.state.counts[Count.OVERLAPPED] else constructs.simple
    entries = []
    for part in cut(whole):
        sides = kernel.VERIFY
        sides |= kernel.LEFT if part.x == whole.x else np.uint32(0)
        sides |= kernel.RIGHT if part.x + part.width == whole.x + width else np.uint32(0)
        sides |= kernel.BOTTOM if part.y == whole.y else np.uint32(0)
        sides |= kernel.TOP if part.y + part.height == whole.y + height else np.uint32(0)
        entries.append((constructs.id(part), p | int(place["flags"] & sides)))
    return entries


def _check_place(index: VCR, slot: int, p: int) -> None:
    """The cells are those of the exact hulls, and where the row may not hold a key of them, a flag says so.

    Without a flag at its low end the row holds the first key of its first cell, and so that of every cell; without one at its
    high end it reaches the last key of its last cell; without VERIFY it has no other predicate.
    """
    state, place = index.state, index.state.places[p]
    row = index.store.state.rows[slot]
    assert state.hits[p]["id"] == row["id"], f"slot {slot}: another id is reported"
    assert state.rates[p]["priority"] == row["priority"], f"slot {slot}: another priority is scored"
    entries = index.store.state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]
    intervals = {int(e["dim"]): e for e in entries if not e["kind"] & (ABSENT | NARROWS)}
    axes = (
        (index.dims[0], state.x_edges, "x", "width", kernel.LEFT, kernel.RIGHT),
        (index.dims[1], state.y_edges, "y", "height", kernel.BOTTOM, kernel.TOP),
    )
    tested = 0
    for dim, edges, at, size, low, high in axes:
        first, last = int(place[at]), int(place[at]) + int(place[size]) - 1
        if first == len(edges):
            continue
        lo, hi = intervals[dim]["lo"], intervals[dim]["hi"]
        box = state.boxes[p]
        assert (box[f"{at}_lo"], box[f"{at}_hi"]) == (lo, hi), f"slot {slot}: another box decides"
        cells = np.maximum(np.searchsorted(edges, [lo, hi], side="right") - 1, 0).tolist()
        assert [first, last] == cells, f"slot {slot}: {at} has cells {first} to {last}, expected {cells}"
        assert place["flags"] & low or lo <= edges[first] <= hi, (
            f"slot {slot}: does not hold the first key of a cell, and that is not flagged"
        )
        end = np.nextafter(edges[last + 1], -np.inf) if last + 1 < len(edges) else np.inf
        assert place["flags"] & high or hi >= end, f"slot {slot}: a cell it covers in part is not flagged"
        tested += 1
    if not place["flags"] & kernel.VERIFY:
        assert tested == len(entries), f"slot {slot}: a predicate is never tested"
        assert not any(int(kind) & int(SET | ABSENT | NARROWS) for kind in entries["kind"]), f"slot {slot}: not plain"


def _check_pools(index: VCR, headers: np.ndarray, live: int) -> None:
    """Regions in use and free tile the pool; positions in use and free are all there are."""
    state, counts = index.state, index.state.counts
    load = state.directory["load"][headers]
    sizes = np.int64(1) << (load >> kernel.CLASS_SHIFT).astype(np.int64) >> 1
    regions = list(zip(state.directory["start"][headers].tolist(), sizes.tolist(), strict=True))
    for class_ in range(1, kernel.COUNTS - Count.FREE_REGIONS):
        regions += freed(counts[Count.FREE_REGIONS + class_], 1 << class_ >> 1, state.entries)
    check_regions("entries", regions, int(counts[Count.POOL]))
    free, p = 0, int(counts[Count.FREE_POSITION])
    while p != int(NONE):
        assert state.places[p]["slot"] == NONE, f"position {p} is free and in use"
        free, p = free + 1, int(state.places[p]["flags"])
    assert free + live == counts[Count.POSITIONS], "a position is lost"
