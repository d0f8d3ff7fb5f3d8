"""What must be true of a tree of a forest, verified the slow and obvious way. For tests."""

from __future__ import annotations

import numpy as np

from matchwood.structures.ranked.kernels.layout import ARRANGED, BLOCKS, LISTS, NONE, PACKED, SEGMENTS, Forest


def check_tree(state: Forest, tree: int, branching: int) -> None:
    """Every invariant of the tree's kind; AssertionError says which is broken."""
    record = state.trees[tree]
    kind, root = int(record["kind"]), int(record["root"])
    if kind in (PACKED, ARRANGED):
        places = block_entries(state, root, branching)
        start = int(record["start"])
        assert places == list(range(start, start + int(record["size"]))), (
            "a packed tree does not hold its entries in order"
        )
        _check_order(state, places, kind, float(record["slack"]))
    elif kind == SEGMENTS:
        _check_segments(state, tree)
    else:
        lo, hi = -np.inf, np.inf
        counted = _check_node(state, root, kind, branching, lo, hi)
        assert kind == BLOCKS or counted == int(record["size"]), "an interval tree has lost intervals"
    dead = np.isnan(state.lo[int(record["start"]) : int(record["start"]) + int(record["size"])]).sum()
    assert kind == BLOCKS or int(dead) == int(record["dead"]), "tombstones are miscounted"


def block_entries(state: Forest, block: int, branching: int) -> list[int]:
    """The leaf entries below a block, left to right; checks extents, best scores and levels on the way."""
    record = state.blocks[block]
    start, count, level = int(record["start"]), int(record["count"]), int(record["level"])
    assert 0 < count <= min(branching, int(record["room"])), f"block {block} has {count} entries"
    if level == 0:
        return list(range(start, start + count))
    places: list[int] = []
    for entry in range(start, start + count):
        child = int(state.link[entry])
        assert int(state.blocks[child]["level"]) == level - 1, f"block {child} is on the wrong level"
        below = block_entries(state, child, branching)
        alive = [p for p in below if not np.isnan(state.lo[p])]
        assert (state.lo[entry] <= state.lo[alive]).all(), f"the extent of block {child} begins too late"
        assert (state.hi[entry] >= state.hi[alive]).all(), f"the extent of block {child} ends too early"
        assert (state.score[entry] >= state.score[alive]).all(), f"the best score of block {child} is too low"
        places += below
    return places


def _check_order(state: Forest, places: list[int], kind: int, slack: float) -> None:
    """No interval is more than `slack` better than one before it (SOPT: before it and sharing a point)."""
    alive = [p for p in places if not np.isnan(state.lo[p])]
    lo, hi, score = state.lo[alive], state.hi[alive], state.score[alive]
    for i in range(len(alive)):
        meets = (lo[i + 1 :] <= hi[i]) & (lo[i] <= hi[i + 1 :]) if kind == ARRANGED else slice(None)
        later = score[i + 1 :][meets]
        assert not (later > score[i] + slack).any(), f"entry {alive[i]} comes before a better one"


def _check_node(state: Forest, node: int, kind: int, branching: int, low: float, high: float) -> int:
    """Check the subtree; return how many intervals it has (tombstones included)."""
    record = state.nodes[node]
    centre, size = float(record["centre"]), int(record["size"])
    bucket = np.isnan(centre)
    places: list[int] = []
    if size and kind == LISTS:
        places = list(range(int(record["list"]), int(record["list"]) + size))
    elif size:
        places = block_entries(state, int(record["list"]), branching)
        assert len(places) == size, f"node {node} counts {size} intervals and has {len(places)}"
        head = state.blocks[int(record["head"])]
        assert (head["level"], head["start"]) == (0, places[0]), f"node {node} does not know the head of its list"
    alive = [p for p in places if not np.isnan(state.lo[p])]
    lo, hi = state.lo[alive], state.hi[alive]
    if not bucket:
        assert ((lo <= centre) & (centre <= hi)).all(), f"an interval of node {node} does not hold its centre"
    else:
        assert size <= branching, f"bucket {node} has {size} intervals"
    within = ((lo > low) | (low == -np.inf)) & ((hi < high) | (high == np.inf))
    assert within.all(), f"an interval of node {node} belongs to a node above"
    keys = [(-state.score[p], state.link[p]) for p in places]
    assert keys == sorted(keys), f"the list of node {node} is not in rank order"
    best = state.score[places].max() if places else -np.inf
    assert record["own"] >= best, f"the list of node {node} is better than it says"
    assert ((record["lo"] <= lo) & (hi <= record["hi"])).all(), f"the list of node {node} is wider than it says"
    counted = len(places)
    for child, bounds in ((record["left"], (low, centre)), (record["right"], (centre, high))):
        if child != NONE:
            assert not bucket, f"bucket {node} has a child"
            counted += _check_node(state, int(child), kind, branching, *bounds)
            best = max(best, float(state.nodes[int(child)]["best"]))
    assert record["best"] >= best, f"node {node} promises too little"
    assert int(record["weight"]) == counted, f"node {node} has the wrong weight"
    return counted


def _check_segments(state: Forest, tree: int) -> None:
    """Every interval covers each cell of its own once, on the way from the leaf to the root, and no other."""
    record = state.trees[tree]
    start, size, leaves = int(record["start"]), int(record["size"]), int(record["leaves"])
    keys = state.keys[int(record["first_key"]) : int(record["first_key"]) + int(record["keys"])]
    spans = state.spans[int(record["first_span"]) : int(record["first_span"]) + int(record["spans"])]
    lo, hi = state.lo[start : start + size], state.hi[start : start + size]
    for cell in range(2 * len(keys) - 1):
        x, y = keys[cell // 2], keys[-(-cell // 2)]
        node, found = leaves + cell, []
        while node:
            copies = spans[spans[node] : spans[node + 1]].tolist()
            assert copies == sorted(copies), f"the list of segment {node} is not in rank order"
            found += copies
            node >>= 1
        alive = [i for i in found if not np.isnan(lo[i])]
        expected = np.flatnonzero((lo <= x) & (y <= hi)).tolist()
        assert sorted(alive) == expected, f"cell {cell} is covered by the wrong intervals"
