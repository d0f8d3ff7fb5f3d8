"""Requests and answers over ASGI, without a framework: what the routes need and no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

import msgspec

from matchwood.broker.problems import CONTENT_TYPE, Problem
from matchwood.errors import RequestError, TooLargeError

BODY_BYTES = 1 << 20
"""The largest body of a request."""
WRITE_NOW = "matchwood.write_now"
"""The extension of a scope that writes a part of a body past ASGI: see `protocol`."""
T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_ENCODE = msgspec.json.Encoder().encode
_JSON = (b"content-type", b"application/json")


class Answer(NamedTuple):
    """A status and a body: a value that becomes JSON, bytes, or None for no body."""

    status: int
    body: Any = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Request:
    """A request whose body has not been read yet. `path` has the variables of the path."""

    __slots__ = ("_receive", "broker", "headers", "key", "path", "query_string", "scope", "tenant")

    def __init__(self, scope: Scope, receive: Receive, path: Mapping[str, str]) -> None:
        self.scope, self._receive, self.path = scope, receive, path
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.query_string: bytes = scope["query_string"]
        self.broker: Any = None
        self.tenant: Any = None
        self.key: Any = None

    def query(self, *known: str) -> dict[str, list[str]]:
        """The parameters of the query; `RequestError` for one that is not known here."""
        if not self.query_string:
            return {}
        try:
            found = parse_qs(self.query_string.decode("ascii"), keep_blank_values=True, max_num_fields=1000)
        except ValueError as error:
            raise RequestError(f"the query cannot be read: {error}") from None
        for name in found:
            if name not in known:
                options = ", ".join(known) or "none"
                raise RequestError(f"unknown parameter {name[:50]!r} (known: {options})")
        return found

    def whole(
        self, query: Mapping[str, list[str]], name: str, default: int | None, least: int, most: int
    ) -> int | None:
        """A parameter that is a whole number."""
        text = query.get(name, [None])[-1]
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
            raise RequestError(f"parameter {name!r}: expected a whole number from {least} to {most}, got {text[:50]!r}")
        return int(text)

    async def body(self, limit: int = BODY_BYTES) -> bytes:
        """The body; `TooLargeError` if it is longer than the limit, of which no more is read."""
        length = self.headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > limit):
            raise TooLargeError(
                f"the body has {length[:20].decode('latin-1')} bytes, the limit is {limit:,}; send it in parts"
            )
        message = await self._receive()
        part: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            return part
        parts, size = [part], len(part)
        while message.get("more_body"):
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise TooLargeError(f"the body has more than {limit:,} bytes, the limit; send it in parts")
        return b"".join(parts)

    async def gone(self) -> None:
        """Return when the client has gone; call it after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def decoded(self, type_: type[T]) -> T:
        """The JSON body, of a type."""
        body = await self.body()
        try:
            return msgspec.json.decode(body, type=type_)
        except msgspec.MsgspecError as error:
            raise RequestError(f"the body cannot be used: {error}") from None
        except (RecursionError, UnicodeDecodeError) as error:
            raise RequestError(f"the body is not JSON: {error}") from None


def content_of(answer: Answer) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The bytes of an answer's body, and all its headers."""
    body = answer.body
    headers = [*answer.headers]
    if body is None:
        content = b""
    elif isinstance(body, bytes):
        content = body
    else:
        content = _ENCODE(body)
        headers.append(_JSON)
    if answer.status != 204:
        headers.append((b"content-length", str(len(content)).encode()))
    return content, headers


async def respond(send: Send, answer: Answer) -> None:
    """Send an answer."""
    content, headers = content_of(answer)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def of_problem(problem: Problem) -> Answer:
    """A problem as an answer."""
    headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    headers.append((b"content-type", CONTENT_TYPE.encode()))
    return Answer(problem.status, _ENCODE(problem.to_json()), tuple(headers))
