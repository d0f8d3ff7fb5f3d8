"""What goes over the wire: the request and response types of the routes in `matchwood.broker`, for msgspec.

Unknown fields are refused, so that a misspelt option is an error and not silence.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")]
"""The name of a consumer, a hook or a tenant."""
SubscriptionText = Annotated[str, Meta(min_length=1, max_length=200)]
"""The id of a subscription: any text without control characters."""
Place = Annotated[list[float], Meta(min_length=2, max_length=2)]
"""[longitude, latitude]"""


class _Request(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    pass


class _Answer(Struct, omit_defaults=True, kw_only=True):
    pass


# subscriptions


class Digest(_Request):
    """At most `max` matches in each `period` seconds, best first, in one delivery at the end of the period."""

    max: Annotated[int, Meta(ge=1, le=1000)]
    period: Annotated[float, Meta(ge=0.1, le=31 * 86400)]


class Track(_Request):
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


class DeliveryOptions(_Request):
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


class NewSubscription(_Request):
    """A subscription to add or to replace. Without `id` it gets a number."""

    expression: str | dict[str, Any] | bool
    id: SubscriptionText | None = None
    priority: float = 0.0
    place: Place | None = None
    radius: float | None = None
    until: str | None = None
    metadata: Any = None
    delivery: DeliveryOptions = msgspec.field(default_factory=DeliveryOptions)


class SubscriptionPatch(_Request):
    """What changes; what is not given stays. `place` alone moves the subscription."""

    expression: str | dict[str, Any] | bool | UnsetType = UNSET
    priority: float | UnsetType = UNSET
    place: Place | UnsetType = UNSET
    radius: float | UnsetType = UNSET
    until: str | UnsetType | None = UNSET
    metadata: Any = UNSET
    delivery: DeliveryOptions | UnsetType = UNSET
    paused: bool | UnsetType = UNSET


class SubscriptionView(_Answer):
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


class SubscriptionPage(_Answer):
    """Subscriptions by ascending order of creation; `next` is the `after` of the next page, None at the end."""

    subscriptions: list[SubscriptionView]
    next: str | None = None


class Rejected(_Answer):
    """A record of a batch that could not be used."""

    position: int
    problem: str


class BulkAnswer(_Answer):
    """The ids of the subscriptions in order (None where one was rejected), and what was rejected."""

    ids: list[str | None]
    seq: int
    rejected: list[Rejected] = []


# events


class Hit(_Answer):
    """A subscription that matches an event."""

    subscription: str
    score: float
    metadata: Any = None


class LiveHit(_Answer):
    """A live event that matches a subscription."""

    seq: int
    score: float


class Published(_Answer):
    """An event was acknowledged: it is on disk."""

    seq: int
    id: str | None = None
    duplicate: bool = False
    matched: int = 0
    truncated: bool = False
    """More subscriptions matched than the limit of hits per event: the best were taken."""
    matches: list[Hit] | UnsetType = UNSET


class PublishedMany(_Answer):
    """A batch was acknowledged: one entry for each event in order, None for a rejected one."""

    events: list[Published | None]
    rejected: list[Rejected] = []


class StoredEvent(_Answer):
    """An event of the log. `matches` are pairs of a subscription's id and the score, as they were."""

    seq: int
    time: str
    data: Any
    id: str | None = None
    until: str | None = None
    matches: list[tuple[str, float]] = []


class EventPage(_Answer):
    """Retained events by `seq`; `next` is the `after` of the next page, None at the end. `oldest` is the first one retained."""

    events: list[StoredEvent]
    oldest: int
    next: int | None = None


class LiveAnswer(_Answer):
    live: list[LiveHit]


class MatchQuestion(_Request):
    event: dict[str, Any]
    k: Annotated[int, Meta(ge=1)] | None = None


class MatchAnswer(_Answer):
    matches: list[Hit]
    truncated: bool = False


class ExplainQuestion(_Request):
    """Exactly one of `event` (attributes) and `seq` (a retained event), and one of `subscription` and `expression`."""

    event: dict[str, Any] | None = None
    seq: int | None = None
    subscription: str | None = None
    expression: str | dict[str, Any] | bool | None = None


class ExplainAnswer(_Answer):
    matched: bool
    text: str
    score: float | None = None


class ReplayQuestion(_Request):
    """Which retained events a subscription would have matched since an instant or after a `seq`: the `k` best, or all."""

    expression: str | dict[str, Any] | bool
    priority: float = 0.0
    place: Place | None = None
    radius: float | None = None
    since: str | None = None
    after: int | None = None
    k: Annotated[int, Meta(ge=1, le=1000)] | None = None


class ReplayHit(_Answer):
    seq: int
    score: float
    time: str
    data: Any
    id: str | None = None


class ReplayAnswer(_Answer):
    """`examined` events were compared; if that was the limit, `next` is where to go on."""

    hits: list[ReplayHit]
    examined: int
    next: int | None = None


# delivery


class Delivery(_Answer):
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


class TrackNotice(_Answer):
    """An object has entered or left the subscription, or has dwelt in it. `since` is the begin of its stay.

    `silent`: it has left because there was no event of it for as long as the subscription says.
    """

    kind: Literal["enter", "exit", "dwell"]
    object: str | int
    since: str
    silent: bool = False


class Inside(_Answer):
    """An object that is inside a subscription, and since when."""

    object: str | int
    since: str


class InsideAnswer(_Answer):
    inside: list[Inside]


class DigestHit(_Answer):
    seq: int
    score: float
    event: Any
    event_id: str | None = None


