"""What runs a broker, over the wire: the schema, its state, keys and tenants. And problems."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from matchwood.broker.types.base import AnswerType, Name, RequestType


class SchemaView(RequestType):
    """The type of each attribute. If it is `closed`, a subscription that names another attribute is refused."""

    attributes: dict[str, str]
    closed: bool = False


class StatusView(AnswerType):
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


class SnapshotAnswer(AnswerType):
    seq: int


class NewKey(RequestType):
    scopes: list[Literal["publish", "subscribe", "manage", "federate", "admin"]]
    tenant: Name = "default"
    note: Annotated[str, Meta(max_length=200)] = ""


class KeyView(AnswerType):
    id: str
    tenant: str
    scopes: list[str]
    note: str = ""
    key: str | None = None
    """Shown once, when it is made."""


class KeyPage(AnswerType):
    keys: list[KeyView]


class TenantLimits(RequestType):
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


class TenantView(AnswerType):
    name: str
    limits: TenantLimits
    scoring: ScoringName


class TenantPage(AnswerType):
    tenants: list[TenantView]


class Problem(AnswerType):
    """RFC 9457. `detail` is the engine's own message."""

    title: str
    status: int
    detail: str = ""
    type: str = "about:blank"
