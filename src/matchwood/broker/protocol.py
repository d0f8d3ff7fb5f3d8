"""HTTP on a connection: uvicorn's protocol, with a short way for `POST /v1/events` and one for the parts of a stream.

A published event is nearly nothing but its request, and ASGI costs more than all that the broker does for it: a task, a scope,
four messages and two writes. Such a request is collected here, handed over as a whole, and answered by one write. What is unusual
(a body of unknown or great length, a pipelined request, `Expect`, tracing, a client that does not read its answers) goes the
long way, as does every other route.

A stream of server-sent events begins the long way; then the hub writes to its connection by `write_now`, without a task that is
woken for each client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from matchwood.broker import telemetry
from matchwood.broker.http import BODY_BYTES, WRITE_NOW, Answer, content_of

if TYPE_CHECKING:
    from matchwood.broker.app import App

PATH = b"/v1/events"
_LONG_WAY = frozenset((b"expect", b"traceparent", b"transfer-encoding", b"upgrade"))


class _Ignored:
    """Stands for the event that uvicorn sets; a short request has no task that awaits it."""

    def set(self) -> None:
        """Do nothing."""


class Short:
    """A request on the short way; uvicorn asks it what it asks its own cycles."""

    __slots__ = ("_protocol", "body", "disconnected", "handed", "head", "keep_alive", "response_complete")
    message_event = _Ignored()

    def __init__(self, protocol: Any, head: dict[str, Any], keep_alive: bool) -> None:
        self._protocol, self.head, self.keep_alive = protocol, head, keep_alive
        self.body = b""
        self.disconnected = self.handed = self.response_complete = False

    def answer(self, answer: Answer) -> None:
        """Write the answer and let the connection go on."""
        self.response_complete = True
        protocol = self._protocol
        if self.disconnected or protocol.transport.is_closing():
            return
        content, headers = content_of(answer)
        lines = [STATUS_LINE[answer.status]]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        lines += (b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n", content)
        protocol.transport.write(b"".join(lines))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


class Protocol(HttpToolsProtocol):
    """One connection. `broker_app` is set by `protocol_of`."""

    broker_app: App

    def on_message_begin(self) -> None:
        """Offer `write_now` to the application."""
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["extensions"] = {WRITE_NOW: self.write_now}

    def write_now(self, part: bytes) -> bool:
        """Write a part of the body of the answer that has begun; False if the connection takes nothing now."""
        cycle: Any = self.cycle
        if self.flow.write_paused or self.transport.is_closing() or cycle.response_complete:
            return False
        if not cycle.chunked_encoding:
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        return True

    def on_headers_complete(self) -> None:
        """Choose the way of a request."""
        if not self._is_short():
            super().on_headers_complete()
            return
        head = {"headers": self.headers, "query_string": self.url[len(PATH) + 1 :]}
        self.cycle = Short(self, head, self.parser.should_keep_alive())  # type: ignore[assignment]

    def _is_short(self) -> bool:
        if not self.url.startswith(PATH) or self.url[len(PATH) : len(PATH) + 1] not in (b"", b"?"):
            return False
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1" or b"#" in self.url:
            return False
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or self.flow.write_paused or telemetry.enabled():
            return False
        length = b""
        for name, value in self.headers:
            if name in _LONG_WAY:
                return False
            if name == b"content-length":
                length = value
        return length.isdigit() and int(length) <= BODY_BYTES

    def on_body(self, body: bytes) -> None:
        """Collect the body."""
        cycle: Any = self.cycle
        if type(cycle) is Short and not cycle.handed:
            cycle.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Hand a whole request over. A request to change to a WebSocket has no cycle: the one that is there was answered."""
        cycle: Any = self.cycle
        if type(cycle) is Short and not cycle.handed:
            cycle.handed = True
            self.broker_app.publish_whole(cycle.head, cycle.body, cycle.answer)
        else:
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the WebSocket; an answer that is still to come must not get between its frames."""
        cycle: Any = self.cycle
        if type(cycle) is Short:
            cycle.disconnected = True
        super().handle_websocket_upgrade()


def protocol_of(app: App) -> type[Protocol]:
    """The protocol of a server of this application."""
    return type("BrokerProtocol", (Protocol,), {"broker_app": app})
