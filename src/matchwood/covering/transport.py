"""The messages between routers, and their transport. Messages hold expressions and events, no keys: schemas may differ.

A transport delivers the messages of one sender to one receiver in the order in which they were sent, or loses them while the
receiver is down.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from matchwood.errors import MatchwoodError
from matchwood.lang.event import Event
from matchwood.lang.expression import Expression


class RoutingError(MatchwoodError):
    """An unknown router or subscription, or links that form a cycle."""


class Key(NamedTuple):
    """The name of a subscription in the whole network."""

    router: str
    number: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    key: Key
    expression: Expression


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    key: Key


@dataclass(frozen=True, slots=True)
class Publish:
    event: Event


@dataclass(frozen=True, slots=True)
class RequestAll:
    """The sender has restarted and needs all that the receiver has forwarded to it."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All that the sender forwards to the receiver; it replaces what was forwarded before."""

    subscriptions: Mapping[Key, Expression]


Message = Subscribe | Unsubscribe | Publish | RequestAll | Everything
Handler = Callable[[str, Message], None]


class Transport(Protocol):
    """Carries messages between routers, which have names."""

    def attach(self, name: str, handler: Handler) -> None:
        """Deliver messages to `name` by calling handler(sender, message), one at a time."""

    def send(self, sender: str, receiver: str, message: Message) -> None:
        """Deliver the message eventually, unless the receiver is down."""


class InProcess:
    """All routers in one process with one queue; `run` delivers until it is empty. Deterministic; not for threads.

    `sent` counts the messages by class name, lost ones included.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._queue: deque[tuple[str, str, Message]] = deque()
        self._down: set[str] = set()
        self.sent: Counter[str] = Counter()

    def attach(self, name: str, handler: Handler) -> None:
        if name in self._handlers:
            raise RoutingError(f"a router named {name!r} is attached already")
        self._handlers[name] = handler

    def send(self, sender: str, receiver: str, message: Message) -> None:
        if receiver not in self._handlers:
            raise RoutingError(f"no router named {receiver!r} is attached")
        self.sent[type(message).__name__] += 1
        self._queue.append((sender, receiver, message))

    def run(self) -> int:
        """Deliver all messages, and those that are sent meanwhile; return how many."""
        delivered = 0
        while self._queue:
            sender, receiver, message = self._queue.popleft()
            delivered += 1
            if receiver not in self._down and sender not in self._down:
                self._handlers[receiver](sender, message)
        return delivered

    def cut(self, name: str) -> None:
        """Lose all messages to and from the router from now on."""
        self._down.add(name)

    def restore(self, name: str) -> None:
        """Deliver messages to and from the router again."""
        self._down.discard(name)
