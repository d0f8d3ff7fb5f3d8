"""Exact merging of the matches of several shards or batches. Functions of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Int64s, Matches, make_events
from matchwood.spark.batches import read_ranked, write_matches, write_ranked
from matchwood.store.kernels.ordering import order_hits


def no_matches(size: int) -> Matches:
    """The result of `size` events that match nothing."""
    return Matches(np.zeros(size + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))


def choose_events(events: Events, which: NDArray[np.bool_]) -> Events:
    """The chosen events. O(entries)."""
    if which.all():
        return events
    lengths = np.diff(events.offsets)
    chosen = np.repeat(which, lengths)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[which])])
    return make_events(offsets, *(column[chosen] for column in events[1:]))


def gather(size: int, owners: Sequence[Int64s], parts: Sequence[Matches], *, k: int | None, copies: bool) -> Matches:
    """The k best matches of `size` events from parts, in rank order; event i of part p is event owners[p][i] of the result.

    With `copies` a subscription may be in several parts, with the same score; it is returned once. O(n log n).
    """
    counts = [np.diff(part.offsets) for part in parts]
    totals = np.zeros(size, np.int64)
    for owner, count in zip(owners, counts, strict=True):
        np.add.at(totals, owner, count)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(totals)])
    ids, scores = np.empty(offsets[-1], np.int64), np.empty(offsets[-1])
    room = offsets[:-1].copy()
    for owner, count, part in zip(owners, counts, parts, strict=True):
        at = np.arange(len(part.ids)) + np.repeat(_starts(room, owner, count) - part.offsets[:-1], count)
        ids[at], scores[at] = part.ids, part.scores
    order_hits(offsets, ids, scores)
    return cut(Matches(offsets, ids, scores), k=k, copies=copies)


def cut(matches: Matches, *, k: int | None, copies: bool) -> Matches:
    """The first k matches of each event, which must be in rank order, and with `copies` each subscription once. O(n)."""
    if not copies and (k is None or not len(matches.ids) or np.diff(matches.offsets).max() <= k):
        return matches
    event = np.repeat(np.arange(len(matches.offsets) - 1), np.diff(matches.offsets))
    keep = np.ones(len(event), np.bool_)
    if copies:
        keep[1:] = (matches.ids[1:] != matches.ids[:-1]) | (event[1:] != event[:-1])
    if k is not None:
        before = np.concatenate([[0], np.cumsum(keep)])
        keep &= before[:-1] - before[matches.offsets[:-1]][event] < k
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])[matches.offsets]
    return Matches(offsets, matches.ids[keep], matches.scores[keep])


@dataclass(frozen=True)
class Merging:
    """Merge ranked lists of a partition in which the records of an event are adjacent (sorted by event)."""

    k: int | None
    copies: bool
    ranked: bool = False

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of matches; the last event of a batch is merged with the next batch, which may continue it."""
        pending_ids, pending = np.zeros(0, np.int64), no_matches(0)
        write = write_ranked if self.ranked else write_matches
        for batch in batches:
            ids, part = read_ranked(batch)
            ids, part = np.concatenate([pending_ids, ids]), _joined(pending, part)
            if not len(ids):
                continue
            open_from = int(np.flatnonzero(ids != ids[-1])[-1]) + 1 if (ids != ids[-1]).any() else 0
            if open_from:
                yield write(*self._merged(ids[:open_from], _slice(part, 0, open_from)))
            pending_ids, pending = ids[open_from:], _slice(part, open_from, len(ids))
        if len(pending_ids):
            yield write(*self._merged(pending_ids, pending))

    def _merged(self, ids: Int64s, part: Matches) -> tuple[Int64s, Matches]:
        events, owner = np.unique(ids, return_inverse=True)
        return events, gather(len(events), [owner], [part], k=self.k, copies=self.copies)


def _starts(room: Int64s, owner: Int64s, count: Int64s) -> Int64s:
    """The start of each run: behind the runs already placed for the same event. Advances `room`. O(runs)."""
    if len(owner) < 2 or (np.diff(owner) > 0).all():
        starts = room[owner]
    else:
        order = np.argsort(owner, kind="stable")
        sizes = count[order]
        before = np.cumsum(sizes) - sizes
        new = np.concatenate([[True], owner[order][1:] != owner[order][:-1]])
        group = np.cumsum(new) - 1
        starts = np.empty(len(owner), np.int64)
        starts[order] = room[owner[order]] + before - before[np.flatnonzero(new)][group]
    np.add.at(room, owner, count)
    return starts


def _joined(a: Matches, b: Matches) -> Matches:
    if not len(a.offsets) > 1:
        return b
    return Matches(
        np.concatenate([a.offsets, b.offsets[1:] + a.offsets[-1]]),
        np.concatenate([a.ids, b.ids]),
        np.concatenate([a.scores, b.scores]),
    )


def _slice(matches: Matches, start: int, stop: int) -> Matches:
    offsets = matches.offsets[start : stop + 1]
    span = slice(offsets[0], offsets[-1])
    return Matches(offsets - offsets[0], matches.ids[span], matches.scores[span])
