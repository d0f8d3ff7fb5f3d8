"""Router: content-based routing along a tree of routers, where covered subscriptions are not forwarded (Covering I, III-C).

    client -> Router.subscribe -> every link: G_1 of all that came from elsewhere -> forwarded if nothing covers it
    event  -> matched against the table -> local clients, and the links that matching subscriptions came from (never its own)

A cover counts for a link only if it is itself sent over that link: what came from a neighbour need not be sent back to it. So
each link has its own relation graph, over all subscriptions that did not come from it.

The links must form a tree: in a cycle events would never stop. `Network` refuses cycles; a router cannot detect them.

A router that restarts keeps the subscriptions of its own clients and forgets the rest. It requests everything from every
neighbour, waits for all answers, then sends each all that it now forwards; the receiver applies the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from matchwood.covering.graphs import Changes, RelationGraph
from matchwood.covering.transport import (
    Everything,
    Key,
    Message,
    Publish,
    RequestAll,
    RoutingError,
    Subscribe,
    Transport,
    Unsubscribe,
)
from matchwood.encode.arrays import Rows
from matchwood.encode.events import encode_events
from matchwood.encode.objects import RowsBuilder
from matchwood.lang.event import Event
from matchwood.lang.expression import Expression
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from matchwood.structures import Index, Scan

Notify = Callable[[str, Key, Event], None]
"""Called with the client, the subscription that matches and the event."""


class Forwarding(Protocol):
    """Decides which subscriptions a link carries: a `RelationGraph`, or `ForwardAll`."""

    def subscribe(self, rows: Rows) -> Changes: ...

    def unsubscribe(self, ids: Iterable[int]) -> Changes: ...

    def forwarded(self) -> list[int]: ...


class ForwardAll:
    """No covering: every subscription is forwarded. The baseline of measurements."""

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def subscribe(self, rows: Rows) -> Changes:
        ids = sorted(set(rows.ids.tolist()))
        self._ids.update(ids)
        return Changes(ids, [])

    def unsubscribe(self, ids: Iterable[int]) -> Changes:
        gone = list(ids)
        self._ids.difference_update(gone)
        return Changes([], gone)

    def forwarded(self) -> list[int]:
        return sorted(self._ids)


@dataclass
class _Link:
    """A neighbour: what is sent to it, and the numbers of the subscriptions that it sent."""

    outgoing: Forwarding
    received: dict[Key, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Known:
    key: Key
    expression: Expression
    neighbour: str | None  # None: a client of this router
    client: str | None


class Router:
    """One node of the network. Not for concurrent use: the transport delivers one message at a time.

    Numbers given to subscriptions ascend in order of arrival, so among equals the first to arrive is the cover.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        *,
        notify: Notify,
        schema: Schema | None = None,
        forwarding: Callable[[], Forwarding] = RelationGraph,
        table: Callable[[], Index] = Scan,
    ) -> None:
        self.name = name
        self.schema = Schema() if schema is None else schema
        self._transport, self._notify = transport, notify
        self._forwarding, self._make_table = forwarding, table
        self._neighbours: list[str] = []
        self._clients: dict[Key, tuple[str, Expression]] = {}
        self._last_key = 0
        self._table = table()
        self._known: dict[int, _Known] = {}
        self._local: dict[Key, int] = {}
        self._links: dict[str, _Link] = {}
        self._awaited: set[str] = set()
        self._next = 0
        transport.attach(name, self.receive)

    def connect(self, neighbour: str) -> None:
        """Add a link; the neighbour must do the same. Known subscriptions are forwarded."""
        if neighbour in self._links:
            raise RoutingError(f"routers {self.name!r} and {neighbour!r} are linked already")
        self._neighbours.append(neighbour)
        self._links[neighbour] = _Link(self._forwarding())
        for number in self._known:
            self._offer(number, neighbour)

    def subscribe(self, client: str, expression: Expression) -> Key:
        """Register a client's subscription."""
        key = Key(self.name, self._last_key)
        self._add(key, expression, None, client)
        self._last_key += 1
        self._clients[key] = client, expression
        return key

    def unsubscribe(self, key: Key) -> None:
        """Remove a client's subscription."""
        if key not in self._clients:
            raise RoutingError(f"router {self.name!r} has no client with subscription {key}")
        del self._clients[key]
        self._remove(self._local.pop(key))

    def publish(self, event: Event) -> None:
        """Deliver a client's event to all clients with a matching subscription."""
        self._route(event, None)

    def receive(self, sender: str, message: Message) -> None:
        """Handle a message from a neighbour; the transport calls this."""
        link = self._links.get(sender)
        if link is None:
            raise RoutingError(f"router {self.name!r} has no link to {sender!r}")
        if isinstance(message, Subscribe):
            if message.key not in link.received:
                self._add(message.key, message.expression, sender, None)
        elif isinstance(message, Unsubscribe):
            if message.key in link.received:
                self._remove(link.received.pop(message.key))
        elif isinstance(message, Publish):
            self._route(message.event, sender)
        elif isinstance(message, RequestAll):
            self._send_everything(sender)
        else:
            self._replace(sender, message)

    def restart(self) -> None:
        """Forget all but the subscriptions of the router's own clients, and request the rest from the neighbours."""
        self._table, self._known, self._local, self._next = self._make_table(), {}, {}, 0
        self._links = {name: _Link(self._forwarding()) for name in self._neighbours}
        self._awaited = set(self._neighbours)
        for key, (client, expression) in self._clients.items():
            self._add(key, expression, None, client)
        for name in self._neighbours:
            self._transport.send(self.name, name, RequestAll())

    @property
    def table_size(self) -> int:
        """The number of subscriptions in the routing table, local ones included."""
        return len(self._known)

    def _rows(self, number: int) -> Rows:
        builder = RowsBuilder(self.schema)
        builder.add(number, 0.0, normalise(self._known[number].expression, self.schema))
        return builder.build()

    def _add(self, key: Key, expression: Expression, neighbour: str | None, client: str | None) -> None:
        number = self._next
        self._known[number] = _Known(key, expression, neighbour, client)
        try:
            rows = self._rows(number)
        except Exception:
            del self._known[number]  # refused: no neighbour has been told
            raise
        self._next += 1
        self._table.insert(rows)
        (self._local if neighbour is None else self._links[neighbour].received)[key] = number
        for name in self._links:
            if name != neighbour:
                self._offer(number, name, rows)

    def _offer(self, number: int, neighbour: str, rows: Rows | None = None) -> None:
        rows = self._rows(number) if rows is None else rows
        self._tell(neighbour, self._links[neighbour].outgoing.subscribe(rows))

    def _remove(self, number: int) -> None:
        gone = self._known[number]
        for name, link in self._links.items():
            if name != gone.neighbour:
                self._tell(name, link.outgoing.unsubscribe([number]))
        self._table.delete(np.array([number]))
        del self._known[number]

    def _tell(self, neighbour: str, changes: Changes) -> None:
        """First send what is new, then what is withdrawn: no event is lost between the two."""
        if self._awaited:
            return  # after a restart everything is sent at once
        for number in changes.forward:
            known = self._known[number]
            self._transport.send(self.name, neighbour, Subscribe(known.key, known.expression))
        for number in changes.withdraw:
            self._transport.send(self.name, neighbour, Unsubscribe(self._known[number].key))

    def _route(self, event: Event, source: str | None) -> None:
        hits = self._table.match(encode_events([event], self.schema))
        neighbours: dict[str, None] = {}
        for number in np.sort(hits.ids).tolist():
            known = self._known[number]
            if known.neighbour is None:
                assert known.client is not None
                self._notify(known.client, known.key, event)
            elif known.neighbour != source:
                neighbours[known.neighbour] = None
        for name in neighbours:
            self._transport.send(self.name, name, Publish(event))

    def _send_everything(self, neighbour: str) -> None:
        forwarded = [self._known[number] for number in self._links[neighbour].outgoing.forwarded()]
        self._transport.send(self.name, neighbour, Everything({known.key: known.expression for known in forwarded}))

    def _replace(self, sender: str, message: Everything) -> None:
        received = self._links[sender].received
        for key, expression in message.subscriptions.items():
            if key not in received:
                self._add(key, expression, sender, None)
        for key in [key for key in received if key not in message.subscriptions]:
            self._remove(received.pop(key))
        if sender in self._awaited:
            self._awaited.discard(sender)
            if not self._awaited:
                for name in self._neighbours:
                    self._send_everything(name)
