"""Covering: Tables I and II, Figures 8 to 12, reduction of large sets, and networks of routers (Covering V, and more).

    python -m bench covering [--preset quick|paper] --out FILE
    python -m bench.covering FILE FOLDER        the plots of a finished run into FOLDER, its tables to the screen

Seconds are processor time of one thread, so that other work on the machine counts less. Every figure
of one group comes from the same commands, and what was forwarded is compared between all systems before times are reported.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import Report
from matchwood.covering import CoverIndex, FullGraph, Network, RelationGraph, StrictPoset, ZCurve
from matchwood.covering.graphs import Costs
from matchwood.covering.network import Links, line, random_tree, star, tree
from matchwood.kernels._jit import kernel
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


@dataclass(frozen=True, slots=True)
class Size:
    """How much each part of a preset runs."""

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
    reporting_modes(size, report)
    comparison(size, report)
    graphs(size, report)
    reduction(size, report)
    networks(size, report)


def warm_up() -> None:
    """Compile everything."""
    workload = Covering(size=300, dimensions=4, unsubscribe=0.2)
    for make in SYSTEMS.values():
        RelationGraph(2, index=make(workload)).apply(*workload.operations())
    index = CoverIndex()
    index.insert(workload.subscriptions())
    index.reduce()
    scan_plainly(np.zeros(8), 8, 1, np.zeros(8))


def carried_out(make: Make, workload: Covering, commands: Operations, k: int) -> tuple[float, Costs, list[int]]:
    """(seconds, work, what is forwarded in the end)."""
    graph = RelationGraph(k, index=make(workload))
    start = time.process_time()
    graph.apply(*commands)
    return time.process_time() - start, graph.costs, graph.forwarded()


def reporting_modes(size: Size, report: Report) -> None:
    """Tables I and II and Figures 8 and 9: what k costs, under heavy and under light load."""
    for load in ("heavy", "light"):
        workload = Covering.preset(load, size=size.commands)
        name = f"covering-{load}"
        report.workload(name, **workload.parameters())
        commands = workload.operations()
        asked: dict[int, int] = {}
        for system in ("k-d tree", "z-curve"):
            for k in MODES:
                runs = [carried_out(SYSTEMS[system], workload, commands, k) for _ in range(size.repeats)]
                _note_costs(report, name, f"{system}, k={k}", size.commands, runs[0][1])
                seconds = float(np.median([run[0] for run in runs]))
                base = report.value(workload=name, system=f"{system}, k=1", metric="total_s") or seconds
                report.row(
                    workload=name, system=f"{system}, k={k}", n=size.commands, metric="total_s", value=seconds,
                    baseline="k=1", ratio=base / seconds, verified=True,
                )  # fmt: skip
                asked.setdefault(k, runs[0][1].queries)
        ratio = asked[1] / min(asked.values())
        assert ratio <= 2.0, "Theorem 1 does not hold"
        report.row(
            workload=name, system="G_1", n=size.commands, metric="queries_over_best_k", value=ratio, verified=True
        )


def _note_costs(report: Report, workload: str, system: str, n: int, costs: Costs) -> None:
    figures = {
        "nodes_visited_subscribe": costs.subscribe.nodes_visited,
        "nodes_visited_unsubscribe": costs.unsubscribe.nodes_visited,
        "points_compared_subscribe": costs.subscribe.points_compared,
        "points_compared_unsubscribe": costs.unsubscribe.points_compared,
        "queries_unsubscribe": costs.unsubscribe.searches,
    }
    for metric, value in figures.items():
        report.row(workload=workload, system=system, n=n, metric=metric, value=value)


def comparison(size: Size, report: Report) -> None:
    """Figures 10 to 12: total time of the three indexes by the number of commands, p = 15 %."""
    for dimensions in size.dimensions:
        for commands in size.series:
            workload = Covering(size=commands, dimensions=dimensions, unsubscribe=0.15)
            name = f"covering-d{dimensions}"
            report.workload(f"{name}-{commands}", **workload.parameters())
            operations = workload.operations()
            seconds: dict[str, list[float]] = {system: [] for system in SYSTEMS}
            forwarded: dict[str, set[int]] = {}
            for _ in range(size.repeats):
                for system, make in SYSTEMS.items():
                    spent, _, ids = carried_out(make, workload, operations, 1)
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
        plain = carried_out_plainly(operations, workload, forwarded["k-d tree"])
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
def scan_plainly(points, width, count, query):
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
def run_plainly(points, width, subscribe, ids, packed, owners, places, covers):
    """G_1 over a plain scan. covers[id]: its cover, -1 if it is forwarded, -2 if it is not there; the rest is scratch."""
    count = 0
    for step in range(ids.size):
        id_ = ids[step]
        if subscribe[step]:
            at = scan_plainly(packed, width, count, points[id_ * width : (id_ + 1) * width])
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
            if covers[other] == id_:  # its own point, which dominates itself, is stepped over
                at = scan_plainly(packed, width, i, points[other * width : (other + 1) * width])
                if at < 0:
                    behind = packed[(i + 1) * width :]
                    at = scan_plainly(behind, width, count - i - 1, points[other * width : (other + 1) * width])
                    at = at + i + 1 if at >= 0 else at
                covers[other] = owners[at] if at >= 0 else -1


def carried_out_plainly(operations: Operations, workload: Covering, forwarded: set[int]) -> float:
    """Seconds for all commands with the compiled scan that goes point by point and stops at the first cover."""
    rows, d = operations.rows, workload.attributes
    points = np.stack([-rows.lo.reshape(-1, d), rows.hi.reshape(-1, d)], axis=2).reshape(-1)
    covers = np.full(rows.size, -2, np.int64)
    scratch = np.zeros_like(points), np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
    nothing = np.zeros(0, np.bool_), np.zeros(0, np.int64)
    run_plainly(points, 2 * d, *nothing, *scratch, covers)  # compile
    start = time.process_time()
    run_plainly(points, 2 * d, operations.subscribe, operations.ids, *scratch, covers)
    seconds = time.process_time() - start
    assert set(np.flatnonzero(covers == -1).tolist()) == forwarded, "the plain scan disagrees"
    return seconds


def single_searches(operations: Operations, workload: Covering, name: str, report: Report) -> None:
    """cov_1 among the live subscriptions, against the scan that the paper must have had: one point after the other."""
    live, d = operations.live(), workload.attributes
    queries = Covering(size=2_000, dimensions=workload.dimensions, unsubscribe=0.0, seed=2).subscriptions()
    rows = operations.rows
    lo, hi = rows.lo.reshape(-1, d)[live], rows.hi.reshape(-1, d)[live]
    points = np.stack([-lo, hi], axis=2).reshape(-1)
    asked = np.stack([-queries.lo.reshape(-1, d), queries.hi.reshape(-1, d)], axis=2).reshape(-1, 2 * d)
    start = time.process_time()
    first = [scan_plainly(points, 2 * d, len(live), query) for query in asked]
    plain = (time.process_time() - start) / len(asked)
    report.row(workload=name, system="naive, plain loop", n=len(live), metric="us_per_search", value=plain * 1e6)
    for system, index in (("naive", CoverIndex(overflow=None)), ("k-d tree", CoverIndex())):
        index.insert(_picked(operations, live))
        start = time.process_time()
        found = index.covers_of(queries)
        seconds = (time.process_time() - start) / len(asked)
        assert ((np.diff(found.offsets) > 0) == (np.array(first) >= 0)).all(), "the scans disagree"
        report.row(
            workload=name, system=system, n=len(live), metric="us_per_search", value=seconds * 1e6,
            baseline="naive, plain loop", ratio=plain / seconds, verified=True,
        )  # fmt: skip


def _picked(operations: Operations, live: np.ndarray) -> Any:
    """The rows with these ids: rectangles, so every row has the same number of entries."""
    rows = operations.rows
    each = len(rows.dims) // rows.size
    entries = (live[:, None] * each + np.arange(each)).ravel()
    return rows._replace(
        ids=rows.ids[live], priority=rows.priority[live], offsets=np.arange(len(live) + 1) * each,
        **{name: getattr(rows, name)[entries] for name in ("dims", "kinds", "lo", "hi", "weight")},
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


def reduction(size: Size, report: Report) -> None:
    """`reduce` over a large set; a sample of the verdicts is judged by the naive scan."""
    workloads: dict[str, Workload] = {
        "city": City(size=size.reduced),
        "city-mixed": City.preset("mixed", size=size.reduced),
        "begen": BEGen(size=size.reduced),
    }
    for name, workload in workloads.items():
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
                workload=f"reduce-{name}", system="k-d tree", n=size.reduced, metric=metric, value=value, verified=True
            )


def verify_reduction(rows: Any, kept: np.ndarray, covered: np.ndarray, cover: np.ndarray, sample: int = 500) -> None:
    """Of some subscriptions, does a naive scan of all say the same, and are the named covers covers?"""
    naive = CoverIndex(overflow=None)
    naive.insert(rows)
    ids = np.random.default_rng(1).integers(rows.size, size=sample)
    is_kept = np.isin(ids, kept)
    by = dict(zip(covered.tolist(), cover.tolist(), strict=True))
    for id_, top in zip(ids.tolist(), is_kept.tolist(), strict=True):
        found = naive.covers_of(rows.take(id_, id_ + 1), k=1 << 30, before=id_).ids
        assert top == (len(found) == 0), f"subscription {id_}: the naive scan disagrees"
        assert top or by[id_] in found, f"subscription {id_}: {by[id_]} does not cover it"


def networks(size: Size, report: Report) -> None:
    """Messages and table sizes with and without covering, the same clients on the same tree."""
    layouts: dict[str, Callable[[int], Links]] = {
        "line": line, "star": star, "tree": tree, "random-tree": lambda routers: random_tree(routers, seed=1),
    }  # fmt: skip
    for layout, make in layouts.items():
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


def plot(source: Path, folder: Path) -> None:
    """Draw the figures of a finished run."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = json.loads(source.read_text(encoding="utf-8"))["rows"]
    folder.mkdir(parents=True, exist_ok=True)

    def series(workload: str, system: str, metric: str) -> tuple[list[float], list[float]]:
        found = [r for r in rows if (r["workload"], r["system"], r["metric"]) == (workload, system, metric)]
        return [r["n"] for r in found], [r["value"] for r in found]

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for load, style in (("heavy", "-o"), ("light", "--s")):
        for system in ("k-d tree", "z-curve"):
            values = [series(f"covering-{load}", f"{system}, k={k}", "total_s")[1][0] for k in MODES]
            axes[0].plot(MODES, values, style, label=f"{system}, {load}")
        queries = [series(f"covering-{load}", f"k-d tree, k={k}", "queries_unsubscribe")[1][0] for k in MODES]
        axes[1].plot(MODES, queries, style, label=load)
    axes[0].set(xlabel="reporting mode k", ylabel="seconds", title="Run time (Figure 8)", ylim=(0, None))
    axes[0].set_ylim(0, 1.6 * axes[0].get_ylim()[1])  # room for the legend
    axes[1].set(xlabel="reporting mode k", ylabel="searches", title="Searches of unsubscribes (Figure 9)", yscale="log")
    _finish(figure, axes, folder / "covering-modes.png")

    names = sorted({r["workload"] for r in rows if r["workload"].startswith("covering-d")}, key=lambda n: int(n[10:]))
    figure, axes = plt.subplots(1, len(names), figsize=(3.8 * len(names), 3.4), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for system, style in (("naive", ":^"), ("z-curve", "--s"), ("k-d tree", "-o")):
            axis.plot(*series(name, system, "total_s"), style, label=system)
        axis.set(xlabel="commands", ylabel="seconds", title=f"{name[10:]} dimensions", yscale="log")
    _finish(figure, axes[0], folder / "covering-indexes.png")

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for axis, metric, label in (
        (axes[0], "control_messages", "control messages"),
        (axes[1], "table_size", "mean table size"),
    ):
        for layout in ("line", "star", "tree", "random-tree"):
            (drawn,) = axis.plot(*series(f"network-{layout}", "no covering", metric), "--", alpha=0.6)
            axis.plot(*series(f"network-{layout}", "covering", metric), "-o", color=drawn.get_color(), label=layout)
        axis.set(
            xlabel="routers", title=f"{label}, with (line) and without (dashes) covering", xscale="log", yscale="log"
        )
        axis.title.set_fontsize(9)
    _finish(figure, axes, folder / "covering-networks.png")


def _finish(figure: Any, axes: Any, path: Path) -> None:
    for axis in axes:
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def tables(source: Path) -> str:
    """Tables I and II, the three indexes and the reductions of a finished run, as Markdown."""
    rows = json.loads(source.read_text(encoding="utf-8"))["rows"]
    values = {(r["workload"], r["system"], r["metric"], r["n"]): r["value"] for r in rows}
    lines = []
    for load, title in (("heavy", "Table I, p = 5 %"), ("light", "Table II, p = 40 %")):
        n = max(r["n"] for r in rows if r["workload"] == f"covering-{load}")
        lines += [f"{title}: {n:,} commands, 10 dimensions, k-d tree; counts in thousands", ""]
        lines += [
            "| k | nv_s | nv_u | pc_s | pc_u | searches of unsubscribes | seconds |",
            "|---|---|---|---|---|---|---|",
        ]
        for k in MODES:
            key = f"covering-{load}", f"k-d tree, k={k}"
            counts = [
                values[*key, f"{what}_{who}", n] / 1000
                for what in ("nodes_visited", "points_compared")
                for who in ("subscribe", "unsubscribe")
            ]
            cells = [f"{count:,.0f}" for count in counts]
            cells += [f"{values[*key, 'queries_unsubscribe', n]:,.0f}", f"{values[*key, 'total_s', n]:.3f}"]
            lines.append(f"| {k} | {' | '.join(cells)} |")
        lines.append("")
    lines += [
        "| dimensions | commands | k-d tree | Z-curve | naive, vectorised | naive, plain loop |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        if r["workload"].startswith("covering-d") and r["metric"] == "total_s" and r["system"] == "k-d tree":
            others = [
                values.get((r["workload"], system, "total_s", r["n"]))
                for system in ("z-curve", "naive", "naive, plain loop")
            ]
            cells = [f"{v:.3f} s ({v / r['value']:.1f} x)" if v is not None else "" for v in others]
            lines.append(f"| {r['workload'][10:]} | {r['n']:,} | {r['value']:.3f} s | {' | '.join(cells)} |")
    lines += ["", "| reduce | subscriptions | kept | build s | reduce s | MB |", "|---|---|---|---|---|---|"]
    for r in rows:
        if r["metric"] == "reduce_s":
            build, kept, size = (values[r["workload"], r["system"], m, r["n"]] for m in ("build_s", "kept", "bytes"))
            name = r["workload"].removeprefix("reduce-")
            lines.append(f"| {name} | {r['n']:,} | {kept:,.0f} | {build:.1f} | {r['value']:.1f} | {size / 1e6:,.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    plot(Path(sys.argv[1]), Path(sys.argv[2]))
    print(tables(Path(sys.argv[1])))
