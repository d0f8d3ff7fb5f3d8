"""What the thread of a tenant is asked to do, what comes of it, and the names that both sides use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from matchwood.broker import outbox
from matchwood.broker.types import DeliveryOptions, TrackNotice
from matchwood.engine.records import Notice, instant_of
from matchwood.engine.tables import stored_subscription
from matchwood.errors import RequestError, TooLargeError

EXPRESSION_BYTES = 4096
"""The longest expression."""


class _Passed(msgspec.Struct, frozen=True, gc=False):
    """What is made for every event: it takes a third of the time of a named tuple, and is never part of a cycle."""


class Incoming(_Passed, frozen=True, gc=False):
    """An event as it arrived: values for the engine, and the JSON that is kept."""

    values: dict[str, Any]
    data: bytes
    id: str | None = None
    until: int | None = None
    trace: str | None = None


class Taken(_Passed, frozen=True, gc=False):
    """What became of an event. `hits` are pairs of a subscription's id and the score, best first."""

    seq: int
    id: str | None
    hits: list[tuple[str, float]]
    duplicate: bool = False
    truncated: bool = False


class Happening(_Passed, frozen=True, gc=False):
    """A record that streams deliver."""

    seq: int
    data: bytes
    event_id: str | None
    hits: list[tuple[str, float]]
    digest: outbox.StoredDigest | None = None
    trace: str | None = None
    notices: Mapping[str, Notice] = MappingProxyType({})
    """Of subscriptions that track objects: what they are told."""


class Conditions(NamedTuple):
    """What a change of a subscription depends on: its revision, or that there is none yet."""

    revision: int | None = None
    absent: bool = False


class Command(NamedTuple):
    run: Callable[..., Any]
    given: tuple[Any, ...]
    done: Callable[[Any], None]
    """Called in the loop with the result or the error."""


class Publish(NamedTuple):
    events: Sequence[Incoming]
    k: int | None
    done: Callable[[Any], None]


def stored(connection: Any, id_: str) -> tuple[Any, int] | None:
    """A subscription as it is stored, and its revision."""
    found = stored_subscription(connection, id_)
    if found is None:
        return None
    return found, connection.execute("SELECT revision FROM subscriptions WHERE id = ?", (id_,)).get


def consumer_of(options: DeliveryOptions) -> str | None:
    """The consumer in the outbox that deliveries go to; None for streams alone."""
    if options.type == "webhook":
        return f"webhook:{options.hook}"
    if options.type == "kafka":
        return f"kafka:{options.topic}"
    return f"stream:{options.consumer}" if options.type == "stream" and options.consumer else None


def transport_of(consumer: str) -> str:
    """The label of a consumer in the metrics."""
    transport = consumer.partition(":")[0]
    return "pull" if transport == "stream" else transport


def notice_view(notice: Notice) -> TrackNotice:
    """A notice as the subscriber sees it."""
    kind: Any = notice.track
    since = instant_text(notice.since) or ""
    return TrackNotice(kind=kind, object=notice.object, since=since, silent=notice.silent)


def split_id(id_: str) -> tuple[str, int]:
    """Subscription and seq of a delivery id."""
    subscription, _, seq = id_.rpartition("@")
    if not seq.isdigit() or not subscription or len(seq) > 18:
        raise RequestError(f"expected a delivery id SUBSCRIPTION@SEQ, got {id_[:100]!r}")
    return subscription, int(seq)


def instant_text(microseconds: int | None) -> str | None:
    """An instant as ISO 8601 text."""
    moment: datetime | None = instant_of(microseconds)
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def check_expression(expression: object) -> None:
    """Refuse an expression that is longer than a stranger's may be."""
    size = len(expression.encode()) if isinstance(expression, str) else len(msgspec.json.encode(expression))
    if size > EXPRESSION_BYTES:
        raise TooLargeError(
            f"the expression has {size:,} bytes, the limit is {EXPRESSION_BYTES:,}; split the subscription"
        )
