"""`POST /v1/events`: bodies become events, results become answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from matchwood.broker import cloudevents, telemetry
from matchwood.broker.commands import Incoming, Taken
from matchwood.broker.http import Answer, Request
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import Hit, Published, PublishedMany, Rejected
from matchwood.errors import MatchwoodError, MediaTypeError, RequestError, TooLargeError
from matchwood.lang.json_values import of_json
from matchwood.schema import instant_key

BATCH = 1000
"""Events of one request, at most."""
ID_CHARACTERS = 200
_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_ENCODE = msgspec.json.Encoder().encode
_SCALARS = frozenset((int, float, str, bool, type(None)))


_OPTIONS: dict[bytes, tuple[int | None, str | None, int | None, str | None]] = {b"": (None, None, None, None)}
"""The parameters of queries seen before: most requests of a client have the same."""


def _options(request: Request) -> tuple[int | None, str | None, int | None, str | None]:
    """k, wait, until and id of a request."""
    query = request.query("id", "k", "wait", "until")
    k = request.whole(query, "k", None, 1, 100_000)
    wait = query.get("wait", [None])[-1]
    if wait not in (None, "matched"):
        raise RequestError(f"parameter 'wait': expected 'matched', got {wait!r}")
    until = _instant(query.get("until", [None])[-1])
    id_ = query.get("id", [None])[-1]
    if id_ is not None and not 0 < len(id_) <= ID_CHARACTERS:
        raise RequestError(f"parameter 'id': expected 1 to {ID_CHARACTERS} characters, got {len(id_)}")
    found = k, wait, until, id_
    if id_ is None and until is None and len(_OPTIONS) < 1000:
        _OPTIONS[request.query_string] = found
    return found


class Asked(NamedTuple):
    """What a request wants to publish; an event that cannot be read is its error."""

    events: list[Incoming | MatchwoodError]
    k: int | None
    ranking: bool
    """Does the answer have the matches?"""
    is_batch: bool

    def readable(self) -> list[Incoming]:
        """The events that can be published."""
        return [event for event in self.events if not isinstance(event, MatchwoodError)]


async def publish(request: Request) -> Answer:
    """The route itself."""
    trace = request.headers.get(b"traceparent")
    if trace is None and not telemetry.enabled():
        return await _publish(request, None)
    with telemetry.span("POST /v1/events", None if trace is None else trace.decode("latin-1")) as parent:
        return await _publish(request, parent)


async def _publish(request: Request, trace: str | None) -> Answer:
    asked = read(request, await request.body(), trace)
    events = asked.readable()
    return answer(request.tenant, asked, await request.tenant.publish(events, asked.k) if events else [])


def read(request: Request, body: bytes, trace: str | None = None) -> Asked:
    """What a request asks for; `trace` goes with events that have none of their own."""
    k, wait, until, id_ = _OPTIONS.get(request.query_string) or _options(request)
    kind = request.headers.get(b"content-type", b"application/json").partition(b";")[0].strip().lower()
    if b"ce-specversion" in request.headers or kind.startswith(b"application/cloudevents"):
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()}
        found = cloudevents.read(headers, body, max_events=BATCH)
        if isinstance(found, list):
            return Asked([_of_plain(one, until, trace) for one in found], k, wait is not None, True)
        return Asked([_plain(found, until, trace)], k, wait is not None, False)
    if kind == b"application/x-ndjson":
        lines = body.split(b"\n")
        if len(lines) > BATCH + 1:
            raise TooLargeError(f"the batch has {len(lines):,} lines, the limit is {BATCH:,}; send several requests")
        is_line = b"\r" not in body
        events = [
            _line(line, None if id_ is None else f"{id_}#{position}", until, trace, is_line)
            for position, line in enumerate(line for line in lines if line.strip())
        ]
        return Asked(events, k, wait is not None, True)
    if kind not in (b"application/json", b""):
        raise MediaTypeError(
            f"content type {kind[:50].decode('latin-1')!r} is not supported; "
            "send application/json, application/x-ndjson or CloudEvents"
        )
    return Asked([incoming(body, id_, until, trace)], k, wait is not None, False)


def incoming(
    body: bytes, id_: str | None, until: int | None, trace: str | None = None, *, is_line: bool = False
) -> Incoming:
    """An event from its JSON; `is_line` says that this has no line breaks."""
    try:
        values = _DECODE(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(f"the event is not a JSON object: {error}") from None
    if not is_line and (b"\n" in body or b"\r" in body):
        body = _ENCODE(values)  # streams need one line
    for name, value in values.items():
        if type(value) not in _SCALARS:
            values[name] = of_json(value)
    return Incoming(values, body, id_, until, trace)


def _line(
    line: bytes, id_: str | None, until: int | None, trace: str | None, is_line: bool
) -> Incoming | MatchwoodError:
    try:
        return incoming(line, id_, until, trace, is_line=is_line)
    except MatchwoodError as error:
        return error


def _plain(event: cloudevents.PlainEvent, until: int | None, trace: str | None) -> Incoming:
    if event.id is not None and len(event.id) > 2 * ID_CHARACTERS:
        raise RequestError(
            f"the source and id of a CloudEvent may have {2 * ID_CHARACTERS} characters, got {len(event.id)}"
        )
    end = until if event.until is None else _instant(event.until)
    return incoming(_ENCODE(event.data), event.id, end, telemetry.checked(event.traceparent) or trace)


def _of_plain(
    event: cloudevents.PlainEvent | RequestError, until: int | None, trace: str | None
) -> Incoming | MatchwoodError:
    if isinstance(event, MatchwoodError):
        return event
    try:
        return _plain(event, until, trace)
    except MatchwoodError as error:
        return error


def answer(tenant: Tenant, asked: Asked, results: Iterable[Taken | MatchwoodError]) -> Answer:
    """The answer to a request of whose readable events this became."""
    remaining = iter(results)
    answers: list[Published | None] = []
    rejected: list[Rejected] = []
    for position, event in enumerate(asked.events):
        result = event if isinstance(event, MatchwoodError) else next(remaining)
        if not isinstance(result, MatchwoodError):
            answers.append(published(tenant, result, asked.ranking))
        elif asked.is_batch:
            answers.append(None)
            rejected.append(Rejected(position=position, problem=str(result)))
        else:
            raise result
    return Answer(202, PublishedMany(events=answers, rejected=rejected) if asked.is_batch else answers[0])


def published(tenant: Tenant, taken: Taken, ranking: bool) -> Published:
    """The answer for one event."""
    made = Published(
        seq=taken.seq, id=taken.id, duplicate=taken.duplicate, matched=len(taken.hits), truncated=taken.truncated
    )
    if ranking:
        made.matches = hits(tenant, taken.hits)
    return made


def hits(tenant: Tenant, found: list[tuple[str, float]]) -> list[Hit]:
    """Matches with their metadata."""
    return [Hit(subscription=id_, score=score, metadata=tenant.describe(id_)) for id_, score in found]


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(instant_key(text))
    except MatchwoodError as error:
        raise RequestError(f"parameter 'until': {error}") from None
