"""`python -m bench.bestar_figures FILE FOLDER`: Figures 6 to 9 of the BE*-Tree paper from the JSON of `python -m bench bestar`.

With `--shape` it draws a tree's depth, fan-out and fill instead, from a workload made on the spot.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from matchwood.structures import BEStarTree
from matchwood.workloads import BEGen

LAWS = ("uniform", "zipf")
ALL = ("be-star-tree", "be-tree", "k-index")
STYLES = {
    "be-star-tree": ("C0", "-", "o"),
    "be-tree": ("C1", "-", "s"),
    "k-index": ("C2", "-", "^"),
    "scan": ("C7", "-", "x"),
    "be-star-tree top-1": ("C0", ":", "o"),
    "be-star-tree top-5": ("C0", "--", "o"),
    "be-tree top-1": ("C1", ":", "s"),
    "be-tree top-5": ("C1", "--", "s"),
    "k-index top-1": ("C2", ":", "^"),
    "k-index top-5": ("C2", "--", "^"),
}


def main() -> None:
    """Draw what the file has figures for, or the shape of trees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", action="store_true", help="draw the shape of trees; the file is not read")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.shape:
        draw_shape(arguments.folder / "bestar-shape.svg")
        return
    draw(json.loads(arguments.file.read_text(encoding="utf-8"))["rows"], arguments.folder)


def draw(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw what the rows have figures for; return where."""
    top = [s for s in STYLES if " top-" in s]
    figures = [
        sweep(rows, folder / "bestar-6-cardinality.svg", "cardinality", "dimension cardinality", ALL, log=True),
        sweep(rows, folder / "bestar-7-clusters.svg", "clusters", "clusters in each dimension", ALL),
        sweep(rows, folder / "bestar-7-cluster-size.svg", "cluster-size", "cluster size", ALL, log=True),
        sweep(rows, folder / "bestar-8-size.svg", "size", "subscriptions", [*ALL, "scan", *top], log=True),
        sweep(rows, folder / "bestar-9-match.svg", "match", "match probability", [*ALL, *top], log=True),
        tests(rows, folder / "bestar-tests.svg"),
    ]
    return [path for path in figures if path is not None]


def points(rows: list[dict[str, Any]], column: str, law: str, system: str) -> tuple[list[Any], list[float]]:
    """The parameter and us an event of one curve; the size column has its parameter in `n`, the others in the workload's name."""
    found: list[tuple[Any, float]] = []
    for row in rows:
        if row["metric"] != "us_per_event" or row["system"] != system:
            continue
        if column == "size" and row["workload"] == f"size-{law}":
            found.append((row["n"], row["value"]))
        elif row["workload"].startswith(f"{column}-{law}-"):
            label = row["workload"].removeprefix(f"{column}-{law}-")
            found.append(("N/A" if label == "None" else float(label), row["value"]))
    return [x for x, _ in found], [y for _, y in found]


def sweep(
    rows: list[dict[str, Any]], path: Path, column: str, label: str, systems: Iterable[str], *, log: bool = False
) -> Path | None:
    """One figure: uniform on the left, Zipf on the right. None if there is nothing to draw."""
    if not any(points(rows, column, law, "be-star-tree")[0] for law in LAWS):
        return None
    figure, sides = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for axes, law in zip(sides, LAWS, strict=True):
        for system in systems:
            x, y = points(rows, column, law, system)
            if not x:
                continue
            colour, line, marker = STYLES[system]
            places = [str(int(v)) if isinstance(v, float) else v for v in x] if "N/A" in x else x
            axes.plot(places, y, color=colour, linestyle=line, marker=marker, markersize=4, label=system)
        axes.set_title(law)
        axes.set_xlabel(label)
        axes.set_yscale("log")
        if log:
            axes.set_xscale("log")
            ticks = sorted({x for line in axes.lines for x in line.get_xdata()})
            axes.set_xticks(ticks, [f"{tick:g}" if tick < 1000 else f"{tick:,.0f}" for tick in ticks], fontsize=7)
            axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
    sides[0].set_ylabel("µs an event")
    sides[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return save(figure, path)


def tests(rows: list[dict[str, Any]], path: Path) -> Path | None:
    """What is counted, by number of subscriptions: predicates tested in vain, and nodes visited."""
    figure, sides = plt.subplots(1, 2, figsize=(9, 3.4))
    kinds = (("tests_in_vain_per_event", "predicates tested in vain"), ("nodes_per_event", "nodes visited"))
    for axes, (metric, title) in zip(sides, kinds, strict=True):
        for law, line in zip(LAWS, ("-", "--"), strict=True):
            for system in (*ALL, "scan"):
                mine = [r for r in rows if (r["workload"], r["system"], r["metric"]) == (f"size-{law}", system, metric)]
                colour, _, marker = STYLES[system]
                x, y = [r["n"] for r in mine], [r["value"] for r in mine]
                if x:
                    axes.plot(x, y, line, color=colour, marker=marker, markersize=4, label=f"{system}, {law}")
        axes.set(title=f"{title}, an event", xlabel="subscriptions", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    sides[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    if not sides[0].lines:
        plt.close(figure)
        return None
    return save(figure, path)


def draw_shape(path: Path) -> None:
    """Buckets by level, p-nodes by partitioned bucket, rows by leaf, of trees over 100,000 subscriptions."""
    figure, (levels, fans, fills) = plt.subplots(1, 3, figsize=(9, 3))
    for law in LAWS:
        tree = BEStarTree.build(BEGen.preset(law, size=100_000).subscriptions())._tree
        buckets = tree.buckets[: tree.counts["buckets"][0]]
        buckets = buckets[buckets["live"] > 0]
        depth = np.bincount(buckets["level"])
        levels.plot(range(len(depth)), depth, marker="o", label=law)
        fan = np.sort(buckets["p_size"][buckets["p_size"] > 0])[::-1]
        fans.plot(range(1, len(fan) + 1), fan, label=law)
        fill = np.bincount(buckets["leaf_size"][buckets["leaf_size"] > 0])
        fills.plot(range(len(fill)), fill, label=law)
    for axes, title, label in (
        (levels, "buckets by level", "level"),
        (fans, "p-nodes of a partitioned bucket", "rank of the bucket"),
        (fills, "leaves by rows", "rows"),
    ):
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(label)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    fans.set_xscale("log")
    save(figure, path)


def save(figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


if __name__ == "__main__":
    main()
