"""`python -m bench.ranked_figures FILE FOLDER`: Ranked's Table 2 and Figures 6 to 9 from the JSON of `python -m bench ranked`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

COLOURS = {
    "sopt": "#1b6ca8",
    "ir": "#d1495b",
    "segment": "#66a182",
    "interval": "#edae49",
    "r": "#7d5ba6",
    "scan": "#555555",
}
LABELS = {
    "sopt": "SOPT-R-tree",
    "ir": "IR-tree",
    "segment": "segment tree",
    "interval": "interval tree",
    "r": "scored R-tree",
}


def main(source: Path, folder: Path) -> None:
    """Draw what the file has figures for."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(json.loads(source.read_text(encoding="utf-8"))["rows"], folder)


def draw(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw what the rows have figures for; return where."""
    import matplotlib as mpl

    mpl.use("svg")
    figures = [memory(rows, folder), calls(rows, folder), *dimensions(rows, folder), overlap(rows, folder)]
    return [path for path in figures if path is not None]


def memory(rows: list[dict[str, Any]], folder: Path) -> Path | None:
    """Table 2: megabytes by number of intervals."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["metric"] == "bytes_per_interval":
            lines.setdefault(row["system"], []).append((row["n"], row["value"] * row["n"] / 1e6))
    return _draw(lines, folder / "ranked-memory.svg", "intervals", "megabytes", "Memory of one dimension (Table 2)")


def calls(rows: list[dict[str, Any]], folder: Path) -> Path | None:
    """Figure 6, and beside it scores that do not depend on lengths."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["metric"] == "us_per_query" and row["workload"].startswith("d1-getnext-k"):
            k = int(row["workload"].removeprefix("d1-getnext-k"))
            lines.setdefault(row["system"], []).append((k, row["value"]))
    return _draw(
        lines, folder / "ranked-getnext.svg", "hits asked for", "µs a query, batched", "Ranked stabs (Figure 6)"
    )


def dimensions(rows: list[dict[str, Any]], folder: Path) -> list[Path | None]:
    """Figures 7 and 8: relaxed matching by dimensions, in time and relative to SOPT."""
    lines = _relaxed(rows, "d")
    path, title = folder / "ranked-dimensions.svg", "Relaxed matching, top 20 (Figure 7)"
    first = _draw(lines, path, "dimensions", "µs an event", title)
    base = dict(lines.get("sopt by weight", []))
    relative = {s: [(d, v / base[d]) for d, v in points if d in base] for s, points in lines.items() if s != "scan"}
    title = "Time relative to the SOPT-R-tree by weight (Figure 8)"
    return [first, _draw(relative, folder / "ranked-relative.svg", "dimensions", "times", title)]


def overlap(rows: list[dict[str, Any]], folder: Path) -> Path | None:
    """Figure 9: relaxed matching in four dimensions by the skew of lengths."""
    lines = _relaxed(rows, "overlap-")
    title = "Overlap, four dimensions, top 20 (Figure 9)"
    return _draw(
        lines,
        folder / "ranked-overlap.svg",
        "skew of lengths (higher: less overlap)",
        "µs an event",
        title,
        scale="linear",
    )


def _relaxed(rows: list[dict[str, Any]], prefix: str) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        tail = row["workload"].removeprefix(prefix)
        if row["metric"] == "us_per_event" and row["workload"].startswith(prefix) and tail.replace(".", "").isdigit():
            lines.setdefault(row["system"], []).append((float(tail), row["value"]))
    return lines


def _draw(
    lines: dict[str, list[tuple[float, float]]], path: Path, across: str, up: str, title: str, *, scale: str = "log"
) -> Path | None:
    import matplotlib.pyplot as plt

    if not lines:
        return None
    figure, axes = plt.subplots(figsize=(8.4, 4.2))
    for system, points in lines.items():
        name, _, order = system.partition(" by ")
        label = LABELS.get(name, name) + (", by totals (ours)" if order == "score" else "")
        style = "--" if order == "score" else "-"
        axes.plot(*zip(*sorted(points), strict=True), style, marker="o", ms=4, color=COLOURS.get(name), label=label)
    axes.set(xlabel=across, ylabel=up, title=title, yscale="log", xscale=scale)
    if across == "dimensions":
        ticks = sorted({x for points in lines.values() for x, _ in points})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
