"""`python -m bench.plots [--results FOLDER] [--out FOLDER]`: draw the figures of the stored results into OUT/figures."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from bench.results import Experiment, Results

MODULES = {
    "auto": "auto_plots",
    "scan": "scan_plots",
    "bestar": "bestar_figures",
    "ranked": "ranked_figures",
    "vcr": "vcr_plots",
    "motree": "motree_plots",
    "covering": "covering_plots",
    "spark": "spark_plots",
}
"""Modules with a function `draw(rows, folder)`, which returns the paths of its figures."""

MAX_BYTES = 200_000


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw the figures of every experiment that has been run."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "matchwood"  # so that equal rows give equal files
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    folder.mkdir(parents=True, exist_ok=True)
    return [path for experiment in results for path in drawn(experiment, folder)]


def drawn(experiment: Experiment, folder: Path) -> list[Path]:
    """The figures of one experiment. A figure whose rows are missing is an error for the preset `paper` only."""
    if experiment.name not in MODULES:
        return []
    try:
        paths: list[Path] = import_module(f"bench.{MODULES[experiment.name]}").draw(experiment.rows, folder)
    except (LookupError, ValueError) as error:
        if experiment.preset == "paper":
            raise SystemExit(f"{experiment.name}.json cannot be drawn: {error!r}") from error
        print(f"{experiment.name}: no figures from the preset {experiment.preset} ({error!r})", file=sys.stderr)
        return []
    for path in paths:
        if path.stat().st_size > MAX_BYTES:
            raise SystemExit(f"{path} has {path.stat().st_size:,} bytes; the limit is {MAX_BYTES:,}")
    return paths


def main() -> None:
    """Read and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("docs/figures"), help="folder of NAME.json")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder whose figures/ they go to")
    arguments = parser.parse_args()
    for path in draw_all(Results.load(arguments.results, MODULES), arguments.out / "figures"):
        print(f"drawn: {path}")


if __name__ == "__main__":
    main()
