"""Every index on every workload, and `auto`, from the rows of `python -m bench auto`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

MARKERS = "osD^vP*X<>hd"


def draw(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """One line per workload with a point for each index; a ring marks `auto`."""
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["metric"] == "us_per_event":
            values.setdefault(f"{row['workload']}, {row['n']:,}", {})[row["system"]] = row["value"]
    systems = list(dict.fromkeys(system for value in values.values() for system in value if system != "auto"))
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.3 * len(values)), layout="constrained")
    for i, system in enumerate(systems):
        points = [(value[system], at) for at, value in enumerate(values.values()) if system in value]
        axes.plot(*zip(*points, strict=True), MARKERS[i % len(MARKERS)], markersize=6, label=system)
    rings = [(value["auto"], at) for at, value in enumerate(values.values()) if "auto" in value]
    if rings:
        axes.plot(*zip(*rings, strict=True), "o", markersize=13, markerfacecolor="none", color="black", label="auto")
    axes.set(xscale="log", xlabel="µs an event", ylim=(len(values) - 0.5, -0.5))
    axes.set_yticks(range(len(values)), list(values))
    axes.grid(alpha=0.3)
    figure.legend(fontsize=8, loc="outside right upper")
    path = folder / "auto.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]
