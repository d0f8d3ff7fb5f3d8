"""When to try again: a schedule of retries over hours with jitter, and a circuit breaker for each host. Clocks are passed in."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime

DELAYS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 43200.0)
"""Seconds before each retry: ten of them, over 27 hours and a half."""
LONGEST = 86400.0
"""Seconds that a receiver can put off a retry by `Retry-After`."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The delays before retries. Each is stretched or shortened by up to `jitter`, so that failures do not come back together.

    >>> Schedule(jitter=0).delay(1), Schedule(jitter=0).delay(11)
    (5.0, None)
    """

    delays: tuple[float, ...] = DELAYS
    jitter: float = 0.2
    random: Callable[[], float] = field(default=random.random, repr=False)

    def delay(self, failures: int, *, retry_after: float | None = None) -> float | None:
        """Seconds until the next attempt after so many failures (1, 2 ...); None if there is to be none.

        A receiver may ask for a later attempt by `Retry-After`, not for an earlier one.
        """
        if failures > len(self.delays):
            return None
        delay = self.delays[failures - 1] * (1 + self.jitter * (2 * self.random() - 1))
        return delay if retry_after is None else max(delay, min(retry_after, LONGEST))


def seconds_of(retry_after: str | None, *, now: float) -> float | None:
    """The seconds that a `Retry-After` header asks for: a number, or a date; None if it is missing or neither.

    >>> seconds_of("120", now=0.0), seconds_of("Thu, 01 Jan 1970 00:01:00 GMT", now=0.0), seconds_of("soon", now=0.0)
    (120.0, 60.0, None)
    """
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST)
    try:
        when = parsedate_to_datetime(text)
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    opened: float | None = None
    pauses: int = 0
    probing: bool = False


class Breakers:
    """A circuit breaker for each host: after `threshold` failures in a row, attempts pause, and then one probe goes through.

    The pause is `pause` seconds and doubles with each failed probe, up to `longest`. A success closes the circuit. At most
    `hosts` circuits are kept; the one that failed longest ago is forgotten. Use: `wait = breakers.wait(host, now)`; if it is 0,
    attempt, then call `succeeded`, `failed` or `abandoned`.
    """

    def __init__(
        self, *, threshold: int = 5, pause: float = 30.0, longest: float = 1800.0, hosts: int = 10_000
    ) -> None:
        self._threshold, self._pause, self._longest, self._hosts = threshold, pause, longest, hosts
        self._circuits: OrderedDict[str, _Circuit] = OrderedDict()

    def __len__(self) -> int:
        return len(self._circuits)

    def wait(self, host: str, now: float) -> float:
        """Seconds until an attempt at this host may be made; 0 if now. If the pause is over, this call is the probe."""
        circuit = self._circuits.get(host)
        if circuit is None or circuit.opened is None:
            return 0.0
        left = circuit.opened + self._length(circuit) - now
        if left > 0:
            return left
        if circuit.probing:
            return self._pause
        circuit.probing = True
        return 0.0

    def succeeded(self, host: str) -> None:
        """An attempt at this host succeeded."""
        self._circuits.pop(host, None)

    def failed(self, host: str, now: float) -> None:
        """An attempt at this host failed."""
        circuit = self._circuits.setdefault(host, _Circuit())
        self._circuits.move_to_end(host)
        while len(self._circuits) > self._hosts:
            self._circuits.popitem(last=False)
        circuit.failures += 1
        if circuit.probing:
            circuit.pauses += 1
            circuit.probing, circuit.opened = False, now
        elif circuit.opened is None and circuit.failures >= self._threshold:
            circuit.opened = now

    def abandoned(self, host: str) -> None:
        """An attempt at this host was cancelled: it says nothing."""
        if host in self._circuits:
            self._circuits[host].probing = False

    def open(self) -> int:
        """How many circuits are open."""
        return sum(circuit.opened is not None for circuit in self._circuits.values())

    def _length(self, circuit: _Circuit) -> float:
        return min(self._pause * 2.0 ** min(circuit.pauses, 30), self._longest)
