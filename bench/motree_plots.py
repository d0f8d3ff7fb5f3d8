"""Figures 4 to 12 and Table 5 of MO-Tree, from the rows of `python -m bench motree --preset paper`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.results import series

Rows = list[dict[str, Any]]

STYLES = {  # the same system looks the same in every figure
    "mo-tree": ("MO-Tree, engine", "C0o-"),
    "mo-tree-paper": ("MO-Tree, engine, the paper's plan", "C1s-"),
    "scan": ("Scan, engine", "C2^-"),
    "tama": ("TAMA", "C3v-"),
    "op-index": ("OpIndex", "C4D-"),
    "beq-tree": ("BEQ-Tree", "C5P-"),
    "r-star-tree": ("R*-tree, few rows", "C6X-"),
}
EVENTS, SUBSCRIPTIONS = "us_per_event", "us_per_live"
CHANGES = {  # number of the figure: metric, title
    8: ("us_per_publish", "Publishing a live event"),
    9: ("us_per_retract", "Retracting a live event"),
    10: ("us_per_subscribe", "Inserting a subscription"),
    11: ("us_per_unsubscribe", "Deleting a subscription"),
}


def draw(rows: Rows, folder: Path) -> list[Path]:
    """Draw every figure that the rows hold; return their paths."""
    base = min(row["n"] for row in rows if row["system"] == "scan")
    sized = [row for row in rows if row["n"] >= base]  # without the R*-tree and those beside it
    events, live = "subscriptions, millions", "live events, millions"
    paths = [
        _by_size(sized, EVENTS, events, "Figure 4: event matching, K_s = 6", folder / "motree-4.png"),
        _by_kind(sized, EVENTS, base, "k", "K_s", "Figure 5: event matching", folder / "motree-5.png"),
        _by_size(sized, SUBSCRIPTIONS, live, "Figure 6: subscription matching, K_s = 6", folder / "motree-6.png"),
        _by_kind(sized, SUBSCRIPTIONS, base, "k", "K_s", "Figure 7: subscription matching", folder / "motree-7.png"),
    ]
    for number, (metric, title) in CHANGES.items():
        label = live if metric in ("us_per_publish", "us_per_retract") else events
        paths.append(_by_size(rows, metric, label, f"Figure {number}: {title}", folder / f"motree-{number}.png"))
    paths.append(_memory(sized, "Figure 12: memory of subscriptions and as many live events", folder / "motree-12.png"))
    if any("skew" in row["workload"] for row in rows):
        paths.append(_skew(sized, base, folder / "motree-table-5.png"))
    return paths


def _by_size(rows: Rows, metric: str, label: str, title: str, path: Path) -> Path:
    """One curve per system, by n; for changes of subscriptions also one of the MO-Tree in bulk."""
    figure, axes = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
    for system, (name, style) in STYLES.items():
        n, values = series(rows, "city-k6", system, metric)
        if n:
            axes.plot([size / 1e6 for size in n], values, style, label=name)
    n, values = series(rows, "city-k6", "mo-tree", f"{metric}_bulk")
    if n:
        axes.plot([size / 1e6 for size in n], values, "C0o--", label="MO-Tree, engine, in bulk")
    _finish(axes, label, title)
    return _saved(figure, path)


def _by_kind(rows: Rows, metric: str, n: int, prefix: str, label: str, title: str, path: Path) -> Path:
    """One curve per system, by the number at the end of the workload's name."""
    figure, axes = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
    _curves(axes, rows, metric, n, [(k, f"city-{prefix}{k}") for k in (4, 6, 8, 10)])
    _finish(axes, label, f"{title}, n = {n:,}")
    return _saved(figure, path)


def _curves(axes: Axes, rows: Rows, metric: str, n: int, kinds: Sequence[tuple[float, str]]) -> None:
    for system, (name, style) in STYLES.items():
        found = {
            row["workload"]: row["value"]
            for row in rows
            if (row["system"], row["metric"], row["n"]) == (system, metric, n)
        }
        points = [(at, found[workload]) for at, workload in kinds if workload in found]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=name)


def _skew(rows: Rows, n: int, path: Path) -> Path:
    """Both kinds of matching by the exponent of Zipf's law."""
    figure, panels = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    kinds = [*((skew, f"city-skew-{skew}") for skew in (0.0, 0.25, 0.5, 0.75)), (1.0, "city-k6")]
    for axes, metric, title in zip(
        panels, (EVENTS, SUBSCRIPTIONS), ("event matching", "subscription matching"), strict=True
    ):
        _curves(axes, rows, metric, n, kinds)
        _finish(axes, "skew of popularity (exponent)", f"Table 5: {title}, n = {n:,}")
    return _saved(figure, path)


def _memory(rows: Rows, title: str, path: Path) -> Path:
    """An index of subscriptions and one of live events, together."""
    figure, axes = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
    for system, events in (("mo-tree", "mo-tree"), ("tama", "beq-tree"), ("op-index", "beq-tree")):
        ours, theirs = (
            dict(zip(*series(rows, "city-k6", name, metric), strict=True))
            for name, metric in ((system, "bytes"), (events, "live_bytes"))
        )
        both = sorted(ours.keys() & theirs.keys())
        name, style = STYLES[system]
        name = name if system == events else f"{name} and BEQ-Tree"
        axes.plot([n / 1e6 for n in both], [(ours[n] + theirs[n]) / 1e6 for n in both], style, label=name)
    _finish(axes, "subscriptions and live events, millions of each", title, unit="MB", log=False)
    return _saved(figure, path)


def _finish(axes: Axes, label: str, title: str, *, unit: str = "µs", log: bool = True) -> None:
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_ylabel(unit)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))  # below: curves may be anywhere


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
