"""What a BE*-Tree promises, verified bucket by bucket, and its picture. In Python, for tests: O(n * entries * depth)."""

from __future__ import annotations

import numpy as np

from matchwood.store.kernels.rows import ABSENT, NARROWS, NONE, Store
from matchwood.store.pool_check import chain, check_regions, freed
from matchwood.store.reading import Slots
from matchwood.structures.be_star.kernels import layout
from matchwood.structures.be_star.kernels.bounds import LARGE
from matchwood.structures.be_star.kernels.layout import Split, Tree

_NONE = int(NONE)
Hull = tuple[float, float]
EMPTY: Hull = (np.inf, -np.inf)


def check_tree(tree: Tree, store: Store, live: Slots) -> None:
    """Raise AssertionError, saying which bucket, if an invariant of `kernels.layout` is broken."""
    checker = _Checker(tree, store)
    checker.walk()
    assert sorted(checker.rows) == live.tolist(), "leaf rows and live rows differ"
    assert len(checker.reached) == tree.counts["live_buckets"][0], "buckets are miscounted"
    checker.check_pools()


def hull(a: Hull, b: Hull) -> Hull:
    return min(a[0], b[0]), max(a[1], b[1])


class _Checker:
    def __init__(self, tree: Tree, store: Store) -> None:
        self.tree, self.store = tree, store
        self.rows: list[int] = []
        self.reached: list[int] = []
        self.p_nodes = 0
        self.loose = False
        self.rigid = tree.options["split"][0] == Split.RIGID

    def walk(self) -> None:
        """Depth first from the root with an explicit stack: parents before children, so hulls are made in reverse."""
        order: list[tuple[int, list[int]]] = []
        pending: list[tuple[int, list[int]]] = [(0, [])]
        while pending:
            b, dims = pending.pop()
            order.append((b, dims))
            self.reached.append(b)
            pending += self._below(b, dims)
        assert len(set(self.reached)) == len(self.reached), "a bucket is reached twice"
        reached = self.tree.buckets[self.reached]
        self.loose = bool(((reached["stale"] > 0) & (reached["leaf_size"] > LARGE)).any())
        totals: dict[int, tuple[list[Hull], int, list[float]]] = {}
        for b, dims in reversed(order):
            totals[b] = self._check_bucket(b, dims, totals)
        assert self.p_nodes == self.tree.counts["live_p_nodes"][0], "p-nodes are miscounted"

    def _below(self, b: int, dims: list[int]) -> list[tuple[int, list[int]]]:
        bucket = self.tree.buckets[b]
        assert bucket["live"], f"bucket {b} is freed but reachable"
        assert bucket["level"] == len(dims), f"bucket {b}: wrong level"
        below = []
        for side in ("left", "right"):
            child = int(bucket[side])
            if child != _NONE:
                c = self.tree.buckets[child]
                assert (c["parent"], c["owner"]) == (b, bucket["owner"]), f"bucket {child} does not know its parent {b}"
                assert c["dim"] == bucket["dim"], f"bucket {child} clusters another dimension than {b}"
                below.append((child, dims))
        last = -1
        for part in self._p_nodes(b):
            root = self.tree.buckets[int(part["root"])]
            assert part["dim"] > last, f"bucket {b}: the p-directory is not sorted"
            last = int(part["dim"])
            assert last not in dims, f"bucket {b}: dimension {last} is partitioned twice on one path"
            assert (root["dim"], root["owner"]) == (last, b), (
                f"bucket {b}: p-node {last} leads to a bucket of another dimension or owner"
            )
            assert root["parent"] == _NONE, f"bucket {b}: p-node {last} does not lead to a root"
            below.append((int(part["root"]), [*dims, last]))
            self.p_nodes += 1
        return below

    def _p_nodes(self, b: int) -> np.ndarray:
        bucket = self.tree.buckets[b]
        start = int(bucket["p_nodes"])
        return self.tree.p_nodes[start : start + int(bucket["p_size"])] if bucket["p_size"] else self.tree.p_nodes[:0]

    def _leaf(self, b: int) -> list[int]:
        bucket = self.tree.buckets[b]
        start, size = int(bucket["leaf"]), int(bucket["leaf_size"])
        return self.tree.leaf_rows["slot"][start : start + size].tolist() if size else []

    def _check_bucket(
        self, b: int, dims: list[int], totals: dict[int, tuple[list[Hull], int, list[float]]]
    ) -> tuple[list[Hull], int, list[float]]:
        """Verify one bucket; return the hull of its rows in each of `dims`, their number, and the largest summaries."""
        bucket = self.tree.buckets[b]
        slots = self._leaf(b)
        self.rows += slots
        own, count, bounds = [EMPTY] * len(dims), len(slots), [-np.inf] * 3
        self._check_home(b, slots)
        partitioned = {int(part["dim"]) for part in self._p_nodes(b)}
        for at, slot in enumerate(slots):
            home = self.tree.homes[slot]
            assert (home["bucket"], home["at"]) == (b, at), f"slot {slot} does not know its home {b}"
            intervals = _intervals(self.store, slot)
            assert not partitioned & set(intervals), f"slot {slot} lies in the leaf of {b} but has a p-node there"
            own = [hull(h, intervals[d]) for h, d in zip(own, dims, strict=True)]
            summary = _summary(self.store, slot)
            bounds = list(map(max, bounds, summary))
            row = self.tree.leaf_rows[int(bucket["leaf"]) + at]
            assert row["max_score"] >= summary[0], f"slot {slot}: the bound of its score does not dominate"
            assert int(row["needs"]) == _needs(self.store, slot), f"slot {slot}: wrong signature"
        self._check_bounds(b, "leaf_", bounds)
        for part in self._p_nodes(b):
            hulls, rows, summary = totals[int(part["root"])]
            assert rows > 0, f"bucket {b}: p-node {part['dim']} is empty"
            assert part["rows"] == rows, f"bucket {b}: p-node {part['dim']} miscounts its rows"
            own = [hull(a, h) for a, h in zip(own, hulls, strict=False)]
            count, bounds = count + rows, list(map(max, bounds, summary))
        total = own
        for child in self._children(b):
            hulls, rows, summary = totals[child]
            assert rows > 0, f"bucket {child} is empty"
            total = [hull(a, h) for a, h in zip(total, hulls, strict=True)]
            count, bounds = count + rows, list(map(max, bounds, summary))
        assert bucket["rows"] == count, f"bucket {b} miscounts its rows"
        self._check_bounds(b, "max_", bounds)
        self._check_boundaries(b, own, total)
        self._check_capacity(b)
        return total, count, bounds

    def _check_home(self, b: int, slots: list[int]) -> None:
        """Every row is in the smallest bucket that encloses it: no child of its bucket does, nor one of a bucket whose p-node
        leads there. And what the rows are said to share, they share. A rigid bucket merges a cell into its parent and may
        get it again: its rows need not follow."""
        if self.rigid:
            return
        intervals = [_intervals(self.store, slot) for slot in slots]
        at = b
        while self.tree.buckets[at]["level"] > 0:
            bucket = self.tree.buckets[at]
            children = [self.tree.buckets[c] for c in (int(bucket["left"]), int(bucket["right"])) if c != _NONE]
            core = float(bucket["cell_lo"]), float(bucket["cell_hi"])
            for slot, row in zip(slots, intervals, strict=True):
                lo, hi = row[int(bucket["dim"])]
                for child in children:
                    inside = child["lo"] <= lo and hi <= child["hi"]
                    assert not inside, (
                        f"slot {slot} is bucket {at}'s own, but a child encloses it: it has a smaller home"
                    )
                shared = core[0] > core[1] or (lo <= core[0] and core[1] <= hi)
                assert shared, f"bucket {at}: slot {slot} lacks a part of what all own rows share"
            at = int(bucket["owner"])

    def _children(self, b: int) -> list[int]:
        sides = [int(self.tree.buckets[b][side]) for side in ("left", "right")]
        children = [child for child in sides if child != _NONE]
        if len(children) == 2:
            left, right = (self.tree.buckets[child] for child in children)
            apart = left["hi"] < right["lo"] or right["hi"] < left["lo"]
            if self.rigid:
                apart = np.nextafter(left["hi"], np.inf) == right["lo"]
            assert apart, f"the children of bucket {b} overlap"
        return children

    def _check_bounds(self, b: int, prefix: str, bounds: list[float]) -> None:
        bucket = self.tree.buckets[b]
        for name, least in zip(("score", "weights", "priority"), bounds, strict=True):
            assert bucket[prefix + name] >= least, f"bucket {b}: {prefix}{name} does not dominate"

    def _check_boundaries(self, b: int, own: list[Hull], total: list[Hull]) -> None:
        """Boundaries are exact, but for buckets above a large leaf that has not been rebuilt since a deletion."""
        bucket = self.tree.buckets[b]
        if not own:
            return
        boxes = int(bucket["boxes"])
        stored = [(float(x["lo"]), float(x["hi"])) for x in self.tree.boxes[boxes : boxes + len(total) - 1]]
        stored.append((float(bucket["lo"]), float(bucket["hi"])))
        if self.rigid:
            low, high = float(bucket["lo"]), float(bucket["hi"])
            assert low <= total[-1][0], f"bucket {b}: a row begins before its cell {low} .. {high}"
            assert total[-1][1] <= high, f"bucket {b}: a row ends after its cell {low} .. {high}"
            return
        pairs = [*zip(stored, total, strict=True), ((float(bucket["own_lo"]), float(bucket["own_hi"])), own[-1])]
        for kept, exact in pairs:
            encloses = kept[0] <= exact[0] and kept[1] >= exact[1]
            right = encloses if self.loose else kept == exact
            assert right, f"bucket {b}: boundary {kept} where the rows span {exact}"

    def _check_capacity(self, b: int) -> None:
        bucket = self.tree.buckets[b]
        assert bucket["leaf_size"] <= bucket["capacity"], f"bucket {b} overflows"
        if bucket["capacity"] > self.tree.options["capacity"][0] and bucket["leaf_size"] > 2 * bucket["capacity"]:
            raise AssertionError(f"bucket {b} was allowed to grow without need")

    def check_pools(self) -> None:
        """Every bucket, leaf region, p-directory and box region is either in use or in one free list."""
        tree, counts = self.tree, self.tree.counts[0]
        used = tree.buckets[self.reached]
        free = chain(int(counts["free_bucket"]), tree.buckets["left"])
        assert sorted([*free, *self.reached]) == list(range(counts["buckets"])), "a bucket is lost or doubled"
        leaves = [(int(x["leaf"]), 1 << int(x["leaf_class"])) for x in used if x["leaf_class"] != layout.NO_CLASS]
        parts = [(int(x["p_nodes"]), 1 << int(x["p_class"])) for x in used if x["p_class"] != layout.NO_CLASS]
        boxes = [(int(x["boxes"]), int(x["level"]) - 1) for x in used if x["level"] > 1]
        for class_ in range(layout.CLASSES):
            leaves += freed(tree.free[layout.LEAF_REGIONS, class_], 1 << class_, tree.leaf_rows["slot"])
            parts += freed(tree.free[layout.P_REGIONS, class_], 1 << class_, tree.p_nodes["root"])
        for size in range(1, layout.MAX_LEVEL + 1):
            boxes += freed(tree.free[layout.BOX_REGIONS, size], size, tree.boxes["lo"])
        check_regions("leaf rows", leaves, int(counts["leaf_rows"]))
        check_regions("p-nodes", parts, int(counts["p_nodes"]))
        check_regions("boxes", boxes, int(counts["boxes"]))


