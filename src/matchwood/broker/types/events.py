"""Events over the wire: published, listed, ranked, explained and replayed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from matchwood.broker.types.base import AnswerType, Place, Rejected, RequestType


class Hit(AnswerType):
    """A subscription that matches an event."""

    subscription: str
    score: float
    metadata: Any = None


class LiveHit(AnswerType):
    """A live event that matches a subscription."""

    seq: int
    score: float


class Published(AnswerType):
    """An event was acknowledged: it is on disk."""

    seq: int
    id: str | None = None
    duplicate: bool = False
    matched: int = 0
    truncated: bool = False
    """More subscriptions matched than the limit of hits per event: the best were taken."""
    matches: list[Hit] | UnsetType = UNSET


class PublishedMany(AnswerType):
    """A batch was acknowledged: one entry for each event in order, None for a rejected one."""

    events: list[Published | None]
    rejected: list[Rejected] = msgspec.field(default_factory=list)


class StoredEvent(AnswerType):
    """An event of the log. `matches` are pairs of a subscription's id and the score, as they were."""

    seq: int
    time: str
    data: Any
    id: str | None = None
    until: str | None = None
    matches: list[tuple[str, float]] = msgspec.field(default_factory=list)


class EventPage(AnswerType):
    """Retained events by `seq`; `next` is the `after` of the next page, None at the end. `oldest` is the first one retained."""

    events: list[StoredEvent]
    oldest: int
    next: int | None = None


class LiveAnswer(AnswerType):
    live: list[LiveHit]


class MatchQuestion(RequestType):
    event: dict[str, Any]
    k: Annotated[int, Meta(ge=1)] | None = None


class MatchAnswer(AnswerType):
    matches: list[Hit]
    truncated: bool = False


class ExplainQuestion(RequestType):
    """Exactly one of `event` (attributes) and `seq` (a retained event), and one of `subscription` and `expression`."""

    event: dict[str, Any] | None = None
    seq: int | None = None
    subscription: str | None = None
    expression: str | dict[str, Any] | bool | None = None


class ExplainAnswer(AnswerType):
    matched: bool
    text: str
    score: float | None = None


class ReplayQuestion(RequestType):
    """Which retained events a subscription would have matched since an instant or after a `seq`: the `k` best, or all."""

    expression: str | dict[str, Any] | bool
    priority: float = 0.0
    place: Place | None = None
    radius: float | None = None
    since: str | None = None
    after: int | None = None
    k: Annotated[int, Meta(ge=1, le=1000)] | None = None


class ReplayHit(AnswerType):
    seq: int
    score: float
    time: str
    data: Any
    id: str | None = None


class ReplayAnswer(AnswerType):
    """`examined` events were compared; if that was the limit, `next` is where to go on."""

    hits: list[ReplayHit]
    examined: int
    next: int | None = None
