"""Covering: Tables I and II, Figures 8 to 12, reduction of large sets, and networks of routers (Covering V, and more).

    reporting_modes   Tables I and II, Figures 8 and 9
    comparison        Figures 10 to 12
    graphs            G_1, G* and the strict poset
    reduction         `reduce` over a million subscriptions (not in the paper)
    networks          messages and tables of routers (not in the paper)

Seconds are processor time of one thread. All figures of a group come from the same commands, and what was forwarded is compared
between all systems before times are reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.report import Report
from matchwood.covering import CoverIndex, FullGraph, Network, RelationGraph, StrictPoset, ZCurve
from matchwood.covering.graphs import Costs
from matchwood.covering.network import Links, line, random_tree, star, tree
from matchwood.encode.picking import pick_rows
from matchwood.jit.decorators import kernel
from matchwood.lang.event import Event
from matchwood.lang.parser import parse
from matchwood.workloads import BEGen, City, Covering, Operations, Workload

Make = Callable[[Covering], CoverIndex | ZCurve]

SYSTEMS: dict[str, Make] = {
    "k-d tree": lambda workload: CoverIndex(),
    "z-curve": lambda workload: ZCurve([0.0] * workload.attributes, [2.0**workload.bits - 1] * workload.attributes),
    "naive": lambda workload: CoverIndex(overflow=None),
}
MODES = (1, 2, 3, 4, 5, 6)
LAYOUTS: dict[str, Callable[[int], Links]] = {
    "line": line, "star": star, "tree": tree, "random-tree": lambda routers: random_tree(routers, seed=1),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of the parts of a preset."""

    commands: int
    series: tuple[int, ...]
    dimensions: tuple[int, ...]
    repeats: int
    graphs: int
    reduced: int
    routers: tuple[int, ...]
    clients: int


SIZES = {
    "quick": Size(8_000, (5_000, 10_000), (6, 16), 1, 400, 20_000, (2, 10), 200),
    "paper": Size(60_000, (10_000, 40_000, 70_000, 100_000), (6, 12, 16), 3, 2000, 1_000_000, (2, 10, 30, 100), 200),
}


def run(preset: str, report: Report) -> None:
    """All parts, one after the other."""
    size = SIZES[preset]
    warm_up()
    for load in ("heavy", "light"):
        report.part(f"reporting modes, {load} load", partial(reporting_modes, size, report, load))
    for dimensions in size.dimensions:
        report.part(f"comparison, {dimensions} dimensions", partial(comparison, size, report, dimensions))
    report.part("graphs", partial(graphs, size, report))
    reduced: dict[str, Workload] = {
        "city": City(size=size.reduced),
        "city-mixed": City.preset("mixed", size=size.reduced),
        "begen": BEGen(size=size.reduced),
    }
    for name, workload in reduced.items():
        report.part(f"reduction, {name}", partial(reduction, report, name, workload))
    for layout in LAYOUTS:
        report.part(f"networks, {layout}", partial(networks, size, report, layout))


def warm_up() -> None:
    """Compile all kernels."""
    workload = Covering(size=300, dimensions=4, unsubscribe=0.2)
    for make in SYSTEMS.values():
        RelationGraph(2, index=make(workload)).apply(*workload.operations())
    index = CoverIndex()
    index.insert(workload.subscriptions())
    index.reduce()
    plain_scan(np.zeros(8), 8, 1, np.zeros(8))


def run_graph(make: Make, workload: Covering, commands: Operations, k: int) -> tuple[float, Costs, list[int]]:
    """(seconds, work, the ids that are forwarded in the end)."""
    graph = RelationGraph(k, index=make(workload))
    start = time.process_time()
    graph.apply(*commands)
    return time.process_time() - start, graph.costs, graph.forwarded()