def _entries(store: Store, slot: int) -> np.ndarray:
    row = store.rows[slot]
    return store.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]


def _intervals(store: Store, slot: int) -> dict[int, Hull]:
    """The first usable hull of the row on each of its dimensions."""
    found: dict[int, Hull] = {}
    for entry in _entries(store, slot):
        if not entry["kind"] & (ABSENT | NARROWS):
            found.setdefault(int(entry["dim"]), (float(entry["lo"]), float(entry["hi"])))
    return found


def _needs(store: Store, slot: int) -> int:
    needs = 0
    for entry in _entries(store, slot):
        if entry["kind"] != ABSENT:
            needs |= 1 << (int(entry["dim"]) % 64)
    return needs


def _summary(store: Store, slot: int) -> list[float]:
    weights = float(_entries(store, slot)["weight"].sum())
    priority = float(store.rows[slot]["priority"])
    return [priority + weights, weights, priority]


def dot_of(tree: Tree, max_buckets: int) -> str:
    """Graphviz text of the first buckets, breadth first; p-nodes are the labels of their edges."""
    lines = ["digraph be_star_tree {", "  node [shape=record, fontsize=9];"]
    pending, shown = [0], 0
    while pending and shown < max_buckets:
        b = pending.pop(0)
        shown += 1
        bucket = tree.buckets[b]
        span = "root" if bucket["level"] == 0 else f"{bucket['lo']:.6g} .. {bucket['hi']:.6g}"
        lines.append(f'  b{b} [label="{{{span}|{bucket["leaf_size"]} leaf rows of {bucket["rows"]}}}"];')
        for side in ("left", "right"):
            if bucket[side] != NONE:
                lines.append(f'  b{b} -> b{bucket[side]} [label="{side}", style=dashed];')
                pending.append(int(bucket[side]))
        start = int(bucket["p_nodes"])
        for part in tree.p_nodes[start : start + int(bucket["p_size"])] if bucket["p_size"] else []:
            lines.append(f'  b{b} -> b{part["root"]} [label="dim {part["dim"]}"];')
            pending.append(int(part["root"]))
    return "\n".join([*lines, "}"])
