"""A tenant without a service: commands run at once, in the calling thread, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from matchwood import ManualClock
from matchwood.broker.commands import Command, Happening, Incoming, Publish, Taken
from matchwood.broker.metrics import Metrics
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import TenantLimits
from matchwood.errors import MatchwoodError
from matchwood.lang.json_values import of_json


class _Now:
    """Stands in for an event loop: what is handed over happens at once."""

    def is_closed(self) -> bool:
        return False

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        call()


class Direct:
    """A tenant that is called directly. `streamed` collects what streams would get."""

    def __init__(self, folder: Path, clock: ManualClock, limits: TenantLimits | None = None) -> None:
        self.tenant = Tenant("t", folder, limits or TenantLimits(), Metrics(), clock=clock, index="scan")
        self.tenant._loop = _Now()  # type: ignore[assignment]
        self.tenant._thread = _NoThread()  # type: ignore[assignment]
        self.streamed: list[Happening] = []
        self.tenant.on_commit = lambda happenings, woken, last: self.streamed.extend(happenings)

    def call(self, run: Callable[..., Any], *given: Any) -> Any:
        """The result of a command; its error is raised."""
        results: list[Any] = []
        self.tenant._commit([Command(run, given, results.append)])
        if isinstance(results[0], BaseException):
            raise results[0]
        return results[0]

    def publish(self, events: Sequence[Incoming], k: int | None = None) -> list[Taken | MatchwoodError]:
        results: list[Any] = []
        self.tenant._commit([Publish(events, k, results.append)])
        if isinstance(results[0], BaseException):
            raise results[0]
        return list(results[0])

    def close(self) -> None:
        self.tenant.stop()


class _NoThread:
    def is_alive(self) -> bool:
        return False


def incoming(values: dict[str, Any], id: str | None = None, until: int | None = None) -> Incoming:
    read = {name: of_json(value) for name, value in values.items()}
    return Incoming(read, msgspec.json.encode(values), id, until)
