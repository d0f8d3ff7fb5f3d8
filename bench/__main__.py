"""`python -m bench NAME [--preset quick|paper] [--out FILE.json|FOLDER] [--fresh]`: run one experiment, or all.

The figures of NAME are stored in FILE.json or FOLDER/NAME.json after each part: an interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from bench.report import Report

NAMES = (
    *("scan", "bestar", "ranked", "vcr", "motree", "covering", "auto", "postings", "cold", "frontdoor", "broker"),
    "language",
    "spark",
)


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    available = [name for name in NAMES if find_spec(f"bench.{name}") is not None]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=[*available, "all"], help="which experiment")
    parser.add_argument("--preset", choices=["quick", "paper"], default="quick", help="quick ends within a minute")
    parser.add_argument(
        "--out", type=Path, help="FILE.json of one experiment, or a folder (build/bench/PRESET unless given)"
    )
    parser.add_argument("--fresh", action="store_true", help="discard stored figures and measure everything")
    arguments = parser.parse_args(words)
    out = arguments.out or Path("build") / "bench" / arguments.preset
    is_file = out.suffix == ".json" and not out.is_dir()
    if is_file and arguments.name == "all":
        parser.error(f"expected a folder for all experiments, got {out}")
    for name in available if arguments.name == "all" else [arguments.name]:
        path = out if is_file else out / f"{name}.json"
        report = Report(arguments.preset, path) if arguments.fresh else Report.resume(arguments.preset, path)
        with report.step(f"{name}, preset {arguments.preset}"):
            import_module(f"bench.{name}").run(arguments.preset, report)
        print(f"written: {path}")


if __name__ == "__main__":
    main()
