"""What an MO-Tree promises, verified node by node. In Python, for tests: O(n * planes)."""

from __future__ import annotations

import numpy as np

from matchwood.store.kernels.rows import NARROWS, SET, Store
from matchwood.store.pool_check import chain
from matchwood.store.row_store import set_of
from matchwood.structures.mo_tree.kernels import layout as kernel
from matchwood.structures.mo_tree.kernels.layout import Tree, TreeCount

_ENDS = (("first", "next"), ("spare", "spare"))


def check_tree(tree: Tree, store: Store, rows: int) -> None:
    """Raise AssertionError, saying which node or slot, if an invariant of `kernels.layout` is broken."""
    _Checker(tree, store).walk(rows)


class _Checker:
    def __init__(self, tree: Tree, store: Store) -> None:
        self.tree, self.store = tree, store

    def walk(self, rows: int) -> None:
        tree, none = self.tree, int(kernel.NONE)
        total = buckets = 0
        reached: set[int] = set()
        for number, head in enumerate(tree.directory):
            nodes, spare = (chain(int(head[end]), tree.nodes[link]) for end, link in _ENDS)
            buckets += bool(nodes)
            assert not reached & set(nodes), f"bucket {number} shares a node"
            reached |= set(nodes)
            for n in nodes:
                assert tree.nodes[n]["number"] == number, f"node {n} hangs in the wrong bucket"
            with_room = {n for n in nodes if tree.nodes[n]["count"] < kernel.LINE_ROWS}
            assert set(spare) == with_room, f"bucket {number}: wrong spare nodes"
        for n in sorted(reached):
            valid = self._heads(tree.nodes[n], kernel.VALID)
            assert valid.sum() == tree.nodes[n]["count"] > 0, f"node {n}: rows are miscounted"
            total += int(valid.sum())
            self._check_planes(n, valid)
        free = chain(int(tree.counts[TreeCount.FREE_NODE]), tree.nodes["next"])
        assert sorted([*reached, *free]) == list(range(tree.counts[TreeCount.NODES])), "a node is lost or doubled"
        assert none not in reached
        assert total == rows, "buckets and live rows differ"
        assert buckets == tree.counts[TreeCount.BUCKETS], "buckets are miscounted"

    def _heads(self, node: np.void, number: int) -> np.ndarray:
        """A bit a position of the words before the planes."""
        words, start = int(node["words"]), int(node["start"])
        at = start + number * words
        return np.unpackbits(self.tree.bits[at : at + words].view(np.uint8), bitorder="little").astype(bool)

    def _check_planes(self, n: int, valid: np.ndarray) -> None:
        tree, store = self.tree, self.store
        node = tree.nodes[n]
        words, start = int(node["words"]), int(node["start"])
        planes = int(tree.counts[TreeCount.PLANES])
        at = start + kernel.HEAD_WORDS * words
        region = tree.bits[at : at + planes * words].reshape(planes, words).view(np.uint8)
        bits = np.unpackbits(region, axis=1, bitorder="little").astype(bool)
        for a in range(min(2, int(tree.counts[TreeCount.SLICED]))):
            plane, slices = int(tree.axes[a]["plane"]), int(tree.axes[a]["slices"])
            held = bits[plane : plane + slices + 1][:, valid].any(axis=1)
            reached = np.array([int(node[f"reach_{a}"]) >> j & 1 for j in range(slices + 1)])
            assert (reached >= held).all(), f"node {n}: a row holds where the node does not reach"
        for position in np.flatnonzero(valid).tolist():
            slot = int(tree.members[2 * start + position])
            place = tree.places[slot]
            assert (int(place["node"]), int(place["position"])) == (n, position), f"slot {slot} is misplaced"
            number = np.zeros(1, np.uint32)
            kernel.locate_rows(tree, store, np.array([slot], np.uint32), number)
            assert number[0] == node["number"], f"slot {slot} stands in the wrong bucket"
            self._check_row(slot, node, bits[:, position])

    def _check_row(self, slot: int, node: np.void, bits: np.ndarray) -> None:
        tree, store = self.tree, self.store
        row = store.rows[slot]
        first = int(row["start"])
        expected = np.ones(len(bits), bool)
        for entry in store.entries[first : first + int(row["count"])]:
            dim = int(entry["dim"])
            if entry["kind"] & NARROWS or dim >= len(tree.axis_of) or tree.axis_of[dim] == kernel.NO_AXIS:
                continue
            axis = tree.axes[tree.axis_of[dim]]
            if axis["slices"] == 0:
                continue
            plane, slices = int(axis["plane"]), int(axis["slices"])
            expected[plane : plane + slices + 1] = False
            for begin, end in _parts(store.entries, first, entry):
                low, high = (self._slice(axis, node, key) for key in (begin, end))
                expected[plane + low : plane + high + 1] = True
            if np.isnan(entry["lo"]):
                expected[plane : plane + slices] = False
                expected[plane + slices] = True
        assert (bits == expected).all(), f"slot {slot}: wrong planes {np.flatnonzero(bits != expected).tolist()}"

    def _slice(self, axis: np.void, node: np.void, key: float) -> int:
        tick = self._tick(axis, key)
        if not axis["cells"]:
            return tick
        cell = self._cell(axis, int(node["number"]))
        inside = min(max(tick - int(cell["first"]), 0), int(cell["width"]) - 1)
        return inside * int(axis["slices"]) // int(cell["width"])

    def _tick(self, axis: np.void, key: float) -> int:
        cuts = self.tree.cuts[int(axis["first_cut"]) : int(axis["first_cut"]) + int(axis["cuts"])]
        return int(np.searchsorted(cuts, key, side="right"))

    def _cell(self, axis: np.void, number: int) -> np.void:
        cell: np.void = self.tree.cells[int(axis["first_cell"]) + number // int(axis["radix"]) % int(axis["cells"])]
        return cell


def _parts(entries: np.ndarray, first: int, entry: np.void) -> list[tuple[float, float]]:
    """The intervals of a main entry."""
    if np.isnan(entry["lo"]):
        return []
    if not entry["kind"] & SET:
        return [(float(entry["lo"]), float(entry["hi"]))]
    return set_of(entries, first + int(entry["more"]))
