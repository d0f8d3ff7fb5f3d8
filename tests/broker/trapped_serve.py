"""`python -m tests.broker.trapped_serve OPERATION SUFFIX before|after NTH serve ...`: `matchwood serve`, killed at a point."""

from __future__ import annotations

import sys

from matchwood.cli.main import main
from matchwood.engine import journal
from tests.broker.kills import set_trap

if __name__ == "__main__":
    operation, suffix, when, nth, *command = sys.argv[1:]
    journal.CHECKPOINT_PAGES = 50  # checkpoints are points too
    set_trap((operation, suffix, when == "after"), int(nth))
    sys.exit(main(command))
