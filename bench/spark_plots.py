"""Figures of the pipeline on Spark, from the rows of `python -m bench spark`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

WORKLOAD, ROUTED = "6 intervals", "6 intervals, small places"
MASTERS = ("local[1]", "local[2]", "local-cluster[2,1,2048]")
BLUE, GREY, ORANGE = "tab:blue", "tab:gray", "tab:orange"


def draw(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw all three; the paths."""
    figures = {"spark_throughput": throughput, "spark_join": join, "spark_stream": stream}
    paths = []
    for name, figure in figures.items():
        picture = figure(Rows(rows))
        path = folder / f"{name}.png"
        picture.savefig(path, dpi=110)
        plt.close(picture)
        paths.append(path)
    return paths


class Rows:
    """The rows of a report."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def value(self, system: str, metric: str, workload: str = WORKLOAD) -> float:
        """The latest figure of that kind; LookupError if there is none."""
        for row in reversed(self._rows):
            if (row["workload"], row["system"], row["metric"]) == (workload, system, metric):
                return float(row["value"])
        raise LookupError(f"no row {workload!r}, {system!r}, {metric!r}")

    def systems(self, metric: str, workload: str) -> list[str]:
        """The systems that have such a figure, in order."""
        return list(
            dict.fromkeys(r["system"] for r in self._rows if (r["workload"], r["metric"]) == (workload, metric))
        )


def throughput(rows: Rows) -> Any:
    """Events a second by master, beside the same index in one process; and spatial shards."""
    picture, (left, right) = plt.subplots(1, 2, figsize=(12, 3.8), layout="constrained")
    known = rows.systems("us_per_event", WORKLOAD)
    masters = [m for m in MASTERS if f"Spark, {m}, top-10" in known]
    bars = {f"Spark, {m}": rows.value(f"Spark, {m}, top-10", "us_per_event") for m in masters}
    bars["in process,\ntwo threads"] = rows.value("in process, two threads, top-10", "us_per_event")
    names = [name.replace(", ", ",\n", 1) for name in bars]
    values = [1e3 / us for us in bars.values()]
    colours = [BLUE] * len(masters) + [GREY]
    left.bar_label(left.bar(names, values, color=colours), fmt="%.0f", fontsize=8)
    left.set_ylabel("thousand events a second")
    left.set_title("the 10 best of each event", fontsize=10)
    left.tick_params(axis="x", labelsize=7)
    systems = rows.systems("us_per_event", ROUTED)
    times = [rows.value(system, "us_per_event", ROUTED) for system in systems]
    colours = [GREY if system.startswith("one shard") else ORANGE if "routed" in system else BLUE for system in systems]
    right.bar_label(right.barh(systems, times, color=colours), fmt="%.1f", fontsize=8)
    right.invert_yaxis()
    right.set_xlabel("µs an event")
    right.set_title("spatial shards", fontsize=10)
    right.tick_params(axis="y", labelsize=7)
    return picture


def join(rows: Rows) -> Any:
    """Seconds for 10,000 events, log scale, against Spark's own join."""
    rival = next(system for system in rows.systems("s", WORKLOAD) if system.startswith("Spark's range join"))
    systems = [rival, "all, with the session's start", "all, first in session", "all, warm", "top-10, warm"]
    systems = [system for system in systems if system in rows.systems("s", WORKLOAD)]
    times = [rows.value(system, "s") for system in systems]
    picture, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
    bars = axes.barh(systems, times, color=[GREY] + [BLUE] * (len(systems) - 1))
    labels = [f"{t:.3g} s" + (f", {times[0] / t:,.0f} x" if i else "") for i, t in enumerate(times)]
    axes.bar_label(bars, labels, padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(right=max(times) * 4)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.tick_params(axis="y", labelsize=8)
    return picture


def stream(rows: Rows) -> Any:
    """Milliseconds of a micro-batch of 1,000 events, with and without matching."""
    picture, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    kinds = {"a table": "micro-batch of 1,000", "JSON lines": "micro-batch of 1,000 lines"}
    for at, name in enumerate(kinds.values()):
        bare, ours = (rows.value(f"{name}, {what}", "ms") for what in ("bare: to Parquet", "matching"))
        first = at == 0
        low = axes.bar(at - 0.2, bare, 0.38, color=GREY, label="only writes its input" if first else None)
        high = axes.bar(at + 0.2, ours, 0.38, color=BLUE, label="matches, the 10 best" if first else None)
        axes.bar_label(low, [f"{bare:.0f} ms"], fontsize=8)
        axes.bar_label(high, [f"{ours:.0f} ms ({ours / bare - 1:+.0%})"], fontsize=8)
    axes.set_xticks(range(len(kinds)), list(kinds))
    axes.set_ylabel("ms a micro-batch of 1,000 events")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.2)
    axes.legend(fontsize=8)
    return picture
