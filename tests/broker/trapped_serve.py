"""`python -m tests.broker.trapped_serve OPERATION SUFFIX before|after NTH serve ...`: `matchwood serve`, killed at a point."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from matchwood.cli.main import main
from matchwood.engine import journal
from tests.broker.kills import set_trap


def trap_snapshots(when: str) -> None:
    """Let snapshots, which are made in processes of their own, kill this one when they are renamed."""
    run = subprocess.run

    def trapped(command: list[str], **options: Any) -> Any:
        if "matchwood.engine.snapshotting" in command:
            command = [sys.executable, "-m", "tests.broker.trapped_snapshot", when, command[-1]]
        return run(command, **options)

    subprocess.run = trapped  # type: ignore[assignment]


if __name__ == "__main__":
    operation, suffix, when, nth, *command = sys.argv[1:]
    journal.CHECKPOINT_PAGES = 50  # checkpoints are points too
    if operation == "rename":
        trap_snapshots(when)
    else:
        set_trap((operation, suffix, when == "after"), int(nth))
    sys.exit(main(command))
