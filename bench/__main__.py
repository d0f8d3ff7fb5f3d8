"""`python -m bench NAME [--preset quick|paper] [--out FOLDER] [--fresh]`: run one experiment, or all there are.

The figures of NAME are kept in FOLDER/NAME.json part by part: a run that was cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from bench.report import Report

NAMES = ("scan", "bestar", "ranked", "vcr", "motree", "covering", "auto", "spark")


def main() -> None:
    """Parse the command line and run."""
    available = [name for name in NAMES if find_spec(f"bench.{name}") is not None]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=[*available, "all"], help="which experiment")
    parser.add_argument("--preset", choices=["quick", "paper"], default="quick", help="quick ends within a minute")
    parser.add_argument("--out", type=Path, help="folder of the figures (build/bench/PRESET unless given)")
    parser.add_argument("--fresh", action="store_true", help="measure again what has been measured")
    arguments = parser.parse_args()
    folder = arguments.out or Path("build") / "bench" / arguments.preset
    for name in available if arguments.name == "all" else [arguments.name]:
        path = folder / f"{name}.json"
        report = Report(arguments.preset, path) if arguments.fresh else Report.resume(arguments.preset, path)
        with report.step(f"{name}, preset {arguments.preset}"):
            import_module(f"bench.{name}").run(arguments.preset, report)
        print(f"written: {path}")


if __name__ == "__main__":
    main()