def reporting_modes(size: Size, report: Report, load: str) -> None:
    """Tables I and II and Figures 8 and 9: what k costs, under heavy or under light load."""
    workload = Covering.preset(load, size=size.commands)
    name = f"covering-{load}"
    report.workload(name, **workload.parameters())
    commands = workload.operations()
    searches: dict[int, int] = {}
    forwarded: set[int] | None = None
    for system in ("k-d tree", "z-curve"):
        runs: dict[int, list[tuple[float, Costs, list[int]]]] = {k: [] for k in MODES}
        for _ in range(size.repeats):  # in turn, so that noise affects every k alike
            for k in MODES:
                runs[k].append(run_graph(SYSTEMS[system], workload, commands, k))
        base = float(np.median([spent for spent, _, _ in runs[1]]))
        for k in MODES:
            forwarded = set(runs[k][0][2]) if forwarded is None else forwarded  # the same for every k
            assert all(set(ids) == forwarded for _, _, ids in runs[k]), (
                f"{system}, k={k}: other subscriptions are forwarded"
            )
            _report_costs(report, name, f"{system}, k={k}", size.commands, runs[k][0][1])
            spent_all = [spent for spent, _, _ in runs[k]]
            seconds = float(np.median(spent_all))
            report.row(
                workload=name, system=f"{system}, k={k}", n=size.commands, metric="total_s", value=seconds,
                baseline="k=1", ratio=base / seconds, verified=True, spread=max(spent_all) - min(spent_all),
            )  # fmt: skip
            searches.setdefault(k, runs[k][0][1].queries)
    ratio = searches[1] / min(searches.values())
    assert ratio <= 2.0, "Theorem 1 does not hold"
    report.row(workload=name, system="G_1", n=size.commands, metric="queries_over_best_k", value=ratio, verified=True)


def _report_costs(report: Report, workload: str, system: str, n: int, costs: Costs) -> None:
    figures = {
        "nodes_visited_subscribe": costs.subscribe.nodes_visited,
        "nodes_visited_unsubscribe": costs.unsubscribe.nodes_visited,
        "points_compared_subscribe": costs.subscribe.points_compared,
        "points_compared_unsubscribe": costs.unsubscribe.points_compared,
        "queries_unsubscribe": costs.unsubscribe.searches,
    }
    for metric, value in figures.items():
        report.row(workload=workload, system=system, n=n, metric=metric, value=value)


def comparison(size: Size, report: Report, dimensions: int) -> None:
    """Figures 10 to 12: total time of the three indexes by the number of commands, p = 15 %."""
    name = f"covering-d{dimensions}"
    for commands in size.series:
        workload = Covering(size=commands, dimensions=dimensions, unsubscribe=0.15)
        report.workload(f"{name}-{commands}", **workload.parameters())
        operations = workload.operations()
        seconds: dict[str, list[float]] = {system: [] for system in SYSTEMS}
        forwarded: dict[str, set[int]] = {}
        for _ in range(size.repeats):
            for system, make in SYSTEMS.items():
                spent, _, ids = run_graph(make, workload, operations, 1)
                seconds[system].append(spent)
                forwarded[system] = set(ids)
        assert len({frozenset(ids) for ids in forwarded.values()}) == 1, "the indexes disagree"
        slowest = float(np.median(seconds["naive"]))
        for system, spent_all in seconds.items():
            value = float(np.median(spent_all))
            report.row(
                workload=name, system=system, n=commands, metric="total_s", value=value,
                baseline="naive", ratio=slowest / value, verified=True, spread=max(spent_all) - min(spent_all),
            )  # fmt: skip
    plain = run_plain_scan(operations, workload, forwarded["k-d tree"])
    report.row(
        workload=name, system="naive, plain loop", n=workload.size, metric="total_s", value=plain,
        baseline="naive", ratio=slowest / plain, verified=True,
    )  # fmt: skip
    report.row(
        workload=name, system="k-d tree", n=workload.size, metric="speedup_over_plain_loop",
        value=plain / float(np.median(seconds["k-d tree"])), verified=True,
    )  # fmt: skip
    single_searches(operations, workload, name, report)


@kernel
def plain_scan(points, width, count, query):
    """The first of `count` points that dominates the query, point by point and coordinate by coordinate; -1 if none does."""
    for i in range(count):
        dominates = True
        for d in range(width):
            if points[i * width + d] < query[d]:
                dominates = False
                break
        if dominates:
            return i
    return -1


