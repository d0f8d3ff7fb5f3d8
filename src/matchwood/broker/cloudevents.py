"""CloudEvents 1.0 over HTTP: binary, structured and batched requests become plain events, and plain events become CloudEvents.

The attributes of a plain event are those of the CloudEvent's data, which must be a JSON object, and its context attributes under
`ce`: a subscription may say `price < 300 AND ce.type = 'shop.offer'`. The id is `SOURCE#ID`, since a CloudEvent is identified by
both; the extension `until` keeps the event alive, and `traceparent` is carried on.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec

from matchwood.errors import MediaTypeError, RequestError, TooLargeError

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
CONTEXT = "ce"
"""The attribute that holds the context of a CloudEvent in a plain event."""
_REQUIRED = ("specversion", "id", "source", "type")
_DATA = ("data", "data_base64")
_NAME = re.compile("[a-z0-9]{1,64}")
_JSON = re.compile(r"(?:[\w.+-]+/)(?:[\w.-]+\+)?json", re.IGNORECASE)
_HEADER = "ce-"


@dataclass(frozen=True, slots=True)
class PlainEvent:
    """An event as the broker takes it: attributes, and what goes with them."""

    data: dict[str, Any]
    id: str | None = None
    until: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """A CloudEvent whose data is JSON, or absent (None). `context` has the attributes, `specversion` included."""

    context: Mapping[str, str | int | bool]
    data: Any = None


def is_cloud_event(headers: Mapping[str, str]) -> bool:
    """Is this a request with CloudEvents? `headers` has names in lower case."""
    return "ce-specversion" in headers or _media_type(headers).startswith("application/cloudevents")


def read(
    headers: Mapping[str, str], body: bytes, *, max_events: int = 1000
) -> PlainEvent | list[PlainEvent | RequestError]:
    """The event of a binary or structured request, or the list of a batch, in which an unusable one is its error.

    `headers` has names in lower case. What cannot be read is a `RequestError` that says why.

    >>> headers = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/shop", "ce-type": "offer"}
    >>> event = read(headers, b'{"price": 250}')
    >>> event.id, event.data
    ('/shop#7', {'price': 250, 'ce': {'id': '7', 'source': '/shop', 'type': 'offer'}})
    """
    media = _media_type(headers)
    if media == BATCH:
        return _batch(_json(body), max_events)
    if media == STRUCTURED:
        return to_plain(_structured(_json(body)))
    if media.startswith("application/cloudevents"):
        raise MediaTypeError(f"content type {media!r} is not supported; send {STRUCTURED} or {BATCH}")
    return to_plain(_binary(headers, body, media))


def to_plain(event: CloudEvent) -> PlainEvent:
    """The plain event: data as attributes, the context under `ce`."""
    data = {} if event.data is None else event.data
    if not isinstance(data, dict):
        raise RequestError(f"the data of a CloudEvent must be a JSON object (attributes), got {_kind(data)}")
    if CONTEXT in data:
        raise RequestError(
            f"the data has an attribute {CONTEXT!r}, which holds the context of the CloudEvent; give it another name"
        )
    context = {name: value for name, value in event.context.items() if name not in ("specversion", "datacontenttype")}
    until, trace = context.pop("until", None), context.pop("traceparent", None)
    return PlainEvent(
        {**data, CONTEXT: context},
        id=f"{context['source']}#{context['id']}",
        until=None if until is None else str(until),
        traceparent=None if trace is None else str(trace),
    )


def to_cloud(event: PlainEvent, *, source: str, type: str, id: str | None = None) -> CloudEvent:
    """The CloudEvent of a plain event: with its own context if it came with one, else with `source`, `type` and `id`.

    >>> to_cloud(PlainEvent({"price": 250}), source="/broker", type="event", id="12").context["source"]
    '/broker'
    """
    data = dict(event.data)
    context = data.pop(CONTEXT, None)
    if not isinstance(context, dict) or not all(name in context for name in _REQUIRED[1:]):
        data = dict(event.data)
        context = {"id": id or event.id or "", "source": source, "type": type}
    context = {"specversion": "1.0", **context, "datacontenttype": "application/json"}
    for name, value in (("until", event.until), ("traceparent", event.traceparent)):
        if value is not None:
            context[name] = value
    return CloudEvent(_checked(context), data)


def write_structured(event: CloudEvent) -> tuple[str, bytes]:
    """Content type and body of the structured mode."""
    return STRUCTURED, msgspec.json.encode(_document(event))


def write_batch(events: Iterable[CloudEvent]) -> tuple[str, bytes]:
    """Content type and body of a batch."""
    return BATCH, msgspec.json.encode([_document(event) for event in events])


def write_binary(event: CloudEvent) -> tuple[dict[str, str], bytes]:
    """Headers and body of the binary mode."""
    headers = {
        _HEADER + name: quote(_text(value), safe=_UNQUOTED)
        for name, value in event.context.items()
        if name != "datacontenttype"
    }
    if event.data is None:
        return headers, b""
    headers["content-type"] = str(event.context.get("datacontenttype", "application/json"))
    return headers, msgspec.json.encode(event.data)


_UNQUOTED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def _document(event: CloudEvent) -> dict[str, Any]:
    return dict(event.context) if event.data is None else {**event.context, "data": event.data}


def _batch(documents: Any, max_events: int) -> list[PlainEvent | RequestError]:
    if not isinstance(documents, list):
        raise RequestError(f"a batch of CloudEvents is a JSON array, got {_kind(documents)}")
    if len(documents) > max_events:
        raise TooLargeError(f"the batch has {len(documents):,} events; at most {max_events:,} are taken at once")
    return [_plain_or_error(document) for document in documents]


def _plain_or_error(document: Any) -> PlainEvent | RequestError:
    try:
        return to_plain(_structured(document))
    except RequestError as error:
        return error


def _structured(document: Any) -> CloudEvent:
    if not isinstance(document, dict):
        raise RequestError(f"a CloudEvent is a JSON object, got {_kind(document)}")
    context = {name: value for name, value in document.items() if name not in _DATA and value is not None}
    checked = _checked(context)
    encoded = document.get("data_base64")
    if encoded is None:
        media = str(checked.get("datacontenttype", "application/json"))
        if document.get("data") is not None:
            _check_json(media)
        return CloudEvent(checked, document.get("data"))
    if document.get("data") is not None:
        raise RequestError("a CloudEvent has either data or data_base64, not both")
    try:
        body = base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise RequestError("data_base64 is not base64") from None
    _check_json(str(checked.get("datacontenttype", "application/json")))
    return CloudEvent(checked, _json(body))


def _binary(headers: Mapping[str, str], body: bytes, media: str) -> CloudEvent:
    context: dict[str, Any] = {
        name.removeprefix(_HEADER): _decoded(name, value) for name, value in headers.items() if name.startswith(_HEADER)
    }
    if "datacontenttype" in context:
        raise RequestError(
            "in the binary mode the content type of the data is the header Content-Type, not ce-datacontenttype"
        )
    checked = _checked(context)
    if not body:
        return CloudEvent(checked)
    _check_json(media or "application/json")
    return CloudEvent({**checked, "datacontenttype": media or "application/json"}, _json(body))


def _checked(context: Mapping[str, Any]) -> dict[str, str | int | bool]:
    """The context if it is one of CloudEvents 1.0."""
    for name in _REQUIRED:
        value = context.get(name)
        if not isinstance(value, str) or not value:
            raise RequestError(
                f"the CloudEvents attribute {name!r} is needed, a string that is not empty; got {value!r}"
            )
    if context["specversion"] != "1.0":
        raise RequestError(f"specversion {context['specversion']!r} of CloudEvents is not supported; send '1.0'")
    for name, value in context.items():
        if not _NAME.fullmatch(name):
            raise RequestError(f"CloudEvents attribute {name[:80]!r}: names have lower-case letters and digits only")
        if not isinstance(value, str | int):
            raise RequestError(
                f"CloudEvents attribute {name!r} must be a string, an integer or a boolean, got {_kind(value)}"
            )
        if isinstance(value, int) and not -(2**31) <= value < 2**31:
            raise RequestError(f"CloudEvents attribute {name!r}: integers have 32 bits, got {value}; send a string")
        if isinstance(value, str) and any(ord(char) < 32 or 127 <= ord(char) < 160 for char in value):
            raise RequestError(f"CloudEvents attribute {name!r} has control characters")
    time = context.get("time")
    if time is not None:
        try:
            aware = datetime.fromisoformat(str(time)).tzinfo is not None and "T" in str(time).upper()
        except ValueError:
            aware = False
        if not aware:
            raise RequestError(
                f"CloudEvents attribute 'time' must be a time such as 2026-05-01T12:00:00Z, got {time!r}"
            )
    return dict(context)


def _check_json(media: str) -> None:
    if not _JSON.fullmatch(media.partition(";")[0].strip()):
        raise MediaTypeError(f"the data of a CloudEvent must be JSON, got {media[:80]!r}")


def _decoded(name: str, value: str) -> str:
    """The value of a header: percent-encoded UTF-8, perhaps in quotes."""
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeError:
        raise RequestError(f"header {name!r} is not UTF-8 in percent-encoding") from None


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from None


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
