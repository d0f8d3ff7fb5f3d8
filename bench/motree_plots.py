"""`python -m bench.motree_plots FILE [FOLDER]`: the figures of the MO-Tree experiment, from its JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SYSTEMS = ("mo-tree", "mo-tree-paper", "scan", "tama", "op-index", "beq-tree", "r-star-tree")


def main() -> None:
    """Read a report and draw what it holds: bars a system, logarithmic, one group a workload."""
    import matplotlib as mpl

    mpl.use("Agg")
    source = Path(sys.argv[1])
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/figures")
    rows = json.loads(source.read_text(encoding="utf-8"))["rows"]
    most = max(row["n"] for row in rows)
    _bars(rows, "us_per_event", most, "Event matching (Figures 4, 5)", "µs an event", folder / "motree-events.png")
    _bars(rows, "us_per_subscription", most, "Subscription matching (6, 7)", "µs", folder / "motree-live.png")
    _by_size(rows, folder / "motree-sizes.png")


def _bars(rows: list[dict[str, Any]], metric: str, n: int, title: str, label: str, target: Path) -> None:
    import matplotlib.pyplot as plt

    chosen = [row for row in rows if row["metric"] == metric and row["n"] == n]
    workloads = sorted({row["workload"] for row in chosen}, key=lambda name: (len(name), name))
    systems = [system for system in SYSTEMS if any(row["system"] == system for row in chosen)]
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for i, system in enumerate(systems):
        values = {row["workload"]: row["value"] for row in chosen if row["system"] == system}
        places = [at + (i - (len(systems) - 1) / 2) * 0.8 / len(systems) for at in range(len(workloads))]
        bars = axes.bar(places, [values.get(name, 0) for name in workloads], 0.8 / len(systems), label=system)
        axes.bar_label(bars, fmt=lambda value: f"{value:,.0f}" if value else "", fontsize=7)
    axes.set_yscale("log")
    axes.set_ylim(top=20 * max(row["value"] for row in chosen))  # room for the legend
    axes.set_xticks(range(len(workloads)), workloads)
    axes.set_ylabel(label)
    axes.set_title(f"{title}, n = {n:,}", fontsize=10)
    axes.legend(fontsize=7, ncols=3)
    figure.savefig(target, dpi=110)
    plt.close(figure)


def _by_size(rows: list[dict[str, Any]], target: Path) -> None:
    """Time by the number of subscriptions or live events, where a report has several."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    drawn = False
    for system in SYSTEMS:
        for metric, style in (("us_per_event", "o-"), ("us_per_subscription", "s--")):
            points = sorted(
                (row["n"], row["value"])
                for row in rows
                if row["workload"] == "city-k6" and row["system"] == system and row["metric"] == metric
            )
            if len(points) > 2:
                axes.plot(*zip(*points, strict=True), style, label=f"{system}, {metric[7:]}")
                drawn = True
    if drawn:
        axes.set_yscale("log")
        axes.set_xlabel("subscriptions, or live events")
        axes.set_ylabel("µs")
        axes.legend(fontsize=7)
        figure.savefig(target, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
