"""Figures 8 to 12 of Covering, and networks of routers, from the rows of `python -m bench covering --preset paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator

from bench.results import series

MODES = (1, 2, 3, 4, 5, 6)
Rows = list[dict[str, Any]]


def draw(rows: Rows, folder: Path) -> list[Path]:
    """Draw all figures into the folder."""
    return [
        modes(rows, folder / "covering-modes.png"),
        indexes(rows, folder / "covering-indexes.png"),
        networks(rows, folder / "covering-networks.png"),
    ]


def modes(rows: Rows, path: Path) -> Path:
    """Figures 8 and 9: time and searches of unsubscribes by reporting mode."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for load, style in (("heavy", "-o"), ("light", "--s")):
        for system in ("k-d tree", "z-curve"):
            values = [series(rows, f"covering-{load}", f"{system}, k={k}", "total_s")[1][0] for k in MODES]
            left.plot(MODES, values, style, label=f"{system}, {load} load")
        queries = [series(rows, f"covering-{load}", f"k-d tree, k={k}", "queries_unsubscribe")[1][0] for k in MODES]
        right.plot(MODES, queries, style, label=f"{load} load")
    left.set(xlabel="reporting mode k", ylabel="seconds", title="Run time (Figure 8)")
    left.set_ylim(0, 1.6 * left.get_ylim()[1])  # room for the legend
    right.set(xlabel="reporting mode k", ylabel="searches", title="Searches of unsubscribes (Figure 9)", yscale="log")
    return _finish(figure, (left, right), path)


def indexes(rows: Rows, path: Path) -> Path:
    """Figures 10 to 12: total time of the indexes by the number of commands, one panel a number of dimensions."""
    names = sorted({r["workload"] for r in rows if r["workload"].startswith("covering-d")}, key=lambda n: int(n[10:]))
    figure, axes = plt.subplots(1, len(names), figsize=(3.6 * len(names), 3.4), squeeze=False, layout="constrained")
    for axis, name in zip(axes[0], names, strict=True):
        for system, style in (("naive", ":^"), ("z-curve", "--s"), ("k-d tree", "-o")):
            n, values = series(rows, name, system, "total_s")
            axis.plot([count / 1000 for count in n], values, style, label=system)
        axis.set(xlabel="commands, thousands", title=f"{name[10:]} dimensions", yscale="log")
    axes[0][0].set_ylabel("seconds")
    return _finish(figure, axes[0], path)


def networks(rows: Rows, path: Path) -> Path:
    """Messages and table sizes by the number of routers, with and without covering."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, metric, label in (
        (axes[0], "control_messages", "control messages"),
        (axes[1], "table_size", "mean table size"),
    ):
        for layout in ("line", "star", "tree", "random-tree"):
            (drawn,) = axis.plot(*series(rows, f"network-{layout}", "no covering", metric), "--", alpha=0.6)
            lines = series(rows, f"network-{layout}", "covering", metric)
            axis.plot(*lines, "-o", color=drawn.get_color(), label=layout)
        axis.set(xlabel="routers", title=f"{label}, with (line) and without (dashes) covering")
        axis.set(xscale="log", yscale="log")
        axis.title.set_fontsize(9)
        axis.set_xticks(lines[0], [str(count) for count in lines[0]])
        axis.xaxis.set_minor_locator(NullLocator())
    return _finish(figure, axes, path)


def _finish(figure: Any, axes: Any, path: Path) -> Path:
    for axis in axes:
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path
