"""Every route of the service: its scope, parameters, request and answers. The OpenAPI document is made from it.

A test compares it with the routes that the service really has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from matchwood.broker import types as t
from matchwood.broker.cloudevents import BATCH, STRUCTURED
from matchwood.broker.keys import Scope

JSON = "application/json"
NDJSON = "application/x-ndjson"
TEXT = "text/plain"
HTML = "text/html"
EVENT_STREAM = "text/event-stream"


class Text:
    """A body that is not JSON but text of this content type."""

    def __init__(self, content_type: str) -> None:
        self.content_type = content_type


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter in the query, the path or a header. `many`: it may be repeated."""

    name: str
    type: Any
    about: str
    place: str = "query"
    many: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. `answers` maps a status to the type of its body (one of several, None for no body).

    `request` maps a content type to the type of the body.
    """

    method: str
    path: str
    scope: Scope | None
    about: str
    answers: Mapping[int, Any]
    request: Mapping[str, Any] = field(default_factory=dict)
    params: tuple[Param, ...] = ()

    @property
    def operation(self) -> str:
        """A name that is unique.

        >>> Route("PUT", "/v1/hooks/{name}", None, "", {}).operation
        'put_v1_hooks_name'
        """
        return f"{self.method.lower()}{self.path}".translate(str.maketrans("/.", "__", "{}"))


Limit = Annotated[int, Meta(ge=1, le=1000)]
Positive = Annotated[int, Meta(ge=1)]
Seq = Annotated[int, Meta(ge=0)]

_LIMIT = Param("limit", Limit, "entries of a page")
_AFTER_ID = Param("after", str, "the `next` of the page before")
_AFTER_SEQ = Param("after", Seq, "the `next` of the page before, or a position")
_IF_MATCH = Param("If-Match", str, "the revision that is to be changed; 412 if it is not the current one", "header")
_IF_NONE = Param("If-None-Match", str, "`*`: only if there is none yet", "header")
_ID = Param("id", t.SubscriptionText, "the id of the subscription", "path")
_NAME = Param("name", t.Name, "its name", "path")
_PUBLISH = (
    Param("id", str, "the id of the event; a second event of the same id is not published again"),
    Param("k", Positive, "deliver to the k best subscriptions only"),
    Param("wait", Literal["matched"], "return the ranking"),
    Param("until", str, "an instant; until then later subscriptions are matched with the event"),
)
_STREAM = (
    Param("subscription", str, "a subscription to listen to; may be repeated", many=True),
    Param("all", Literal["1"], "listen to all subscriptions of the tenant"),
    Param("from", Seq, "the position after which to begin"),
    Param("shed", Literal["1"], "if the client is too slow, leave out the matches of the lowest scores and say so"),
    Param("Last-Event-ID", str, "the position after which to begin, as browsers send it", "header"),
)
_EVENTS: dict[str, Any] = {
    JSON: dict[str, Any],
    NDJSON: Text(NDJSON),
    STRUCTURED: dict[str, Any],
    BATCH: list[dict[str, Any]],
}

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/subscriptions",
        Scope.SUBSCRIBE,
        "Add a subscription, or several as NDJSON: all usable lines are kept.",
        {201: t.SubscriptionView, 200: t.BulkAnswer},
        {JSON: t.NewSubscription, NDJSON: Text(NDJSON)},
    ),
    Route(
        "GET",
        "/v1/subscriptions",
        Scope.SUBSCRIBE,
        "List subscriptions.",
        {200: t.SubscriptionPage},
        params=(_AFTER_ID, _LIMIT),
    ),
    Route(
        "GET", "/v1/subscriptions/{id}", Scope.SUBSCRIBE, "A subscription.", {200: t.SubscriptionView}, params=(_ID,)
    ),
    Route(
        "PUT",
        "/v1/subscriptions/{id}",
        Scope.SUBSCRIBE,
        "Add or replace a subscription.",
        {200: t.SubscriptionView, 201: t.SubscriptionView},
        {JSON: t.NewSubscription},
        (_ID, _IF_MATCH, _IF_NONE),
    ),
    Route(
        "PATCH",
        "/v1/subscriptions/{id}",
        Scope.SUBSCRIBE,
        "Change a subscription; what is not given stays.",
        {200: t.SubscriptionView},
        {JSON: t.SubscriptionPatch},
        (_ID, _IF_MATCH),
    ),
    Route(
        "DELETE",
        "/v1/subscriptions/{id}",
        Scope.SUBSCRIBE,
        "Remove a subscription.",
        {204: None},
        params=(_ID, _IF_MATCH),
    ),
    Route(
        "GET",
        "/v1/subscriptions/{id}/live",
        Scope.SUBSCRIBE,
        "Live events that match a subscription, best first.",
        {200: t.LiveAnswer},
        params=(_ID, Param("k", Positive, "the k best")),
    ),
    Route(
        "GET",
        "/v1/subscriptions/{id}/inside",
        Scope.SUBSCRIBE,
        "The objects inside a subscription that tracks them, the longest first.",
        {200: t.InsideAnswer},
        params=(_ID, _LIMIT),
    ),
    Route(
        "POST",
        "/v1/events",
        Scope.PUBLISH,
        "Publish an event, or several: JSON, NDJSON, CloudEvents.",
        {202: (t.Published, t.PublishedMany)},
        _EVENTS,
        _PUBLISH,
    ),
    Route(
        "GET",
        "/v1/events",
        Scope.PUBLISH,
        "Retained events with the matches of each.",
        {200: t.EventPage},
        params=(_AFTER_SEQ, _LIMIT),
    ),
    Route(
        "DELETE",
        "/v1/events/{seq}",
        Scope.PUBLISH,
        "End a live event before its `until`.",
        {204: None},
        params=(Param("seq", Seq, "the number of the event", "path"),),
    ),
    Route(
        "POST",
        "/v1/match",
        Scope.PUBLISH,
        "Which subscriptions match an event; nothing is published.",
        {200: t.MatchAnswer},
        {JSON: t.MatchQuestion},
    ),
    Route(
        "POST",
        "/v1/explain",
        Scope.SUBSCRIBE,
        "Why an event matches a subscription, or does not.",
        {200: t.ExplainAnswer},
        {JSON: t.ExplainQuestion},
    ),
    Route(
        "POST",
        "/v1/replay",
        Scope.SUBSCRIBE,
        "Which retained events a subscription would have matched.",
        {200: t.ReplayAnswer},
        {JSON: t.ReplayQuestion},
    ),
    Route(
        "GET",
        "/v1/stream",
        Scope.SUBSCRIBE,
        "Matches as they happen: server-sent events, or a WebSocket (AsyncAPI describes both).",
        {200: Text(EVENT_STREAM)},
        params=_STREAM,
    ),
    Route("GET", "/v1/consumers", Scope.SUBSCRIBE, "Durable consumers and their lag.", {200: t.ConsumerPage}),
    Route(
        "POST",
        "/v1/consumers/{name}/pull",
        Scope.SUBSCRIBE,
        "Lease the next deliveries of a durable consumer.",
        {200: t.Deliveries},
        {JSON: t.PullQuestion},
        (_NAME,),
    ),
    Route(
        "POST",
        "/v1/consumers/{name}/ack",
        Scope.SUBSCRIBE,
        "Acknowledge deliveries.",
        {200: t.AckAnswer},
        {JSON: t.Acks},
        (_NAME,),
    ),
    Route(
        "POST",
        "/v1/consumers/{name}/nack",
        Scope.SUBSCRIBE,
        "Give deliveries back, to be repeated.",
        {200: t.AckAnswer},
        {JSON: t.Nacks},
        (_NAME,),
    ),
    Route(
        "GET",
        "/v1/dead",
        Scope.MANAGE,
        "Dead letters.",
        {200: t.DeadPage},
        params=(Param("consumer", str, "only those of this consumer or hook"), _AFTER_SEQ, _LIMIT),
    ),
    Route(
        "POST",
        "/v1/dead/replay",
        Scope.MANAGE,
        "Deliver dead letters again.",
        {200: t.DeadAnswer},
        {JSON: t.DeadChoice},
    ),
    Route("POST", "/v1/dead/discard", Scope.MANAGE, "Discard dead letters.", {200: t.DeadAnswer}, {JSON: t.DeadChoice}),
    Route("GET", "/v1/hooks", Scope.MANAGE, "Webhooks.", {200: t.HookPage}),
    Route(
        "PUT",
        "/v1/hooks/{name}",
        Scope.MANAGE,
        "Add or change a webhook; a new one comes with its secret, once.",
        {200: t.HookView, 201: t.HookView},
        {JSON: t.NewHook},
        (_NAME,),
    ),
    Route(
        "POST",
        "/v1/hooks/{name}/rotate",
        Scope.MANAGE,
        "Give a webhook a new secret; the old one signs too for a day.",
        {200: t.HookView},
        params=(_NAME,),
    ),
    Route("DELETE", "/v1/hooks/{name}", Scope.MANAGE, "Remove a webhook.", {204: None}, params=(_NAME,)),
    Route("GET", "/v1/schema", Scope.PUBLISH, "Types of attributes.", {200: t.SchemaView}),
    Route(
        "PUT",
        "/v1/schema",
        Scope.MANAGE,
        "Declare attributes; they are added, never changed.",
        {200: t.SchemaView},
        {JSON: t.SchemaView},
    ),
    Route("GET", "/v1/status", Scope.MANAGE, "The state of the tenant.", {200: t.StatusView}),
    Route("POST", "/v1/snapshot", Scope.ADMIN, "Write a snapshot now.", {200: t.SnapshotAnswer}),
    Route("GET", "/v1/keys", Scope.ADMIN, "Keys, without their secrets.", {200: t.KeyPage}),
    Route("POST", "/v1/keys", Scope.ADMIN, "Make a key; its text is shown once.", {201: t.KeyView}, {JSON: t.NewKey}),
    Route(
        "POST",
        "/v1/keys/{id}/rotate",
        Scope.ADMIN,
        "Give a key a new secret; the old one is valid for a day.",
        {200: t.KeyView},
        params=(Param("id", str, "the id of the key", "path"),),
    ),
    Route(
        "DELETE",
        "/v1/keys/{id}",
        Scope.ADMIN,
        "Revoke a key.",
        {204: None},
        params=(Param("id", str, "the id of the key", "path"),),
    ),
    Route("GET", "/v1/tenants", Scope.ADMIN, "Tenants and their limits.", {200: t.TenantPage}),
    Route(
        "PUT",
        "/v1/tenants/{name}",
        Scope.ADMIN,
        "Add a tenant, or change its limits; its scoring as long as it has no subscriptions.",
        {200: t.TenantView, 201: t.TenantView},
        {JSON: t.TenantSettings},
        (_NAME,),
    ),
    Route("GET", "/live", None, "A page that shows matches on a map; it asks for a key.", {200: Text(HTML)}),
    Route("GET", "/healthz", None, "Does the process answer?", {200: Text(TEXT)}),
    Route("GET", "/readyz", None, "Does the broker take writes?", {200: Text(TEXT)}),
    Route("GET", "/metrics", None, "Metrics for Prometheus.", {200: Text(TEXT)}),
    Route("GET", "/openapi.json", None, "This document.", {200: dict[str, Any]}),
    Route("GET", "/asyncapi.json", None, "The description of the streams.", {200: dict[str, Any]}),
)