@kernel
def plain_graph(points, width, subscribe, ids, packed, owners, places, covers):
    """G_1 over a plain scan. covers[id]: its cover, -1 if it is forwarded, -2 if it is removed.

    `packed`, `owners` and `places` are scratch.
    """
    count = 0
    for step in range(ids.size):
        id_ = ids[step]
        if subscribe[step]:
            at = plain_scan(packed, width, count, points[id_ * width : (id_ + 1) * width])
            covers[id_] = owners[at] if at >= 0 else -1
            for d in range(width):
                packed[count * width + d] = points[id_ * width + d]
            owners[count], places[id_] = id_, count
            count += 1
            continue
        count -= 1
        hole = places[id_]
        for d in range(width):
            packed[hole * width + d] = packed[count * width + d]
        owners[hole] = owners[count]
        places[owners[hole]] = hole
        covers[id_] = -2
        for i in range(count):
            other = owners[i]
            if covers[other] == id_:  # skip its own point, which dominates itself
                at = plain_scan(packed, width, i, points[other * width : (other + 1) * width])
                if at < 0:
                    behind = packed[(i + 1) * width :]
                    at = plain_scan(behind, width, count - i - 1, points[other * width : (other + 1) * width])
                    at = at + i + 1 if at >= 0 else at
                covers[other] = owners[at] if at >= 0 else -1


def run_plain_scan(operations: Operations, workload: Covering, forwarded: set[int]) -> float:
    """Seconds for all commands with the compiled scan that goes point by point and stops at the first cover."""
    rows, d = operations.rows, workload.attributes
    points = np.stack([-rows.lo.reshape(-1, d), rows.hi.reshape(-1, d)], axis=2).reshape(-1)
    covers = np.full(rows.size, -2, np.int64)
    scratch = np.zeros_like(points), np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
    nothing = np.zeros(0, np.bool_), np.zeros(0, np.int64)
    plain_graph(points, 2 * d, *nothing, *scratch, covers)  # compile
    start = time.process_time()
    plain_graph(points, 2 * d, operations.subscribe, operations.ids, *scratch, covers)
    seconds = time.process_time() - start
    assert set(np.flatnonzero(covers == -1).tolist()) == forwarded, "the plain scan disagrees"
    return seconds


def single_searches(operations: Operations, workload: Covering, name: str, report: Report) -> None:
    """cov_1 among the live subscriptions, against a scan that compares one point after the other, as the paper must have done."""
    live, d = operations.live(), workload.attributes
    queries = Covering(size=2_000, dimensions=workload.dimensions, unsubscribe=0.0, seed=2).subscriptions()
    rows = operations.rows
    lo, hi = rows.lo.reshape(-1, d)[live], rows.hi.reshape(-1, d)[live]
    points = np.stack([-lo, hi], axis=2).reshape(-1)
    query_points = np.stack([-queries.lo.reshape(-1, d), queries.hi.reshape(-1, d)], axis=2).reshape(-1, 2 * d)
    start = time.process_time()
    first = [plain_scan(points, 2 * d, len(live), query) for query in query_points]
    plain = (time.process_time() - start) / len(query_points)
    report.row(workload=name, system="naive, plain loop", n=len(live), metric="us_per_search", value=plain * 1e6)
    for system, index in (("naive", CoverIndex(overflow=None)), ("k-d tree", CoverIndex())):
        index.insert(pick_rows(operations.rows, live))
        start = time.process_time()
        found = index.covers_of(queries)
        seconds = (time.process_time() - start) / len(query_points)
        assert ((np.diff(found.offsets) > 0) == (np.array(first) >= 0)).all(), "the scans disagree"
        report.row(
            workload=name, system=system, n=len(live), metric="us_per_search", value=seconds * 1e6,
            baseline="naive, plain loop", ratio=plain / seconds, verified=True,
        )  # fmt: skip


