"""`matchwood spark vacuum LAKE NAME`: remove old versions that no process reads."""

from __future__ import annotations

import argparse


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stages.add_parser("vacuum", help="remove old versions that no process reads")
    parser.add_argument("lake", help="the folder of the lake")
    parser.add_argument("name", help="of the table, or index")
    parser.add_argument("--keep", type=int, default=2, help="versions that stay, the newest")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Remove, and say what."""
    from matchwood.spark.lake import Lake

    removed = Lake(options.lake).vacuum(options.name, keep=options.keep)
    print(f"removed versions: {', '.join(map(str, removed)) or 'none'}")
