"""`matchwood VERB`: runs the verb. An error of Matchwood is printed in one line.

Exit codes: 0 if all went well; 2 for an error, also in the arguments; 3 if records were rejected (`match`, `convert`,
`spark ingest`); 130 if interrupted.
A verb's module only declares it and imports the rest when it runs, so that help is instant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from matchwood import __version__
from matchwood.cli import (
    bench,
    convert,
    dead,
    demo,
    explain,
    hook,
    key,
    match,
    pub,
    serve,
    snapshot,
    spark,
    sub,
    tail,
    verify,
    warm,
)
from matchwood.cli.codes import ERROR, INTERRUPTED
from matchwood.errors import MatchwoodError

VERBS = (bench, convert, dead, demo, explain, hook, key, match, pub, serve, snapshot, spark, sub, tail, verify, warm)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="matchwood", description="Events against millions of subscriptions, best first."
    )
    parser.add_argument("--version", action="version", version=f"matchwood {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for verb in VERBS:
        verb.add_parser(verbs)
    chosen = parser.parse_args(arguments)
    try:
        code: int | None = chosen.run(chosen)
    except MatchwoodError as error:
        print(f"matchwood: {error}", file=sys.stderr)
        return ERROR
    except (KeyboardInterrupt, BrokenPipeError):
        return INTERRUPTED
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
