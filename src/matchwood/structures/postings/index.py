"""Postings: rows filed under a rare value, bit planes for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.store.growth import grown, zeros
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import WORDS as VALUES  # that an entry of the store can name
from matchwood.store.reading import Slots
from matchwood.structures.base import EVERYTHING, Capability, Query
from matchwood.structures.postings.check import check_postings
from matchwood.structures.postings.kernels import layout, update
from matchwood.structures.postings.kernels.layout import BLOCK, LIVE, NONE, WORDS, Postings
from matchwood.structures.postings.kernels.match import (
    GROUP,
    GROUP_STEPS,
    MAX_ADMITTED,
    SPAN,
    STEP,
    TOGETHER,
    PostingsScratch,
    answer_events,
)
from matchwood.structures.postings.plan import Axes, Survey, choose_axes, order_in_blocks, pivot_limit
from matchwood.structures.scratch import Scratch
from matchwood.structures.verifying import VerifyingIndex

WORD = np.dtype(np.uint64)
SAMPLE = 20_000  # rows from which the use of dimensions is estimated
SLACK = 1024  # rows that may come or go before the size matters for a rebuild


class PostingsIndex(VerifyingIndex):
    """Equality, IN lists and membership, by value.

    Layout: `kernels.layout`. Insert O(values, and planes of the row's axes), delete O(rows of a value), both amortised: all is
    rebuilt when the rows have doubled, or when a third of the positions is dead. An event costs a bit for each row and axis,
    and the rows filed under its values. Top-k skips blocks and postings by their largest score.

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7], [0.0], [0, 1], [0], [0], [18.0], [36.0], [0.5])
    >>> index = PostingsIndex.build(rows)
    >>> hits = index.match(make_events([0, 1, 2], [0, 0], [20.0, 40.0], [20.0, 40.0]))
    >>> hits.offsets.tolist(), hits.ids.tolist(), hits.scores.tolist()
    ([0, 1, 1], [7], [0.5])
    """

    name: ClassVar[str] = "postings"
    capabilities = EVERYTHING - {Capability.ANY}

    def __init__(self) -> None:
        super().__init__()
        self._postings = _empty()

    def _insert(self, slots: Slots) -> None:
        counts = self._postings.counts
        live = int(counts[layout.POSITIONS] - counts[layout.DEAD])
        if len(self.store) > 2 * counts[layout.PLANNED] + SLACK or counts[layout.DEAD] > live // 2 + SLACK:
            self._build(self.store.live_slots())
            return
        self._count(slots)
        self._place(slots, np.full(len(slots), layout.UNKNOWN))

    def _delete(self, slots: Slots) -> None:
        update.remove_rows(self._postings, self.store.state, slots)

    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        with self._changing():
            self.store.set_priorities(slots, priorities)
            others = np.empty(len(slots), np.uint32)
            others = others[: update.rank_rows(self._postings, self.store.state, slots, others)]
            if len(others):
                self._delete(others)
                self._insert(others)

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        return int(answer_events(self._postings, self.store.state, scratch.own, query, first, out, ends))

    def _check(self) -> None:
        check_postings(self._postings, self.store)

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._postings._asdict()

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._postings = Postings(**saved)

    def _nodes(self) -> int:
        return len(self._postings.axes) + int(self._postings.counts[layout.KEYS])

    def _details(self) -> dict[str, float]:
        counts = self._postings.counts
        in_planes = float(counts[layout.POSITIONS] - counts[layout.DEAD])
        figures = {
            "axes": float(len(self._postings.axes)),
            "planes": float(counts[layout.PLANES]),
            "rows_in_planes": in_planes,
            "rows_filed": len(self.store) - in_planes,
            "blocks_read": self._visited,
        }
        return {**figures, **self._tests()}

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        held, postings, rows = scratch.own, self._postings, len(self.store.state.rows)
        if (
            held is None
            or held.candidates is not scratch.buffer
            or len(held.steps) < 2 * len(postings.plane_of) + len(postings.axes)
            or len(held.spans) < GROUP * len(postings.axes)
            or len(held.admitted) < len(postings.exact)
            or len(held.stamps) < rows
            or len(held.heights) < len(postings.hulls)
        ):
            words = len(postings.exact)
            bits = max(words, min(GROUP * words, MAX_ADMITTED), WORDS)
            scratch.own = PostingsScratch(
                candidates=scratch.buffer,
                steps=np.zeros(max(2 * len(postings.plane_of) + len(postings.axes), GROUP_STEPS), STEP),
                spans=np.zeros(GROUP * len(postings.axes), SPAN),
                simple=np.zeros(GROUP, np.uint8),
                admitted=zeros(bits, WORD),
                spread=np.zeros(GROUP, np.int64),
                listed=zeros(bits, WORD),
                heights=np.zeros(len(postings.hulls)),
                words=zeros(WORDS, WORD),
                stamps=np.zeros(rows, np.uint32),
                stamp=np.zeros(1, np.uint32),
                filter=zeros(layout.FILTER // 64, WORD),
                places=np.zeros(TOGETHER, np.int64),
            )

    def _build(self, slots: Slots) -> None:
        """Count the values of all rows, choose axes for those that are not filed, and place all. O(values log values)."""
        state = self.store.state
        self._postings = _empty()
        sample = self.store.extract(slots[:: -(-len(slots) // SAMPLE)])
        self._postings.counts[layout.LIMIT] = pivot_limit(sample, len(slots))
        self._count(slots)
        pivots = np.empty(len(slots), np.int64)
        update.choose_pivots(self._postings, state, slots, pivots)
        others = slots[pivots < 0]
        *axes, planes = choose_axes(self._surveyed(others), len(others))
        self._postings.counts[layout.PLANES] = planes
        self._postings.counts[layout.PLANNED] = len(slots)
        named = dict(zip(Axes._fields, axes, strict=False))
        self._postings = self._postings._replace(**named, lists=np.zeros(2 * len(named["plane_of"]), layout.LIST))
        if len(state.ceilings):
            order = order_in_blocks(state.ceilings[others])
        else:  # in descending order of the bound that rows have in the store, which is never negative
            bounds = state.rows["flags"][others] >> 1
            order = np.argsort(-bounds.astype(np.int64), kind="stable")
        self._reserve(len(others))
        is_filed = pivots >= 0
        self._place(
            np.concatenate([others[order], slots[is_filed]]), np.concatenate([pivots[~is_filed], pivots[is_filed]])
        )

    def _surveyed(self, slots: Slots) -> Survey:
        """What the rows that are not filed ask for. O(values)."""
        table, state = self._postings.table, self.store.state
        room, wanted = -1, 2 * len(slots)
        while room < wanted:
            room, others = wanted, np.empty(wanted, layout.OTHER)
            mentions, used = np.zeros(len(table), np.int64), np.zeros(self.store.dimensions, np.int64)
            wanted = int(update.survey(self._postings, state, slots, mentions, used, others))
        others = others[:wanted]
        at = np.flatnonzero(mentions)
        points = np.empty(len(at), [("dim", "i8"), ("key", "f8"), ("mentions", "i8")])
        points["dim"], points["key"], points["mentions"] = table["dim"][at], table["key"][at], mentions[at]
        return Survey(used, points, others)

    def _count(self, slots: Slots) -> None:
        done = 0
        while (done := int(update.count_mentions(self._postings, self.store.state, slots, done))) < len(slots):
            row = VALUES * int(self.store.state.rows["size"][slots[done]])
            wanted = 2 * (int(self._postings.counts[layout.KEYS]) + row) + 2
            size = max(2 * len(self._postings.table), 1 << wanted.bit_length())
            table = np.zeros(size, layout.FILE)
            update.rehash(self._postings.table, table)
            self._postings = self._postings._replace(table=table)

    def _place(self, slots: Slots, pivots: Int64s) -> None:
        """Put rows in, whose pivots are given or UNKNOWN."""
        rows = len(self.store.state.rows)
        if len(self._postings.homes) < rows:
            homes = grown(self._postings.homes, rows)
            homes[len(self._postings.homes) :] = NONE
            self._postings = self._postings._replace(homes=homes)
        done = 0
        while done < len(slots):
            masks = np.zeros(3 * len(self._postings.axes), np.uint64)
            done = int(update.place_rows(self._postings, self.store.state, slots, pivots, masks, done))
            if done < len(slots):
                self._make_room(len(slots) - done)

    def _make_room(self, more: int) -> None:
        """Room for so many positions more, or, if these are there, twice the room for postings and lists."""
        postings, capacity = self._postings, len(self._postings.slots)
        if postings.counts[layout.POSITIONS] == capacity:
            self._reserve(max(capacity + min(more, max(capacity, BLOCK)), capacity * 5 // 4))
            return
        members = grown(postings.members, 2 * len(postings.members) + BLOCK)
        self._postings = postings._replace(
            members=members, filed=grown(postings.filed, 2 * len(postings.filed) + BLOCK)
        )

    def _reserve(self, positions: int) -> None:
        """Blocks for so many positions. A new position is in all planes but LIVE."""
        postings, blocks = self._postings, -(-positions // BLOCK)
        planes, old = int(postings.counts[layout.PLANES]), len(postings.slots) // BLOCK
        bits = grown(postings.bits, blocks * planes * WORDS)
        added = bits.reshape(blocks, planes, WORDS)[old:]
        added[:] = ~np.uint64(0)
        added[:, LIVE] = 0
        bounds = grown(postings.bounds, blocks)
        bounds[old:] = -np.inf
        hulls = postings.hulls
        if len(self.store.state.ceilings) and (len(hulls) or not old):
            hulls = grown(hulls, 2 * blocks)
        by_position = {name: grown(getattr(postings, name), blocks * BLOCK) for name in _BY_POSITION}
        exact = {name: grown(getattr(postings, name), blocks * WORDS) for name in ("exact", "exact_for_lists")}
        self._postings = postings._replace(bits=bits, bounds=bounds, hulls=hulls, **exact, **by_position)


_BY_POSITION = ("hits", "slots")


def _empty() -> Postings:
    declared = {
        "axes": layout.AXIS,
        "axis_of": np.int32,
        "cuts": np.float64,
        "guides": np.uint32,
        "plane_of": np.int32,
        "lists": layout.LIST,
        "members": np.uint32,
        "bits": np.uint64,
        "bounds": np.float32,
        "hulls": layout.HULL,
        "hits": layout.HIT,
        "slots": np.uint32,
        "exact": np.uint64,
        "exact_for_lists": np.uint64,
        "homes": np.uint32,
        "filed": layout.POSTING,
    }
    counts = np.zeros(layout.COUNTS, np.int64)
    counts[layout.PLANES] = 1
    arrays = {name: np.zeros(0, dtype) for name, dtype in declared.items()}
    return Postings(**arrays, table=np.zeros(16, layout.FILE), counts=counts)
