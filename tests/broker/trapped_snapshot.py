"""`python -m tests.broker.trapped_snapshot before|after FOLDER`: a snapshot of a service, which is killed with it at its rename.

A service makes snapshots in processes of their own, where its traps are not set.
"""

from __future__ import annotations

import os
import signal
import sys

from matchwood.engine import snapshotting
from tests.broker.kills import kill_at_rename
from tests.engine.durable_world import kill


def kill_both() -> None:
    """The service first, which would see the end of this process."""
    os.kill(os.getppid(), signal.SIGKILL)
    kill()


if __name__ == "__main__":
    kill_at_rename(kill_both, after=sys.argv.pop(1) == "after")
    sys.exit(snapshotting.main())
