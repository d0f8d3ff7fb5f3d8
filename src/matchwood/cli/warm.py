"""`matchwood warm`: compiles kernels ahead, into the cache on disk: for images, CI and machines without waiting users."""

from __future__ import annotations

import argparse


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "warm",
        help="compile everything that Engine() uses ahead",
        description="Compile the kernels that Engine() uses into the cache on disk, each part in a process of its own: "
        "about a minute, once on a machine. The cache is $NUMBA_CACHE_DIR, else the user's cache folder.",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also the indexes that must be named, and scoring functions other than the sum",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Compile, and say where the kernels are."""
    from matchwood.cli.compiling import compile_all  # not for --help

    compile_all(named=options.all)
