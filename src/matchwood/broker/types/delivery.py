"""Deliveries over the wire: on streams, to consumers and webhooks, and those that were given up."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from matchwood.broker.types.base import AnswerType, RequestType


class Delivery(AnswerType):
    """One match on its way. `id` is stable over repetitions: SUBSCRIPTION@SEQ."""

    id: str
    subscription: str
    seq: int
    score: float
    event: Any
    metadata: Any = None
    event_id: str | None = None
    attempt: int = 1
    traceparent: str | None = None
    """Of the request that published the event (W3C Trace Context)."""
    digest: list[DigestHit] | UnsetType = UNSET
    """Of a digest: its matches, best first; then `event` is None and `score` the best one."""
    left_out: int | UnsetType = UNSET
    """Of a digest: matches of the period that were not among the best."""
    track: TrackNotice | UnsetType = UNSET
    """Of a subscription that tracks objects. If only time has passed, `event` is None."""


class TrackNotice(AnswerType):
    """An object has entered or left the subscription, or has dwelt in it. `since` is the begin of its stay.

    `silent`: it has left because there was no event of it for as long as the subscription says.
    """

    kind: Literal["enter", "exit", "dwell"]
    object: str | int
    since: str
    silent: bool = False


class Inside(AnswerType):
    """An object that is inside a subscription, and since when."""

    object: str | int
    since: str


class InsideAnswer(AnswerType):
    inside: list[Inside]


class DigestHit(AnswerType):
    seq: int
    score: float
    event: Any
    event_id: str | None = None


class Gap(AnswerType):
    """Records after `from_` up to `to` can no longer be delivered: they are older than the retention."""

    from_: int = msgspec.field(name="from")
    to: int


class Shed(AnswerType):
    """Matches were left out because the consumer was too slow: `count` of them, none with a score above `below`."""

    count: int
    below: float
    from_: int = msgspec.field(name="from")
    to: int


class PullQuestion(RequestType):
    max: Annotated[int, Meta(ge=1, le=1000)] = 100
    wait: Annotated[float, Meta(ge=0, le=30)] = 0.0
    """Seconds to wait for the first delivery."""
    lease: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Seconds after which a delivery that was not acknowledged is repeated."""


class Deliveries(AnswerType):
    """Deliveries, and what was left out for lack of room since the consumer was last told."""

    deliveries: list[Delivery]
    shed: list[Shed] = msgspec.field(default_factory=list)


class Acks(RequestType):
    ids: Annotated[list[str], Meta(max_length=1000)]


class Nacks(RequestType):
    ids: Annotated[list[str], Meta(max_length=1000)]
    delay: Annotated[float, Meta(ge=0, le=86400)] | None = None


class AckAnswer(AnswerType):
    """How many deliveries this settled; those that were settled before are not counted."""

    settled: int


class ConsumerView(AnswerType):
    """A durable consumer (or hook, or Kafka topic) and what waits for it. `lag` is in seconds."""

    name: str
    transport: Literal["stream", "webhook", "kafka"]
    waiting: int
    in_flight: int
    dead: int
    lag: float


class ConsumerPage(AnswerType):
    consumers: list[ConsumerView]


class DeadLetter(AnswerType):
    """A delivery that was given up."""

    number: int
    consumer: str
    delivery: Delivery
    attempts: int
    reason: str
    time: str


class DeadPage(AnswerType):
    """Dead letters by number. `dropped`: those that the tenant has lost since it was made, since there were too many."""

    dead: list[DeadLetter]
    dropped: int = 0
    next: int | None = None


class DeadChoice(RequestType):
    """Dead letters by their numbers, or all of a consumer."""

    numbers: Annotated[list[int], Meta(max_length=1000)] | None = None
    consumer: str | None = None


class DeadAnswer(AnswerType):
    count: int


class NewHook(RequestType):
    """A webhook to add or to replace."""

    url: Annotated[str, Meta(max_length=2000)]
    enabled: bool = True
    ordered: bool = True
    """Send the matches of a subscription one after the other, by `seq`. What fails is repeated before the next is sent."""
    retries: Annotated[int, Meta(ge=0, le=10)] | None = None
    """Attempts after the first one; then it is a dead letter. Without it 6 (1 h 43 min) if `ordered`, 10 (27 hours) if not."""


class HookView(AnswerType):
    name: str
    url: str
    enabled: bool
    ordered: bool
    retries: int
    reason: str | None = None
    """Why the broker disabled it."""
    secret: str | None = None
    """Shown once, when it is made or rotated."""


class HookPage(AnswerType):
    hooks: list[HookView]
