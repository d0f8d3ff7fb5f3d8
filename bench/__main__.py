"""`python -m bench NAME [--preset quick|paper] [--out FILE]`: run one experiment, or all there are."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from bench.report import Report

NAMES = ("scan", "bestar", "ranked", "vcr", "motree", "covering", "spark")


def main() -> None:
    """Parse the command line and run."""
    available = [name for name in NAMES if find_spec(f"bench.{name}") is not None]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=[*available, "all"], help="which experiment")
    parser.add_argument("--preset", choices=["quick", "paper"], default="quick", help="quick ends within a minute")
    parser.add_argument("--out", type=Path, help="write the figures as JSON to this file")
    arguments = parser.parse_args()
    report = Report(arguments.preset)
    for name in available if arguments.name == "all" else [arguments.name]:
        with report.step(f"{name}, preset {arguments.preset}"):
            import_module(f"bench.{name}").run(arguments.preset, report)
        if arguments.out is not None:
            report.save(arguments.out)  # after each experiment, so that a run cut short keeps what it has
    if arguments.out is not None:
        print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
