"""Figures 6 to 9 of VCR, from the rows of `python -m bench vcr --preset paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.results import series

MEGABYTE = 1e6
HASH_SIZE = 1_800_017  # the paper's
LABELS = {"us_per_event": "µs an event", "bytes": "MB"}


class Figures:
    """The rows of a report, by workload, system and metric."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def series(self, workload: str, system: str, metric: str) -> tuple[list[int], list[float]]:
        """(n, value) by ascending n; bytes as megabytes."""
        n, values = series(self.rows, workload, system, metric)
        return n, [value / MEGABYTE for value in values] if metric == "bytes" else values

    def draw(self, axes: Axes, metric: str, lines: list[tuple[str, str, str]], *, log: bool = False) -> None:
        """One line a (workload, system, style) against the number of rectangles."""
        for workload, system, style in lines:
            n, values = self.series(workload, system, metric)
            axes.plot([size / 1000 for size in n], values, style, label=f"{system}, {workload.split(' ')[1]}")
        axes.set_xlabel("rectangles, thousands")
        axes.set_ylabel(LABELS[metric])
        if log:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)


def figure_6(figures: Figures, path: Path) -> None:
    """Search time (left axis) and storage (right axis) against L, and the side that the index chooses."""
    picture, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axes, widest in zip(panels, (20, 40), strict=True):
        name = f"figure 6, W={widest}"
        systems = {row["system"] for row in figures.rows if row["workload"] == name and row["system"] != "chosen"}
        sides = sorted(int(system.removeprefix("L=")) for system in systems)
        times = [figures.series(name, f"L={side}", "us_per_event")[1][0] for side in sides]
        storage = [figures.series(name, f"L={side}", "bytes")[1][0] for side in sides]
        chosen = [figures.series(name, "chosen", metric)[1][0] for metric in ("side_x", "side_y", "us_per_event")]
        axes.plot(sides, times, "o-", label="search")
        axes.plot([(chosen[0] * chosen[1]) ** 0.5], [chosen[2]], "k*", markersize=11)
        axes.annotate(f"chosen: {chosen[0]:.0f} x {chosen[1]:.0f}", ((chosen[0] * chosen[1]) ** 0.5, chosen[2]),
                      xytext=(6, -14), textcoords="offset points", fontsize=8)  # fmt: skip
        axes.set_ylim(bottom=0)
        right = axes.twinx()
        right.plot(sides, storage, "s--", color="tab:red", label="storage")
        right.set_ylabel("MB", color="tab:red")
        right.set_ylim(bottom=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sides, [str(side) for side in sides])
        axes.set_xlabel("maximal side L")
        axes.set_ylabel("µs an event", color="tab:blue")
        axes.set_title(f"W = {widest}", fontsize=10)
        axes.grid(alpha=0.3)
    _save(picture, path)


def figure_7(figures: Figures, path: Path) -> None:
    """Search time and storage against the number of rectangles."""
    picture, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    skews = ("uniform", "90-10")
    systems = (("rtree vectorised", "tab:red"), ("scan", "tab:gray"), ("vcr", "tab:blue"))
    lines = [(f"moderate {skew}", system) for system, _ in systems for skew in skews]
    colours = dict(systems)
    for workload, system in lines:
        n, values = figures.series(workload, system, "us_per_event")
        style = "o-" if workload.endswith("90-10") else "o--"
        skew = workload.split(" ")[1]
        left.plot([size / 1000 for size in n], values, style, color=colours[system], label=f"{system}, {skew}")
    left.set_yscale("log")
    left.set_ylim(bottom=0.2)  # room for the legend
    left.set_xlabel("rectangles, thousands")
    left.set_ylabel("µs an event")
    left.legend(fontsize=7, loc="lower right", ncols=3, handlelength=3.5)
    left.grid(alpha=0.3)
    styles = [("rtree", "o-"), ("vcr", "s-"), ("vcr L=16x8", "s--")]
    figures.draw(right, "bytes", [("moderate 90-10", system, style) for system, style in styles])
    _save(picture, path)


def figure_8(figures: Figures, path: Path) -> None:
    """Hashed and array directory: search time and storage."""
    picture, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    lines = [("large 90-1", "od hash", "o-"), ("large 90-1", "od array", "s--"), ("large 90-1", "vcr", "^:")]
    figures.draw(left, "us_per_event", lines)
    figures.draw(right, "bytes", lines, log=True)
    _save(picture, path)


def figure_9(figures: Figures, path: Path) -> None:
    """Simple and overlapped decomposition: search time and the load of a hash directory of the paper's size."""
    picture, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    lines = [("large 90-10", "sd hash", "o-"), ("large 90-10", "od hash", "s--")]
    figures.draw(left, "us_per_event", lines)
    for workload, system, style in lines:
        n, active = figures.series(workload, system, "active")
        right.plot([size / 1000 for size in n], [count / HASH_SIZE for count in active], style, label=system)
    right.set_xlabel("rectangles, thousands")
    right.set_ylabel(f"active VCRs / {HASH_SIZE:,}")
    right.legend(fontsize=7)
    right.grid(alpha=0.3)
    _save(picture, path)


def _save(picture: Any, path: Path) -> None:
    picture.savefig(path, dpi=110)
    plt.close(picture)


def draw(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw all four."""
    paths = []
    for number, figure in ((6, figure_6), (7, figure_7), (8, figure_8), (9, figure_9)):
        paths.append(folder / f"vcr-{number}.png")
        figure(Figures(rows), paths[-1])
    return paths
