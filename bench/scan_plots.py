"""Scan and the same scan in C++, from the rows of `python -m bench scan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

SYSTEMS = {
    "scan": "Scan",
    "C++ scan": "C++, the same layout",
    "scan top-10": "Scan, the 10 best",
    "scan any, top-10": "Scan, any, the 10 best",
}


def draw(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """One group of bars a workload, logarithmic."""
    values = {(row["workload"], row["system"]): row["value"] for row in rows if row["metric"] == "us_per_event"}
    workloads = list(dict.fromkeys(workload for workload, _ in values))
    systems = [system for system in SYSTEMS if any((workload, system) in values for workload in workloads)]
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    width = 0.8 / len(systems)
    for i, system in enumerate(systems):
        places = [at + (i - (len(systems) - 1) / 2) * width for at in range(len(workloads))]
        heights = [values.get((workload, system), 0.0) for workload in workloads]
        bars = axes.bar(places, heights, width, label=SYSTEMS[system])
        axes.bar_label(bars, fmt=lambda value: f"{value:,.0f}" if value else "", fontsize=7)
    axes.set(yscale="log", ylabel="µs an event")
    axes.set_ylim(top=6 * max(values.values()))  # room for the legend
    axes.set_xticks(range(len(workloads)), workloads)
    axes.legend(fontsize=7, ncols=2)
    path = folder / "scan.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]