class Gap(_Answer):
    """Records after `from_` up to `to` can no longer be delivered: they are older than the retention."""

    from_: int = msgspec.field(name="from")
    to: int


class Shed(_Answer):
    """Matches were left out because the consumer was too slow: `count` of them, none with a score above `below`."""

    count: int
    below: float
    from_: int = msgspec.field(name="from")
    to: int


class PullQuestion(_Request):
    max: Annotated[int, Meta(ge=1, le=1000)] = 100
    wait: Annotated[float, Meta(ge=0, le=30)] = 0.0
    """Seconds to wait for the first delivery."""
    lease: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Seconds after which a delivery that was not acknowledged is repeated."""


class Deliveries(_Answer):
    """Deliveries, and what was left out for lack of room since the consumer was last told."""

    deliveries: list[Delivery]
    shed: list[Shed] = []


class Acks(_Request):
    ids: Annotated[list[str], Meta(max_length=1000)]


class Nacks(_Request):
    ids: Annotated[list[str], Meta(max_length=1000)]
    delay: Annotated[float, Meta(ge=0, le=86400)] | None = None


class AckAnswer(_Answer):
    """How many deliveries this settled; those that were settled before are not counted."""

    settled: int


class ConsumerView(_Answer):
    """A durable consumer (or hook, or Kafka topic) and what waits for it. `lag` is in seconds."""

    name: str
    transport: Literal["stream", "webhook", "kafka"]
    waiting: int
    in_flight: int
    dead: int
    lag: float


class ConsumerPage(_Answer):
    consumers: list[ConsumerView]


class DeadLetter(_Answer):
    """A delivery that was given up."""

    number: int
    consumer: str
    delivery: Delivery
    attempts: int
    reason: str
    time: str


class DeadPage(_Answer):
    """Dead letters by number. `dropped`: those that the tenant has lost since it was made, since there were too many."""

    dead: list[DeadLetter]
    dropped: int = 0
    next: int | None = None


class DeadChoice(_Request):
    """Dead letters by their numbers, or all of a consumer."""

    numbers: Annotated[list[int], Meta(max_length=1000)] | None = None
    consumer: str | None = None


class DeadAnswer(_Answer):
    count: int


class NewHook(_Request):
    """A webhook to add or to replace."""

    url: Annotated[str, Meta(max_length=2000)]
    enabled: bool = True
    ordered: bool = True
    """Send the matches of a subscription one after the other, by `seq`. What fails is repeated before the next is sent."""
    retries: Annotated[int, Meta(ge=0, le=10)] | None = None
    """Attempts after the first one; then it is a dead letter. Without it 6 (1 h 43 min) if `ordered`, 10 (27 hours) if not."""


class HookView(_Answer):
    name: str
    url: str
    enabled: bool
    ordered: bool
    retries: int
    reason: str | None = None
    """Why the broker disabled it."""
    secret: str | None = None
    """Shown once, when it is made or rotated."""


class HookPage(_Answer):
    hooks: list[HookView]


# administration


class SchemaView(_Request):
    """The type of each attribute. If it is `closed`, a subscription that names another attribute is refused."""

    attributes: dict[str, str]
    closed: bool = False


class StatusView(_Answer):
    tenant: str
    seq: int
    subscriptions: int
    live_events: int
    index: str
    oldest: int
    snapshot: int | None = None
    streams: int = 0
    state: Literal["ready", "failed"] = "ready"
    problem: str | None = None


class SnapshotAnswer(_Answer):
    seq: int


class NewKey(_Request):
    scopes: list[Literal["publish", "subscribe", "manage", "federate", "admin"]]
    tenant: Name = "default"
    note: Annotated[str, Meta(max_length=200)] = ""


class KeyView(_Answer):
    id: str
    tenant: str
    scopes: list[str]
    note: str = ""
    key: str | None = None
    """Shown once, when it is made."""


class KeyPage(_Answer):
    keys: list[KeyView]


class TenantLimits(_Request):
    """What one tenant may take."""

    subscriptions: Annotated[int, Meta(ge=0)] = 1_000_000
    hits: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Subscriptions that one event is delivered to, the best."""
    retention: Annotated[float, Meta(ge=0)] = 3600.0
    """Seconds that events stay in the log."""
    retained: Annotated[int, Meta(ge=1)] = 1_000_000
    """Events that stay in the log, at most."""
    waiting: Annotated[int, Meta(ge=1)] = 1_000_000
    """Deliveries that wait for durable consumers, all together."""
    dead: Annotated[int, Meta(ge=0)] = 100_000
    """Dead letters; past that the oldest are dropped."""
    live: Annotated[int, Meta(ge=0)] = 100_000
    """Live events."""
    stays: Annotated[int, Meta(ge=0)] = 1_000_000
    """Objects inside subscriptions that track them, all together."""


ScoringName = Literal["sum", "max", "priority"]


class TenantSettings(TenantLimits):
    """The limits of a tenant, and what its scores are made of."""

    scoring: ScoringName | None = None
    """sum: priority and weights; max: the largest of them; priority: the priority alone. Without it, that which the tenant
    has; a new one has `sum`. It cannot be changed while there are subscriptions."""


class TenantView(_Answer):
    name: str
    limits: TenantLimits
    scoring: ScoringName


class TenantPage(_Answer):
    tenants: list[TenantView]


class Problem(_Answer):
    """RFC 9457. `detail` is the engine's own message."""

    title: str
    status: int
    detail: str = ""
    type: str = "about:blank"
