"""`POST /v1/events` over plain sockets: the short way and the long way of a request give the same answers, in order."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from matchwood.broker.http import BODY_BYTES
from tests.broker.service import Service, service

EVENT = b'{"price": 7}'


@pytest.fixture(scope="module")
def broker() -> Iterator[Service]:
    with service() as made, made.client() as client:
        client.put("price < 300", id="s")
        yield made


class Connection:
    def __init__(self, broker: Service) -> None:
        self._key = broker.key
        self._socket = socket.create_connection(("127.0.0.1", broker.port), timeout=20)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def request(self, *headers: str, path: str = "/v1/events?wait=matched", body: bytes = EVENT) -> bytes:
        lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self._key}", *headers]
        if not any(line.startswith("Transfer-Encoding") for line in headers):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and document of the next answer."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self._file.read(int(headers.get("content-length", 0)))
        return status, headers, json.loads(body) if body else None

    def read(self, count: int) -> bytes:
        return self._file.read(count)

    def at_end(self) -> bool:
        return self._file.read(1) == b""


def test_both_ways_give_the_same_answer(broker: Service) -> None:
    with Connection(broker) as connection:
        found = []
        for headers in ((), ("Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",)):
            connection.send(connection.request(*headers))
            found.append(connection.answer())
    assert [status for status, _, _ in found] == [202, 202]
    assert [document["matches"] for _, _, document in found] == [[{"subscription": "s", "score": 1.0}]] * 2
    assert found[0][1].keys() == found[1][1].keys()


def test_a_request_may_come_in_pieces_and_several_at_once(broker: Service) -> None:
    with Connection(broker) as connection:
        for byte in connection.request():
            connection.send(bytes([byte]))
        first = connection.answer()[2]["seq"]
        connection.send(connection.request() * 5)
        assert [connection.answer()[2]["seq"] for _ in range(5)] == [first + n for n in range(1, 6)]


def test_bodies_in_chunks_and_expectations_are_understood(broker: Service) -> None:
    with Connection(broker) as connection:
        chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(EVENT), EVENT)
        connection.send(connection.request("Transfer-Encoding: chunked", body=chunk))
        assert connection.answer()[0] == 202
        connection.send(connection.request("Expect: 100-continue"))
        assert connection.answer()[0] == 100
        assert connection.answer()[0] == 202


def test_errors_are_problems_and_the_connection_goes_on(broker: Service) -> None:
    with Connection(broker) as connection:
        wrong = [
            ((), {"body": b"{"}, 400),
            (("Content-Type: text/plain",), {}, 415),
            ((), {"path": "/v1/events?k=0"}, 400),
            ((), {"path": "/v1/events?page=1"}, 400),
            ((), {"body": b'{"price": "low"}'}, 422),
        ]
        for headers, given, expected in wrong:
            connection.send(connection.request(*headers, **given))  # type: ignore[arg-type]
            status, answered, problem = connection.answer()
            assert (status, answered["content-type"]) == (expected, "application/problem+json"), problem
        connection.send(connection.request())
        assert connection.answer()[0] == 202


def test_without_a_key_nothing_is_published(broker: Service) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
    connection.request("POST", "/v1/events", EVENT)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="matchwood"')
    connection.close()


def test_a_connection_is_closed_if_the_client_asks_for_it(broker: Service) -> None:
    with Connection(broker) as connection:
        connection.send(connection.request("Connection: close"))
        status, headers, _ = connection.answer()
        assert (status, headers["connection"]) == (202, "close")
        assert connection.at_end()


def test_a_body_that_is_too_long_is_refused_before_it_is_read(broker: Service) -> None:
    with Connection(broker) as connection:
        head = connection.request(body=b"").replace(b"Content-Length: 0", b"Content-Length: %d" % (BODY_BYTES + 1))
        connection.send(head)
        assert connection.answer()[0] == 413


def test_a_client_that_goes_before_its_answer_harms_no_other(broker: Service) -> None:
    with Connection(broker) as connection:
        connection.send(connection.request())
        before = connection.answer()[2]["seq"]
        connection.send(connection.request())
    with Connection(broker) as connection:
        connection.send(connection.request())
        assert connection.answer()[2]["seq"] > before


def test_a_connection_that_becomes_a_websocket_does_not_publish_its_last_event_again(broker: Service) -> None:
    with Connection(broker) as connection:
        connection.send(connection.request())
        seq = connection.answer()[2]["seq"]
        upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        head = connection.request(
            *upgrade, "Sec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ==", path="/v1/stream?all=1", body=b""
        )
        connection.send(head.replace(b"POST", b"GET").replace(b"Content-Length: 0\r\n", b""))
        assert connection.answer()[0] == 101
        with Connection(broker) as other:
            other.send(other.request())
            assert other.answer()[2]["seq"] == seq + 1
        for kind in ("position", "match"):  # each frame is whole: nothing else was written to the connection
            first, length = connection.read(2)
            assert first == 0x81
            size = int.from_bytes(connection.read(2), "big") if length == 126 else length
            told = json.loads(connection.read(size))
            assert (told["type"], told["position"]) == (kind, seq if kind == "position" else seq + 1)
