"""One static tree as arrays of its own, before it is copied into a forest: how each structure is built.

Every builder takes intervals in rank order (score descending, then id) and returns a `Part`, whose references count from 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.structures.ranked.constraint_graph import arrangement, cells_of
from matchwood.structures.ranked.kernels import build as kernel
from matchwood.structures.ranked.kernels.layout import ARRANGED, BLOCK, BLOCKS, LISTS, NODE, NONE, PACKED, SEGMENTS

Uint32s = NDArray[np.uint32]


class Entries(NamedTuple):
    """Scored intervals (or, in inner blocks, children): the four arrays of `kernels.layout`."""

    lo: Float64s
    hi: Float64s
    score: Float64s
    link: Int64s

    @property
    def size(self) -> int:
        return len(self.lo)

    def take(self, order: np.ndarray) -> Entries:
        return Entries(*(column[order] for column in self))

    @staticmethod
    def join(parts: list[Entries]) -> Entries:
        return Entries(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Part(NamedTuple):
    """A tree with arrays of its own. The first `size` entries are its intervals."""

    kind: int
    root: int
    size: int
    entries: Entries
    blocks: np.ndarray = np.zeros(0, BLOCK)
    nodes: np.ndarray = np.zeros(0, NODE)
    keys: Float64s = np.zeros(0)
    spans: Uint32s = np.zeros(0, np.uint32)
    leaves: int = 0


def in_rank_order(entries: Entries) -> Entries:
    """By score descending, then id ascending. O(n log n)."""
    ids = entries.link
    if (ids[1:] > ids[:-1]).all():
        return entries.take(np.argsort(-entries.score, kind="stable"))
    return entries.take(np.lexsort((ids, -entries.score)))


def build_part(kind: int, entries: Entries, branching: int, *, bucket: int | None = None) -> Part:
    """The tree of that kind over intervals in any order, at least one; `bucket` (default b) limits an interval tree's leaves.

    O(n log n).
    """
    ranked = in_rank_order(entries)
    if kind == SEGMENTS:
        return _segments(ranked)
    if kind in (LISTS, BLOCKS):
        return _interval_tree(kind, ranked, branching, bucket or branching)
    if kind == ARRANGED:
        ranked = ranked.take(arrangement(ranked.lo, ranked.hi))
    whole = np.zeros(1, np.int64), np.array([ranked.size])
    blocks, packed, roots = pack(ranked, *whole, branching)
    return Part(PACKED if kind == PACKED else ARRANGED, int(roots[0]), ranked.size, packed, blocks)


def pack(entries: Entries, starts: Int64s, sizes: Int64s, branching: int) -> tuple[np.ndarray, Entries, Int64s]:
    """A scored R-tree over each run of entries: (blocks, entries with the inner ones behind, root block of each run).

    The runs are not empty and follow each other without gaps. Blocks are full but for the last of each level. O(entries).
    """
    roots = np.zeros(len(starts), np.int64)
    unfinished = np.arange(len(starts))
    level, base, known = 0, 0, 0
    here, all_blocks, all_entries = entries, [], [entries]
    while len(unfinished):
        numbers = -(-sizes // branching)
        ends = np.cumsum(numbers)
        owner = np.repeat(np.arange(len(sizes)), numbers)
        within = np.arange(ends[-1]) - np.repeat(ends - numbers, numbers)
        blocks = np.zeros(len(owner), BLOCK)
        blocks["start"] = starts[owner] + within * branching
        blocks["count"] = blocks["room"] = np.minimum(branching, sizes[owner] - within * branching)
        blocks["level"], blocks["next"] = level, NONE
        all_blocks.append(blocks)
        single = numbers == 1
        roots[unfinished[single]] = known + (ends - numbers)[single]
        grows = ~single[owner]
        first = blocks["start"].astype(np.int64) - base
        children = Entries(
            np.minimum.reduceat(here.lo, first)[grows],
            np.maximum.reduceat(here.hi, first)[grows],
            np.maximum.reduceat(here.score, first)[grows],
            (known + np.arange(len(owner)))[grows],
        )
        known += len(blocks)
        base += here.size
        unfinished, sizes = unfinished[~single], numbers[~single]
        starts = base + np.cumsum(sizes) - sizes
        if len(unfinished):
            all_entries.append(children)
        here, level = children, level + 1
    return np.concatenate(all_blocks), Entries.join(all_entries), roots


def _interval_tree(kind: int, ranked: Entries, branching: int, bucket: int) -> Part:
    n = ranked.size
    ends = np.argsort(np.concatenate([ranked.lo, ranked.hi]), kind="stable").astype(np.uint32)
    members = np.arange(n, dtype=np.uint32)
    spare, side, stack = np.empty(2 * n, np.uint32), np.empty(n, np.uint8), np.empty((256, 4), np.int64)
    room = 4 * n // bucket + 64
    nodes = np.zeros(room, NODE)
    count = int(kernel.interval_tree(ranked.lo, ranked.hi, members, ends, spare, side, bucket, nodes, stack))
    assert count > 0, "an interval tree ran out of room for its nodes"
    nodes = nodes[:count].copy()
    entries = ranked.take(members)
    kernel.summarise(nodes, count, entries.lo, entries.hi, entries.score)
    if kind == LISTS:
        return Part(LISTS, 0, n, entries, nodes=nodes)
    owners = np.flatnonzero(nodes["size"] > 0)
    owners = owners[np.argsort(nodes["list"][owners])]
    starts, sizes = nodes["list"][owners].astype(np.int64), nodes["size"][owners].astype(np.int64)
    blocks, packed, roots = pack(entries, starts, sizes, branching)
    nodes["list"] = nodes["head"] = NONE
    nodes["list"][owners] = roots
    leaves = -(-sizes // branching)  # leaf blocks come first, run by run
    nodes["head"][owners] = np.cumsum(leaves) - leaves
    return Part(BLOCKS, 0, n, packed, blocks, nodes)


def _segments(ranked: Entries) -> Part:
    """Cells are the end points and the gaps between them; a node keeps the ranks of the intervals that cover it, ascending."""
    first, last, cells = cells_of(ranked.lo, ranked.hi)
    keys = np.unique(np.concatenate([ranked.lo, ranked.hi]))
    leaves = 1 << (cells - 1).bit_length()
    counts = np.zeros(2 * leaves + 1, np.uint32)
    kernel.count_copies(first, last, leaves, counts)
    starts = (np.cumsum(counts, dtype=np.int64) + len(counts)).astype(np.uint32)
    spans = np.empty(int(starts[-1]), np.uint32)
    spans[: len(starts)] = starts
    kernel.place_copies(first, last, leaves, starts, spans)
    return Part(SEGMENTS, 0, ranked.size, ranked, keys=keys, spans=spans, leaves=leaves)
