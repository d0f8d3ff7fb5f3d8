"""Client: a connection to a broker."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import NoneType, TracebackType
from typing import Any, Self, TypedDict, Unpack
from urllib.parse import quote

from msgspec import ValidationError, convert

from matchwood.broker.types import (
    BulkAnswer,
    ConsumerPage,
    ConsumerView,
    DeliveryOptions,
    Digest,
    EventPage,
    ExplainAnswer,
    ExplainQuestion,
    Inside,
    InsideAnswer,
    LiveAnswer,
    LiveHit,
    MatchAnswer,
    MatchQuestion,
    NewSubscription,
    Published,
    PublishedMany,
    ReplayAnswer,
    ReplayQuestion,
    SchemaView,
    SnapshotAnswer,
    StatusView,
    StoredEvent,
    SubscriptionPage,
    SubscriptionPatch,
    SubscriptionView,
    Track,
)
from matchwood.broker.types import (
    Hit as Matched,
)
from matchwood.client.administration import Dead, Hooks, Keys
from matchwood.client.consuming import Consumer
from matchwood.client.hits import Hits, Notice
from matchwood.client.publishing import EventSource, Options, Publisher, instant
from matchwood.client.streaming import Stream
from matchwood.client.transport import ENCODER, LOG, NDJSON, Transport
from matchwood.errors import MatchwoodError, NotFoundError, RequestError, UnknownSubscriptionError

Expression = str | dict[str, Any] | bool


class SubscriptionOptions(TypedDict, total=False):
    """What a subscription may have beside its expression."""

    id: str | None
    priority: float
    place: tuple[float, float] | None
    radius: float | None
    until: datetime | str | None
    metadata: Any


LEASE = 900.0
"""Seconds after which a subscription without `durable` ends if its client is gone."""


def connect(
    url: str | None = None,
    *,
    key: str | None = None,
    patience: float = 30.0,
    timeout: float = 60.0,
    cafile: str | None = None,
) -> Client:
    """A client of the broker at `url` (or `$MATCHWOOD_URL`), with a key (or `$MATCHWOOD_KEY`). Use it in `async with`.

    Requests that are safe to repeat are repeated for `patience` seconds while the broker cannot be reached; one request takes at
    most `timeout` seconds. `cafile` is the certificate of a private authority.

    >>> connect("http://127.0.0.1:8440", key="mw_...")
    <Client of http://127.0.0.1:8440>
    """
    url = url or os.environ.get("MATCHWOOD_URL")
    if not url:
        raise RequestError("which broker? Pass its URL, such as http://127.0.0.1:8440, or set MATCHWOOD_URL")
    key = key or os.environ.get("MATCHWOOD_KEY")
    return Client(Transport(url, key, patience=patience, timeout=timeout, cafile=cafile))


class Client:
    """A connection to a broker; made by `connect`. Its calls may run at the same time, in one event loop."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._publisher = Publisher(transport)
        self.hooks = Hooks(transport)
        self.keys = Keys(transport)
        self.dead = Dead(transport)

    def __repr__(self) -> str:
        return f"<Client of {self._transport.url}>"

    async def __aenter__(self) -> Self:
        self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._publisher.close()
        await self._transport.close()

    # events

    async def publish(
        self,
        event: EventSource,
        *,
        id: str | None = None,
        k: int | None = None,
        until: datetime | str | None = None,
        wait: bool = False,
    ) -> Published:
        """Publish an event; return when it is on the disk of the broker.

        Calls that run at the same time go in batches. A second event of the same `id` is not published. `k` limits delivery to
        the k best subscriptions, `until` keeps the event alive for later ones, `wait` returns the ranking as `matches`.
        """
        return await self._publisher.publish(event, Options(k, instant(until), "matched" if wait else None), id)

    async def publish_many(
        self,
        events: Iterable[EventSource],
        *,
        k: int | None = None,
        until: datetime | str | None = None,
        wait: bool = False,
    ) -> PublishedMany:
        """Publish several events in order. The answer has an entry for each, None if it is among the `rejected`."""
        return await self._publisher.publish_many(events, Options(k, instant(until), "matched" if wait else None))

    async def match(self, event: Mapping[str, Any], *, k: int | None = None) -> list[Matched]:
        """Which subscriptions an event would match, best first. Nothing is published."""
        body = MatchQuestion(event=dict(event), k=k)
        return (await self._transport.call("POST", "/v1/match", MatchAnswer, body=body)).matches

    async def explain(
        self,
        event: Mapping[str, Any] | int,
        subscription: str | None = None,
        *,
        expression: Expression | None = None,
    ) -> ExplainAnswer:
        """Why an event (attributes, or the `seq` of a retained one) matches a subscription or an expression, or does not."""
        body = ExplainQuestion(
            event=None if isinstance(event, int) else dict(event),
            seq=event if isinstance(event, int) else None,
            subscription=subscription,
            expression=expression,
        )
        return await self._transport.call("POST", "/v1/explain", ExplainAnswer, body=body)

    async def events(self, *, after: int | None = None) -> AsyncIterator[StoredEvent]:
        """The retained events, by `seq`, with the matches of each."""
        while True:
            page = await self._transport.call("GET", "/v1/events", EventPage, params={"after": after})
            for event in page.events:
                yield event
            if page.next is None:
                return
            after = page.next

    async def retract(self, seq: int) -> None:
        """End a live event before its `until`."""
        await self._transport.call("DELETE", f"/v1/events/{seq}", NoneType)

    async def replay(
        self,
        expression: Expression,
        *,
        since: datetime | str | None = None,
        after: int | None = None,
        k: int | None = None,
        place: tuple[float, float] | None = None,
        radius: float | None = None,
    ) -> ReplayAnswer:
        """Which retained events a subscription would have matched, since an instant or after a `seq`."""
        where = None if place is None else list(place)
        body = ReplayQuestion(expression=expression, since=instant(since), after=after, k=k, place=where, radius=radius)
        return await self._transport.call("POST", "/v1/replay", ReplayAnswer, body=body)

    # subscriptions

    async def put(
        self, subscription: NewSubscription | Mapping[str, Any] | Expression, **more: Any
    ) -> SubscriptionView:
        """Add a subscription, or replace the one of its id.

        It is an expression with options (`id`, `priority`, `place`, `radius`, `until`, `metadata`, `delivery`), or all of that as
        a mapping. With `revision` it must be the current one.
        """
        revision = more.pop("revision", None)
        new = subscription if isinstance(subscription, NewSubscription) else _subscription(subscription, more)
        if new.id is None:
            return await self._transport.call("POST", "/v1/subscriptions", SubscriptionView, body=new, repeat=False)
        return await self._transport.call(
            "PUT", _path(new.id), SubscriptionView, body=_without_id(new), headers=_if_match(revision)
        )

    async def put_many(self, subscriptions: Iterable[NewSubscription | Mapping[str, Any]]) -> BulkAnswer:
        """Add several subscriptions; those that cannot be used are `rejected`."""
        lines = b"\n".join(ENCODER.encode(one) for one in subscriptions)
        return await self._transport.call(
            "POST", "/v1/subscriptions", BulkAnswer, body=lines, content_type=NDJSON, repeat=False
        )

    async def get(self, id: str) -> SubscriptionView:
        """A subscription."""
        return await self._transport.call("GET", _path(id), SubscriptionView)

    async def update(self, id: str, *, revision: int | None = None, **changes: Any) -> SubscriptionView:
        """Change a subscription: `expression`, `priority`, `place`, `radius`, `until`, `metadata`, `delivery`, `paused`."""
        if "until" in changes:
            changes["until"] = instant(changes["until"])
        unknown = set(changes) - set(SubscriptionPatch.__struct_fields__)
        if unknown:
            raise RequestError(
                f"a subscription has no {sorted(unknown)[0]!r}; it has {SubscriptionPatch.__struct_fields__}"
            )
        return await self._transport.call(
            "PATCH", _path(id), SubscriptionView, body=changes, headers=_if_match(revision), repeat=revision is None
        )

    async def remove(self, id: str, *, revision: int | None = None) -> None:
        """Remove a subscription; `UnknownSubscriptionError` if there is none."""
        await self._transport.call("DELETE", _path(id), NoneType, headers=_if_match(revision))

    async def subscriptions(self) -> AsyncIterator[SubscriptionView]:
        """All subscriptions."""
        after: str | None = None
        while True:
            page = await self._transport.call("GET", "/v1/subscriptions", SubscriptionPage, params={"after": after})
            for subscription in page.subscriptions:
                yield subscription
            if page.next is None:
                return
            after = page.next

    async def inside(self, id: str, *, limit: int | None = None) -> list[Inside]:
        """The objects inside a subscription that tracks them, the longest first."""
        params = {"limit": limit}
        return (await self._transport.call("GET", f"{_path(id)}/inside", InsideAnswer, params=params)).inside

    async def live(self, id: str, *, k: int | None = None) -> list[LiveHit]:
        """The live events that match a subscription, best first."""
        return (await self._transport.call("GET", f"{_path(id)}/live", LiveAnswer, params={"k": k})).live

    # hits

    def subscribe(
        self,
        expression: Expression,
        *,
        durable: str | None = None,
        digest: tuple[int, float] | None = None,
        track: Track | Mapping[str, Any] | None = None,
        prefetch: int = 100,
        lease: float = 30.0,
        on_notice: Callable[[Notice], None] | None = None,
        **more: Unpack[SubscriptionOptions],
    ) -> Hits:
        """Subscribe, and iterate over the hits: `async with mw.subscribe("price < 300") as hits: async for hit in hits: ...`.

        With `durable="me"` the broker keeps the subscription (under the id "me" unless `id` names another) and its hits while
        the program is away, and repeats a hit until it is acknowledged. Without it the subscription ends with the block, and a
        hit comes at most once. `digest=(n, seconds)`: at most n hits in each period, best first, as one.
        `track={"object": "van"}`: a hit when an object, which that attribute names, enters or leaves (`Hit.track`). `more` are
        `id`, `priority`, `place`, `radius`, `until` and `metadata` of the subscription.
        """
        delivery = DeliveryOptions(
            consumer=durable,
            digest=None if digest is None else Digest(max=digest[0], period=digest[1]),
            track=None if track is None else _track(track),
        )
        own = {"id": more.get("id") or durable, "delivery": delivery}
        new = _subscription({"expression": expression}, {**more, **own})
        if durable is None:
            return _Ephemeral(self, new, on_notice)
        return Consumer(
            self._transport,
            durable,
            prepare=lambda: self.put(new),
            prefetch=prefetch,
            lease=lease,
            on_notice=on_notice,
        )

    def consume(
        self,
        durable: str,
        *,
        prefetch: int = 100,
        lease: float = 30.0,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> Hits:
        """The hits of a durable consumer whose subscriptions exist already."""
        return Consumer(self._transport, durable, prepare=None, prefetch=prefetch, lease=lease, on_notice=on_notice)

    def listen(
        self,
        *subscriptions: str,
        after: int | None = None,
        shed: bool = False,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> Hits:
        """The hits of these subscriptions, or of all, as they happen, or after a `seq`. At most once.

        With `shed` a client that is too slow loses the hits of the lowest scores, which is announced; otherwise the broker ends
        the stream, and the client resumes it.
        """
        params: dict[str, Any] = {"subscription": list(subscriptions)} if subscriptions else {"all": "1"}

        async def prepare() -> Mapping[str, Any]:
            return params

        return Stream(self._transport, prepare=prepare, position=after, shed=shed, on_notice=on_notice)

    async def consumers(self) -> list[ConsumerView]:
        """Durable consumers, webhooks and topics, and what waits for them."""
        return (await self._transport.call("GET", "/v1/consumers", ConsumerPage)).consumers

    # the tenant

    async def schema(self) -> SchemaView:
        """The types of attributes."""
        return await self._transport.call("GET", "/v1/schema", SchemaView)

    async def declare(self, attributes: Mapping[str, str], *, closed: bool = False) -> SchemaView:
        """Declare types of attributes: `await mw.declare({"price": "number"})`."""
        body = SchemaView(attributes=dict(attributes), closed=closed)
        return await self._transport.call("PUT", "/v1/schema", SchemaView, body=body)

    async def status(self) -> StatusView:
        """The state of the tenant."""
        return await self._transport.call("GET", "/v1/status", StatusView)

    async def snapshot(self) -> int:
        """Write a snapshot now; return the number of its last record."""
        return (await self._transport.call("POST", "/v1/snapshot", SnapshotAnswer)).seq


class _Ephemeral(Stream):
    """A subscription that lives as long as its stream. It has an `until` that is renewed, so that nothing is left if we die."""

    def __init__(self, client: Client, new: NewSubscription, on_notice: Callable[[Notice], None] | None) -> None:
        super().__init__(client._transport, prepare=self._create, finish=self._end, on_notice=on_notice)
        self._client, self._new = client, new
        if new.id is None:
            new.id = f"ephemeral-{uuid.uuid4().hex}"
        self._leased = new.until is None
        self._renewing: asyncio.Task[None] | None = None

    async def _create(self) -> Mapping[str, Any]:
        if self._leased:
            self._new.until = _in(LEASE)
        made = await self._client.put(self._new)
        if self._leased and self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
        return {"subscription": made.id, "from": made.revision}

    async def _renew(self) -> None:
        assert self._new.id is not None
        while True:
            await asyncio.sleep(LEASE / 3)
            try:
                await self._client.update(self._new.id, until=_in(LEASE))
            except (UnknownSubscriptionError, NotFoundError):
                LOG.warning("subscription %s had ended, and is made again", self._new.id)
                with suppress(MatchwoodError):
                    await self._create()
            except MatchwoodError as error:
                LOG.info("renewal: %s", error)

    async def _end(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        assert self._new.id is not None
        try:
            await self._client.remove(self._new.id)
        except (UnknownSubscriptionError, NotFoundError):
            pass
        except MatchwoodError as error:
            LOG.info("subscription %s is left to expire: %s", self._new.id, error)


def _track(given: Track | Mapping[str, Any]) -> Track:
    try:
        return convert(given, Track)
    except ValidationError as error:
        raise RequestError(f"track: {error}") from None


def _subscription(source: Mapping[str, Any] | Expression, more: Mapping[str, Any]) -> NewSubscription:
    whole = isinstance(source, Mapping) and "expression" in source
    fields: dict[str, Any] = {**(source if whole else {"expression": source}), **more}  # type: ignore[dict-item]
    unknown = set(fields) - set(NewSubscription.__struct_fields__)
    if unknown:
        raise RequestError(f"a subscription has no {sorted(unknown)[0]!r}; it has {NewSubscription.__struct_fields__}")
    if "until" in fields:
        fields["until"] = instant(fields["until"])
    if isinstance(fields.get("place"), tuple):
        fields["place"] = list(fields["place"])
    if isinstance(fields.get("delivery"), Mapping):
        fields["delivery"] = DeliveryOptions(**fields["delivery"])
    return NewSubscription(**fields)


def _without_id(new: NewSubscription) -> Mapping[str, Any]:
    return {name: value for name in new.__struct_fields__ if name != "id" and (value := getattr(new, name)) is not None}


def _path(id_: str) -> str:
    return f"/v1/subscriptions/{quote(id_, safe='')}"


def _if_match(revision: int | None) -> dict[str, str]:
    return {} if revision is None else {"If-Match": f'"{revision}"'}


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
