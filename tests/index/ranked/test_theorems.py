"""What Ranked proves of its structures, and its running example."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from matchwood.structures.ranked import STRUCTURES, EndpointIntervalTree, IntervalTree, IRTree, SegmentTree, SOPTRTree
from matchwood.structures.ranked.constraint_graph import arrangement, constraint_graph
from matchwood.structures.ranked.kernels.layout import NONE
from matchwood.structures.ranked.parts import Entries, in_rank_order
from matchwood.workloads import Ranked
from tests.index.ranked.naive import EXAMPLE, columns, some_intervals, stabbed


def naive_graph(lo: np.ndarray, hi: np.ndarray) -> set[tuple[int, int]]:
    """Edges by the definition: a point of both that nobody ranked between them holds."""
    ends = sorted({*lo.tolist(), *hi.tolist()})
    points = ends + [(a + b) / 2 for a, b in itertools.pairwise(ends)]
    edges = set()
    for p in points:
        held = [i for i in range(len(lo)) if lo[i] <= p <= hi[i]]
        edges.update(itertools.pairwise(held))
    return edges


def ranked(seed: int, n: int) -> Entries:
    rng = np.random.default_rng(seed)
    lo = rng.integers(0, 40, n).astype(float)
    return in_rank_order(Entries(lo, lo + rng.integers(0, 12, n), rng.integers(0, 9, n).astype(float), np.arange(n)))


@pytest.mark.parametrize("seed", range(20))
def test_the_constraint_graph_is_the_one_defined_with_at_most_3n_edges(seed: int) -> None:
    entries = ranked(seed, 5 + 4 * seed)
    graph = constraint_graph(entries.lo, entries.hi)
    assert set(graph.pairs()) == naive_graph(entries.lo, entries.hi)
    assert graph.edges <= 3 * entries.size
    assert np.bincount([j for _, j in graph.pairs()], minlength=entries.size).tolist() == graph.degree.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_the_arrangement_takes_the_leftmost_free_interval_each_time(seed: int) -> None:
    entries = ranked(seed, 40)
    edges = naive_graph(entries.lo, entries.hi)
    left, expected = set(range(entries.size)), []
    while left:
        free = [i for i in left if not any(j == i and k in left for k, j in edges)]
        expected.append(min(free, key=lambda i: (entries.lo[i], i)))
        left.remove(expected[-1])
    assert arrangement(entries.lo, entries.hi).tolist() == expected


@pytest.mark.parametrize("workload", ["uniform", "paper", "points"])
def test_a_large_graph_keeps_to_3n_edges(workload: str) -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    if workload == "paper":
        rows = Ranked(size=n).subscriptions()
        lo, hi = rows.lo[np.argsort(-rows.weight)], rows.hi[np.argsort(-rows.weight)]
    else:
        lo = rng.random(n)
        hi = lo if workload == "points" else lo + 0.1 * rng.random(n)
    assert constraint_graph(lo, hi).edges <= 3 * n


@pytest.mark.parametrize("branching", [4, 32])
@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("width", [0.0002, 0.02, 0.6])
def test_a_sopt_r_tree_opens_at_most_2k_nodes_a_level(branching: int, k: int, width: float) -> None:
    rng = np.random.default_rng(3)
    lo = rng.random(20_000)
    hi = lo + width * rng.random(len(lo))
    tree = SOPTRTree.build(lo, hi, rng.random(len(lo)), branching=branching)
    for q in rng.random(200).tolist():
        tree.visits[:] = 0
        # The batch looks one hit ahead: k + 1 are found.
        tree.top_k(q, k)
        assert tree.visits[:-1].max() <= 2 * (k + 1)


@pytest.mark.parametrize("seed", range(4))
def test_a_stabbed_block_of_an_ir_tree_has_a_stabbed_interval(seed: int) -> None:
    held = some_intervals(np.random.default_rng(seed), 600)
    tree = IRTree.build(*columns(held), branching=4)
    extra = some_intervals(np.random.default_rng(100 + seed), 300, 1000)
    tree.insert(*columns(extra))
    tree.delete(*columns(held, list(held)[::3]))
    state = tree.state

    def leaves(block: int) -> list[int]:
        record = state.blocks[block]
        run = range(int(record["start"]), int(record["start"]) + int(record["count"]))
        return list(run) if record["level"] == 0 else [p for e in run for p in leaves(int(state.link[e]))]

    tested = 0
    nodes = [int(state.trees[0]["root"])]
    for at in nodes:
        node = state.nodes[at]
        nodes += [int(child) for child in (node["left"], node["right"]) if child != NONE]
        stack = [] if node["list"] == NONE else [int(node["list"])]
        while stack:
            record = state.blocks[stack.pop()]
            for entry in range(int(record["start"]), int(record["start"]) + int(record["count"])):
                if record["level"] == 0:
                    continue
                child = int(state.link[entry])
                below = leaves(child)
                stack.append(child)
                for q in np.linspace(max(state.lo[entry], -1), min(state.hi[entry], 50), 23):
                    assert ((state.lo[below] <= q) & (q <= state.hi[below])).any()
                    tested += 1
    assert tested > 100


@pytest.mark.parametrize("branching", [2, 4, 16, 50])
def test_an_ir_tree_takes_at_most_two_of_b_minus_one_more_entries_than_the_interval_tree(branching: int) -> None:
    rows = Ranked(size=30_000).subscriptions()
    tree = IRTree.build(rows.lo, rows.hi, rows.weight, branching=branching)
    lists = IntervalTree.build(rows.lo, rows.hi, rows.weight, branching=branching)
    assert tree.inner_entries <= 2 / (branching - 1) * rows.size
    nodes = lists.nodes * 64
    blocks = 16 * (tree.nodes - lists.nodes)
    assert tree.nbytes - lists.nbytes - blocks <= 2 / (branching - 1) * 32 * rows.size + 4096
    assert nodes < lists.nbytes


def test_a_segment_tree_keeps_at_most_two_copies_a_level() -> None:
    rng = np.random.default_rng(4)
    n = 5000
    lo = rng.random(n)
    tree = SegmentTree.build(lo, lo + rng.random(n), rng.random(n))
    levels = int(tree.state.trees[0]["leaves"]).bit_length()
    assert n <= tree.copies <= 2 * levels * n


@pytest.mark.parametrize("bound", [("interval", 40), ("r", 45), ("sopt", 45), ("ir", 60)])
def test_bytes_an_interval_stay_within_their_bound(bound: tuple[str, int]) -> None:
    rows = Ranked(size=50_000).subscriptions()
    tree = STRUCTURES[bound[0]].build(rows.lo, rows.hi, rows.weight, branching=50)
    assert tree.nbytes <= bound[1] * rows.size


def test_updates_of_a_sopt_r_tree_rebuild_each_interval_logarithmically_often(monkeypatch: pytest.MonkeyPatch) -> None:
    built = 0
    plain = SOPTRTree._part

    def counted(self: SOPTRTree, entries: Entries) -> object:
        nonlocal built
        built += entries.size
        return plain(self, entries)

    monkeypatch.setattr(SOPTRTree, "_part", counted)
    tree, n = SOPTRTree(branching=4), 512
    held = some_intervals(np.random.default_rng(2), n)
    for i in held:
        tree.insert(*columns(held, [i]))
    assert built <= n * (2 + np.log2(n))
    assert len(tree.trees()) <= 1 + np.log2(n)
    built = 0
    for i in list(held):
        tree.delete(*columns(held, [i]))
    assert built <= 4 * n
    assert len(tree) == 0


class TestTheRunningExample:
    """Ranked's ten intervals: the statements of Examples 1, 2, 4 and 5 and of Figures 2 to 5 that the text makes."""

    def test_the_interval_tree_splits_them_as_in_figure_2(self) -> None:
        tree = IntervalTree.build(*columns(EXAMPLE), branching=4)
        state = tree.state
        lists = []
        for node in state.nodes[:3]:
            run = slice(int(node["list"]), int(node["list"]) + int(node["size"]))
            lists.append(state.link[run].tolist())
        assert lists == [[1, 3, 10], [5, 6, 9], [2, 4, 7, 8]]

    def test_a_point_between_75_and_90_stabs_five_of_them(self) -> None:
        for structure in STRUCTURES.values():
            tree = structure.build(*columns(EXAMPLE), branching=4)
            assert [i for i, _ in tree.stab(80.0)] == [2, 4, 7, 8, 10]
        assert [i for i, _ in EndpointIntervalTree.build(*columns(EXAMPLE)).stab(80.0)] == [2, 4, 7, 8, 10]

    def test_interval_9_is_cut_into_nodes_between_10_and_45(self) -> None:
        tree = SegmentTree.build(*columns(EXAMPLE))
        keys = tree.state.keys.tolist()
        assert keys == [0, 10, 30, 45, 55, 65, 75, 90, 100]
        leaves, spans = int(tree.state.trees[0]["leaves"]), tree.state.spans
        nodes = [v for v in range(1, 2 * leaves) if 8 in spans[spans[v] : spans[v + 1]]]
        assert 2 <= len(nodes) <= 2 * leaves.bit_length()
        cells: list[int] = []
        for node in nodes:
            depth = leaves.bit_length() - node.bit_length()
            cells += range((node << depth) - leaves, ((node + 1) << depth) - leaves)
        assert sorted(cells) == list(range(2, 7))  # 10, the gap, 30, the gap, 45

    def test_the_constraint_graph_of_figure_5(self) -> None:
        lo, hi, _, _ = columns(EXAMPLE)
        edges = {(i + 1, j + 1) for i, j in constraint_graph(lo, hi).pairs()}
        assert {(1, 3), (1, 9), (3, 10)} <= edges
        assert (1, 10) not in edges
        assert len(edges) <= 30

    def test_the_scored_r_tree_opens_every_leaf_for_90_and_the_sopt_r_tree_one_less(self) -> None:
        opened = {}
        for name in ("r", "sopt"):
            tree = STRUCTURES[name].build(*columns(EXAMPLE), branching=4)
            tree.visits[:] = 0
            assert list(tree.stab(90.0)) == stabbed(EXAMPLE, 90.0)
            opened[name] = int(tree.visits[0])
        assert opened == {"r": 3, "sopt": 2}

    def test_every_structure_ranks_every_point_alike(self) -> None:
        for structure in STRUCTURES.values():
            tree = structure.build(*columns(EXAMPLE), branching=2)
            tree.check()
            for q in np.arange(-5, 106, 2.5).tolist():
                assert list(tree.stab(q)) == stabbed(EXAMPLE, q)
