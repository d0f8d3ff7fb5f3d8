"""Publishing in batches: events that are published while a request is under way go together in the next one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from matchwood.broker.types import Published, PublishedMany, Rejected
from matchwood.client.transport import ENCODER, NDJSON, Transport
from matchwood.errors import EventError, MatchwoodError

if TYPE_CHECKING:
    from matchwood.lang.event import Event

EventSource: TypeAlias = "Mapping[str, Any] | Event | str | bytes"
"""Attributes, an `Event` without weights, or a JSON object as text."""
MAX_EVENTS = 1000
MAX_BYTES = 900_000
"""Below the limits of a broker: 1,000 events and 1 MiB."""
IN_FLIGHT = 4
"""Requests with batches under way at a time."""


class Options(NamedTuple):
    """What holds for all events of a request."""

    k: int | None = None
    until: str | None = None
    wait: str | None = None


@dataclass(slots=True)
class _Lane:
    """Events of the same options that wait."""

    pending: list[tuple[bytes, asyncio.Future[Published]]] = field(default_factory=list)
    in_flight: int = 0


class Publisher:
    """Sends events in batches. Each request has an id of its own, so that repeating it publishes nothing twice."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lanes: dict[Options, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def publish(self, event: EventSource, options: Options, id_: str | None) -> Published:
        """Publish one event; return when it is on the disk of the broker."""
        line = encoded(event)
        if id_ is not None:
            return await self._single(line, options, id_)
        lane = self._lanes.setdefault(options, _Lane())
        future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        lane.pending.append((line, future))
        self._pump(options, lane)
        return await future

    async def publish_many(self, events: Iterable[EventSource], options: Options) -> PublishedMany:
        """Publish several events in order; the answer has one entry for each."""
        answer = PublishedMany(events=[], rejected=[])
        for lines in batches(map(encoded, events)):
            base = len(answer.events)
            part = await self._batch(lines, options)
            answer.events.extend(part.events)
            answer.rejected.extend(
                Rejected(position=base + rejected.position, problem=rejected.problem) for rejected in part.rejected
            )
        return answer

    async def close(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _pump(self, options: Options, lane: _Lane) -> None:
        """Start a request if there is something to send and room for another."""
        if lane.in_flight >= IN_FLIGHT or not lane.pending:
            if not lane.in_flight:
                self._lanes.pop(options, None)
            return
        lane.in_flight += 1
        task = asyncio.create_task(self._send(options, lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, options: Options, lane: _Lane) -> None:
        await asyncio.sleep(0)  # what is published in this turn of the loop goes along
        group = taken(lane.pending)
        try:
            if group:
                await self._settle(group, options)
        finally:
            lane.in_flight -= 1
            self._pump(options, lane)

    async def _settle(self, group: list[tuple[bytes, asyncio.Future[Published]]], options: Options) -> None:
        """Publish a group, and give each event its answer."""
        try:
            if len(group) == 1:
                outcomes: list[Published | MatchwoodError] = [
                    await self._single(group[0][0], options, uuid.uuid4().hex)
                ]
            else:
                outcomes = _outcomes(await self._batch([line for line, _ in group], options))
        except MatchwoodError as error:
            outcomes = [error] * len(group)
        except asyncio.CancelledError:
            for _, future in group:
                future.cancel()
            raise
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue  # nobody waits any more
            if isinstance(outcome, MatchwoodError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def _single(self, line: bytes, options: Options, id_: str) -> Published:
        params = {**options._asdict(), "id": id_}
        return await self._transport.call("POST", "/v1/events", Published, body=line, params=params)

    async def _batch(self, lines: list[bytes], options: Options) -> PublishedMany:
        params = {**options._asdict(), "id": uuid.uuid4().hex}
        body = b"\n".join(lines) + b"\n"
        answer = await self._transport.call(
            "POST", "/v1/events", PublishedMany, body=body, content_type=NDJSON, params=params
        )
        if len(answer.events) != len(lines):
            raise EventError(f"the broker answered for {len(answer.events)} of {len(lines)} events")
        return answer


def encoded(event: EventSource) -> bytes:
    """The event as a line of JSON.

    >>> encoded({"price": 250}), encoded('{"price": 250}')
    (b'{"price":250}', b'{"price": 250}')
    """
    if isinstance(event, str | bytes):
        line = event.encode() if isinstance(event, str) else event
        return line.strip() if b"\n" not in line.strip() else msgspec.json.format(line, indent=-1)
    values = event if isinstance(event, Mapping) else _values(event)
    try:
        return ENCODER.encode(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise EventError(f"the event cannot be written as JSON: {error}") from None


def instant(value: datetime | str | None) -> str | None:
    """An instant as text."""
    return value.isoformat() if isinstance(value, datetime) else value


def batches(lines: Iterable[bytes]) -> Iterable[list[bytes]]:
    """The lines in groups that a broker takes at once."""
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and (len(group) == MAX_EVENTS or size + len(line) >= MAX_BYTES):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line) + 1
    if group:
        yield group


def taken(pending: list[tuple[bytes, asyncio.Future[Published]]]) -> list[tuple[bytes, asyncio.Future[Published]]]:
    """Remove and return the first events, as many as a broker takes at once."""
    count = size = 0
    for line, _ in pending:
        if count == MAX_EVENTS or (count and size + len(line) >= MAX_BYTES):
            break
        count += 1
        size += len(line) + 1
    group = pending[:count]
    del pending[:count]
    return group


def _outcomes(answer: PublishedMany) -> list[Published | MatchwoodError]:
    problems = {rejected.position: rejected.problem for rejected in answer.rejected}
    return [
        event if event is not None else EventError(problems.get(position, "the broker rejected the event"))
        for position, event in enumerate(answer.events)
    ]


def _values(event: object) -> Mapping[str, Any]:
    from matchwood.lang.event import Event  # it needs NumPy, which a client of a broker does not

    if not isinstance(event, Event):
        raise EventError(f"expected attributes, an Event, or a JSON object as text, got {type(event).__name__}")
    if event.weights or event.id is not None or event.until is not None:
        raise EventError("an Event for a broker has values and a place; pass id and until to publish, and no weights")
    if event.place is None:
        return event.values
    lon, lat = event.place
    return {**event.values, "place": {"lon": lon, "lat": lat}}