def graphs(size: Size, report: Report) -> None:
    """G_1 against G* and the strict poset: edges, and seconds to subscribe and unsubscribe one by one."""
    workload = Covering(size=size.graphs, dimensions=6, unsubscribe=0.2)
    report.workload("covering-graphs", **workload.parameters())
    commands = workload.operations()
    tops = {}
    for system, graph in (("G_1", RelationGraph()), ("G*", FullGraph()), ("strict poset", StrictPoset())):
        start = time.process_time()
        for is_new, id_ in zip(commands.subscribe.tolist(), commands.ids.tolist(), strict=True):
            if is_new:
                graph.subscribe(commands.rows.take(id_, id_ + 1))
            else:
                graph.unsubscribe([id_])
        seconds = time.process_time() - start
        tops[system] = set(graph.forwarded())
        report.row(workload="covering-graphs", system=system, n=size.graphs, metric="total_s", value=seconds)
        report.row(workload="covering-graphs", system=system, n=size.graphs, metric="edges", value=graph.edges)
    assert tops["G*"] == tops["strict poset"] <= tops["G_1"], "the graphs disagree"


def reduction(report: Report, name: str, workload: Workload) -> None:
    """`reduce` over a large set; a sample of the results is verified by the naive scan."""
    report.workload(f"reduce-{name}", **workload.parameters())
    rows = workload.subscriptions()
    start = time.process_time()
    index = CoverIndex()
    index.insert(rows)
    built = time.process_time()
    kept, covered, cover = index.reduce_arrays()
    done = time.process_time()
    verify_reduction(rows, kept, covered, cover)
    figures = {"build_s": built - start, "reduce_s": done - built, "kept": len(kept), "bytes": index.nbytes}
    for metric, value in figures.items():
        report.row(
            workload=f"reduce-{name}", system="k-d tree", n=workload.size, metric=metric, value=value, verified=True
        )


def verify_reduction(rows: Any, kept: np.ndarray, covered: np.ndarray, cover: np.ndarray, sample: int = 500) -> None:
    """Compare a sample of the results with a naive scan of all subscriptions."""
    naive = CoverIndex(overflow=None)
    naive.insert(rows)
    ids = np.random.default_rng(1).integers(rows.size, size=sample)
    is_kept = np.isin(ids, kept)
    by = dict(zip(covered.tolist(), cover.tolist(), strict=True))
    for id_, top in zip(ids.tolist(), is_kept.tolist(), strict=True):
        found = naive.covers_of(rows.take(id_, id_ + 1), k=1 << 30, before=id_).ids
        assert top == (len(found) == 0), f"subscription {id_}: the naive scan disagrees"
        assert top or by[id_] in found, f"subscription {id_}: {by[id_]} does not cover it"


def networks(size: Size, report: Report, layout: str) -> None:
    """Messages and table sizes with and without covering, the same clients on the same tree."""
    make = LAYOUTS[layout]
    for routers in size.routers:
        name = f"network-{layout}"
        report.workload(f"{name}-{routers}", routers=routers, clients=size.clients, seed=1, attributes=2)
        pair = {"covering": Network(make(routers)), "no covering": Network(make(routers), covering=False)}
        for network in pair.values():
            subscribe_clients(network, routers, size.clients)
        verify_delivery(pair, routers)
        for system, network in pair.items():
            sent, tables = (
                network.sent["Subscribe"] + network.sent["Unsubscribe"],
                sum(network.table_sizes) / routers,
            )
            for metric, value in (("control_messages", sent), ("table_size", tables)):
                report.row(workload=name, system=system, n=routers, metric=metric, value=value, verified=True)


def subscribe_clients(network: Network, routers: int, clients: int) -> None:
    """Ranges over two attributes around one of twelve topics, their widths log-uniform; every fifth client leaves again."""
    rng = np.random.default_rng(1)
    topics = rng.integers(100, 900, size=(12, 2))
    keys = []
    for client in range(clients):
        width = np.exp(rng.uniform(0.0, np.log(300.0), size=2)).astype(int)
        low = topics[rng.integers(12)] + rng.integers(-10, 11, size=2) - width // 2
        text = " AND ".join(f"x{d} BETWEEN {low[d]} AND {low[d] + width[d]}" for d in range(2))
        keys.append(network.subscribe(f"r{rng.integers(routers)}", f"client {client}", parse(text)))
    for key in keys[::5]:
        network.unsubscribe(key)


def verify_delivery(pair: dict[str, Network], routers: int) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        event = Event({f"x{d}": float(v) for d, v in enumerate(rng.integers(1000, size=2))})
        at = f"r{rng.integers(routers)}"
        told = [network.notifications(at, event) for network in pair.values()]
        assert told[0] == told[1], "covering lost or invented a notification"
