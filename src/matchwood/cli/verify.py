"""`matchwood verify FOLDER`: reads the data of a broker, or of a durable engine, and says what is wrong with it."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "verify",
        help="read the data of a broker or durable engine, and say what is wrong",
        description="Check the journal and every snapshot in a folder of `matchwood serve --data` or `Engine.open`: checksums, "
        "gaps, and whether the engine can be recovered. Nothing is changed; a broker may run meanwhile.",
        epilog="Exit codes: 0 if all is well, 3 if there are problems, 2 for an error.",
    )
    parser.add_argument("folder", type=Path)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify, and print a line for each journal."""
    from matchwood.cli.verifying import verify_folder  # not for --help

    return verify_folder(options.folder)
