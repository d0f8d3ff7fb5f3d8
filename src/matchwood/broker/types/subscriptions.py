"""Subscriptions over the wire, and how their matches are delivered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from matchwood.broker.types.base import AnswerType, Name, Place, Rejected, RequestType, SubscriptionText
from matchwood.broker.types.events import LiveHit


class Digest(RequestType):
    """At most `max` matches in each `period` seconds, best first, in one delivery at the end of the period."""

    max: Annotated[int, Meta(ge=1, le=1000)]
    period: Annotated[float, Meta(ge=0.1, le=31 * 86400)]


class Track(RequestType):
    """Tell of objects that enter, leave and stay, in place of every match.

    `object` is the attribute of events that names the object, by a text or a whole number. `dwell`: seconds after which a stay is
    told of. `forget`: seconds without an event of the object after which its stay ends.
    """

    object: Annotated[str, Meta(min_length=1, max_length=200)]
    on: Annotated[list[Literal["enter", "exit", "dwell"]], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: ["enter", "exit"]
    )
    dwell: Annotated[float, Meta(ge=1, le=31 * 86400)] | None = None
    forget: Annotated[float, Meta(ge=1, le=31 * 86400)] | None = None


class DeliveryOptions(RequestType):
    """How matches reach the subscriber.

    `stream`: whoever listens at that moment, or catches up within the retention; with `consumer` the durable consumer of that
    name, which acknowledges. `webhook`: the hook of the name `hook`. `kafka`: the topic. `none`: nowhere (only `wait=matched`).
    """

    type: Literal["stream", "webhook", "kafka", "none"] = "stream"
    consumer: Name | None = None
    hook: Name | None = None
    topic: str | None = None
    digest: Digest | None = None
    track: Track | None = None


class NewSubscription(RequestType):
    """A subscription to add or to replace. Without `id` it gets a number."""

    expression: str | dict[str, Any] | bool
    id: SubscriptionText | None = None
    priority: float = 0.0
    place: Place | None = None
    radius: float | None = None
    until: str | None = None
    metadata: Any = None
    delivery: DeliveryOptions = msgspec.field(default_factory=DeliveryOptions)


class SubscriptionPatch(RequestType):
    """What changes; what is not given stays. `place` alone moves the subscription."""

    expression: str | dict[str, Any] | bool | UnsetType = UNSET
    priority: float | UnsetType = UNSET
    place: Place | UnsetType = UNSET
    radius: float | UnsetType = UNSET
    until: str | UnsetType | None = UNSET
    metadata: Any = UNSET
    delivery: DeliveryOptions | UnsetType = UNSET
    paused: bool | UnsetType = UNSET


class SubscriptionView(AnswerType):
    """A subscription as it is kept. `revision` is the `seq` of its last change, and its ETag."""

    id: str
    expression: Any
    revision: int
    priority: float = 0.0
    place: list[float] | None = None
    radius: float | None = None
    until: str | None = None
    metadata: Any = None
    delivery: DeliveryOptions = msgspec.field(default_factory=DeliveryOptions)
    paused: bool = False
    live: list[LiveHit] | UnsetType = UNSET
    """Of a new subscription: the live events that match it, best first."""


class SubscriptionPage(AnswerType):
    """Subscriptions by ascending order of creation; `next` is the `after` of the next page, None at the end."""

    subscriptions: list[SubscriptionView]
    next: str | None = None


class BulkAnswer(AnswerType):
    """The ids of the subscriptions in order (None where one was rejected), and what was rejected."""

    ids: list[str | None]
    seq: int
    rejected: list[Rejected] = msgspec.field(default_factory=list)
