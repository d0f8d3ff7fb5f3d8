"""What routers say to each other, and what carries it. Messages hold expressions and events, no keys: schemas may differ.

A transport delivers the messages of one sender to one receiver in the order they were sent, or loses them while the receiver is
down.
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
    """An unknown router or subscription, or links that form a circle."""


class Key(NamedTuple):
    """A subscription's name in the whole network."""

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
class AskForAll:
    """The sender has restarted: tell it all that you have forwarded to it."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All that the sender forwards to the receiver; it replaces what the receiver knew from it."""

    subscriptions: Mapping[Key, Expression]


Message = Subscribe | Unsubscribe | Publish | AskForAll | Everything
Handler = Callable[[str, Message], None]


class Transport(Protocol):
    """Carries messages between routers that are known by name."""

    def attach(self, name: str, handler: Handler) -> None:
        """Messages to `name` are given to handler(sender, message), one at a time."""

    def send(self, sender: str, receiver: str, message: Message) -> None:
        """Deliver, sooner or later; nothing is promised while the receiver is down."""


class InProcess:
    """All routers in one process, one queue; `run` delivers until nothing is under way. Deterministic; not for threads.

    `sent` counts the messages by class name, those that were lost included.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._queue: deque[tuple[str, str, Message]] = deque()
        self._down: set[str] = set()
        self.sent: Counter[str] = Counter()

    def attach(self, name: str, handler: Handler) -> None:
        if name in self._handlers:
            raise RoutingError(f"a router {name!r} is there already")
        self._handlers[name] = handler

    def send(self, sender: str, receiver: str, message: Message) -> None:
        if receiver not in self._handlers:
            raise RoutingError(f"there is no router {receiver!r}")
        self.sent[type(message).__name__] += 1
        self._queue.append((sender, receiver, message))

    def run(self) -> int:
        """Deliver what is under way and what comes of it; return how many messages that were."""
        delivered = 0
        while self._queue:
            sender, receiver, message = self._queue.popleft()
            delivered += 1
            if receiver not in self._down and sender not in self._down:
                self._handlers[receiver](sender, message)
        return delivered

    def cut(self, name: str) -> None:
        """From now on messages to and from the router are lost."""
        self._down.add(name)

    def restore(self, name: str) -> None:
        """The router can be reached again."""
        self._down.discard(name)
