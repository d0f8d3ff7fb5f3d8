"""`matchwood VERB`: runs the verb; an error of Matchwood is printed in one line, with exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from matchwood import __version__
from matchwood.cli import demo, match, spark
from matchwood.errors import MatchwoodError

VERBS = (demo, match, spark)


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
        chosen.run(chosen)
    except MatchwoodError as error:
        print(f"matchwood: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
