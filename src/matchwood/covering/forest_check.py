"""The invariants of the forest, verified in plain Python; stress tests call it after every step."""

from __future__ import annotations

from collections import Counter

import numpy as np

from matchwood.covering.kernels import forest as kernel
from matchwood.covering.kernels.forest import CoverForest
from matchwood.covering.kernels.signatures import child_of
from matchwood.store.kernels.rows import ABSENT, COUNTED, NARROWS, NONE
from matchwood.store.pool_check import check_regions, freed
from matchwood.store.row_store import RowStore, bounds_of, set_of

_NONE = int(NONE)


def check_forest(forest: CoverForest, store: RowStore) -> None:
    """Walk every tree and the trie. O(n)."""
    counts = forest.counts
    seen: list[int] = []
    nodes = 0
    for g in range(int(counts[kernel.GROUPS])):
        root = int(forest.groups[g]["root"])
        if root != _NONE:
            assert int(forest.nodes[root]["parent"]) == _NONE, f"group {g}: the root has a parent"
            nodes += _check_tree(forest, store, g, root, seen)
    assert sorted(seen) == sorted(set(seen)), "a row is in two leaves"
    assert sorted(seen) == store.live_slots().tolist(), "the rows of the trees and of the store differ"
    assert len(seen) == counts[kernel.ROWS], "rows are miscounted"
    assert nodes == counts[kernel.LIVE_NODES], "live nodes are miscounted"
    _check_trie(forest)
    _check_regions(forest)


def _check_tree(forest: CoverForest, store: RowStore, g: int, root: int, seen: list[int]) -> int:
    group = forest.groups[g]
    width = int(group["width"])
    stack: list[tuple[int, np.ndarray, np.ndarray]] = [(root, np.full(width, -np.inf), np.full(width, np.inf))]
    nodes = 0
    while stack:
        n, low, high = stack.pop()
        nodes += 1
        node = forest.nodes[n]
        assert int(node["group"]) == g, f"node {n} belongs to another group"
        points, members = _below(forest, n, width)
        assert len(members) == int(node["count"]) >= int(n == root), f"node {n}: its rows are miscounted"
        assert ((points > low) | (low == -np.inf)).all(), f"node {n}: a point is not above the split to its left"
        assert (points <= high).all(), f"node {n}: a point is above the split to its right"
        if n != root:
            above = forest.nodes[int(node["parent"])]
            corner = 2 * int(above["corners"]) + (0 if int(above["left"]) == n else int(group["stride"]))
            assert (points <= forest.corners[corner : corner + width]).all(), f"node {n}: a point exceeds the corner"
        if node["leaf"] == 1:
            _check_leaf(forest, store, n, members, points, seen)
            continue
        dim, split = int(node["dim"]), float(node["split"])
        for child, is_right in ((int(node["left"]), False), (int(node["right"]), True)):
            assert int(forest.nodes[child]["parent"]) == n, f"node {child}: wrong parent"
            lower, upper = low.copy(), high.copy()
            if is_right:
                lower[dim] = split
            else:
                upper[dim] = split
            stack.append((child, lower, upper))
    return nodes


def _check_leaf(
    forest: CoverForest, store: RowStore, n: int, members: list[int], points: np.ndarray, seen: list[int]
) -> None:
    overflow = int(forest.counts[kernel.OVERFLOW])
    if len(members) > overflow and points.shape[1]:
        allowed = 2 * int(forest.nodes[n]["built"])
        assert len(members) <= max(allowed, overflow), f"leaf {n} overflows"
    for at, member in enumerate(members):
        slot = member & int(kernel.SLOT_MASK)
        assert (int(forest.places[slot]["leaf"]), int(forest.places[slot]["at"])) == (n, at), (
            f"slot {slot}: wrong place"
        )
        entries = _hulls(store, slot)
        expected = [end for item in sorted(entries) if item % 2 == 0 for end in (-entries[item][0], entries[item][1])]
        assert points[at].tolist() == expected, f"slot {slot}: wrong point"
        seen.append(slot)


def _hulls(store: RowStore, slot: int) -> dict[int, tuple[float, float]]:
    row = store.state.rows[slot]
    found: dict[int, tuple[float, float]] = {}
    start, all_entries = int(row["start"]), store.state.entries
    for entry in all_entries[start : start + int(row["count"])]:
        item = 2 * int(entry["dim"]) + int(entry["kind"] == ABSENT)
        if entry["kind"] == COUNTED:
            first = start + int(entry["more"])
            parts, (least, _) = set_of(all_entries, first), bounds_of(all_entries, first)
            needed = [[part] for part in parts] if least == len(parts) else [parts] if least else []
            for set_ in needed:
                lo, hi = found[item]
                found[item] = max(lo, set_[0][0]), min(hi, set_[-1][1])
        elif not entry["kind"] & NARROWS:
            found[item] = float(entry["lo"]), float(entry["hi"])
    return found


def _below(forest: CoverForest, n: int, width: int) -> tuple[np.ndarray, list[int]]:
    node = forest.nodes[n]
    if node["leaf"] != 1:
        left, right = _below(forest, int(node["left"]), width), _below(forest, int(node["right"]), width)
        return np.concatenate([left[0], right[0]]), left[1] + right[1]
    start, count, capacity = int(node["start"]), int(node["count"]), int(node["capacity"])
    columns = forest.points[start + capacity : start + capacity * (width + 1)].reshape(width, capacity)
    return columns[:, :count].T, forest.words[start : start + count].tolist()


def _check_trie(forest: CoverForest) -> None:
    live: Counter[int] = Counter()
    for g in range(int(forest.counts[kernel.GROUPS])):
        group = forest.groups[g]
        root = int(group["root"])
        rows = 0 if root == _NONE else int(forest.nodes[root]["count"])
        t = 0
        live[t] += rows
        items = forest.items[int(group["first"]) : int(group["first"]) + int(group["size"])]
        assert (np.diff(items.astype(np.int64)) > 0).all(), f"group {g}: its items do not ascend"
        for item in items:
            t = int(child_of(forest, t, item))
            assert t >= 0, f"group {g}: its path is not in the trie"
            live[t] += rows
        assert int(forest.tries[t]["group"]) == g, f"group {g}: its trie node names another group"
    for t in range(int(forest.counts[kernel.TRIES])):
        assert int(forest.tries[t]["live"]) == live[t], f"trie node {t}: live rows are miscounted"


def _check_regions(forest: CoverForest) -> None:
    """Regions in use and free ones cover the pool and do not overlap."""
    regions = []
    for n in range(int(forest.counts[kernel.NODES])):
        node = forest.nodes[n]
        if node["leaf"] == kernel.FREE_NODE:
            continue
        group = forest.groups[int(node["group"])]
        if node["leaf"] == 1 and int(node["capacity"]):
            regions.append((int(node["start"]), int(node["capacity"]) * (int(group["width"]) + 1)))
        if node["leaf"] == kernel.INNER:
            regions.append((int(node["corners"]), int(group["stride"])))
    spans = [(start, int(kernel.region_size(kernel.region_class(size)))) for start, size in regions if size]
    for class_ in range(kernel.COUNTS - kernel.REGIONS):
        size = int(kernel.region_size(class_))
        spans += freed(forest.counts[kernel.REGIONS + class_], size, forest.words, end=-1)
    check_regions("words", spans, int(forest.counts[kernel.WORDS]))
