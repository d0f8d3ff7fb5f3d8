"""A whole service under load over real sockets, killed and started again; the check is that of `kills`."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.broker.kills import EXPRESSIONS, SCHEMA, Point, Replay, check, nth_of, point_of, shown
from tests.broker.service import Service

LONGEST = 2.5
"""Seconds of load before a kill, at most."""


class Campaign:
    """One data folder that outlives several services."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.said: list[str] = []
        self.kills: Counter[str] = Counter()
        """By point: a kill counts there only if the service came to its point."""
        self.arrived: dict[str, list[int]] = {}  # by webhook, in the order of first arrival
        self._saying = threading.Lock()
        self._events = 0
        campaign = self

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                delivery = json.loads(self.rfile.read(int(self.headers["content-length"])))
                campaign.say(f"! seen {delivery['id']}")
                campaign.say(f"? ack {delivery['id']}")
                seqs = campaign.arrived.setdefault(delivery["subscription"], [])
                if delivery["seq"] not in seqs:
                    seqs.append(delivery["seq"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...  # the service was killed meanwhile

        self.receiver = Server(("127.0.0.1", 0), Hook)
        threading.Thread(target=self.receiver.serve_forever, args=(0.05,), daemon=True).start()
        self.service = Service(folder)
        self.ask("PUT", "/v1/schema", {"attributes": SCHEMA, "closed": True})
        self.ask("PUT", "/v1/hooks/h", {"url": f"http://127.0.0.1:{self.receiver.server_address[1]}/"})
        for number, delivery in enumerate([{}, {"consumer": "c"}, {"type": "webhook", "hook": "h"}]):
            self.ask("POST", "/v1/subscriptions", {"id": f"always{number}", "expression": "TRUE", "delivery": delivery})
            self.say(f"! subscribe always{number}")
        self.service.stop()

    def say(self, line: str) -> None:
        with self._saying:
            self.said.append(line)

    def end(self) -> None:
        self.receiver.shutdown()
        self.receiver.server_close()

    # one life

    def live(self, number: int) -> None:
        """Start the service, put it under load, and kill it."""
        point = point_of(number)
        try:
            self.service = self._started(point, nth_of(number, point) if point else 0)
        except AssertionError:  # killed while it started
            self.kills[shown(point)] += 1
            return
        until = time.monotonic() + (LONGEST if point else random.Random(number).uniform(0.1, 1.5))
        work: list[Callable[[random.Random], None]] = [self.publish, self.publish, self.change, self.consume]
        threads = [threading.Thread(target=self._work, args=(one, number * 10 + n)) for n, one in enumerate(work)]
        threads.append(threading.Thread(target=self._listen))
        if number % 4 == 1 or (point and point[0] == "rename"):
            threads.append(threading.Thread(target=self._snapshot))
        for thread in threads:
            thread.start()
        while time.monotonic() < until and self.service.process.poll() is None:
            time.sleep(0.01)
        fired = self.service.process.poll() is not None
        self.service.kill()
        assert self.service.process.returncode == -signal.SIGKILL
        self.kills[shown(point if fired else None)] += 1
        for thread in threads:
            thread.join()

    def _started(self, point: Point | None, nth: int) -> Service:
        before: list[str] = []
        if point is not None:
            before = ["tests.broker.trapped_serve", point[0], point[1], "after" if point[2] else "before", str(nth)]
        return Service(self.folder, key=self.service.key, port=self.service.port, through=before)

    def _work(self, work: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
            while True:
                work(rng)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=10)
        headers = {"Authorization": f"Bearer {self.service.key}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status < 500, content
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def publish(self, rng: random.Random) -> None:
        with self._saying:
            self._events += 1
            id_ = f"e{self._events}"
        self.say(f"? event {id_}")
        event = {"age": rng.randrange(9), "plan": rng.choice("abc")}
        status, answer = self.ask("POST", f"/v1/events?wait=matched&id={id_}", event)
        assert status == 202
        hits = [(hit["subscription"], hit["score"]) for hit in answer["matches"]]
        self.say(f"! event {json.dumps([id_, answer['seq'], hits])}")

    def change(self, rng: random.Random) -> None:
        id_ = f"s{rng.randrange(15)}"
        delivery = rng.choice([{}, {"consumer": "c"}, {"type": "webhook", "hook": "h"}])
        given = {"expression": rng.choice(EXPRESSIONS), "priority": float(rng.randrange(3)), "delivery": delivery}
        kind = rng.choice(["add", "add", "replace", "remove", "pause"])
        if kind == "add":
            if self.ask("POST", "/v1/subscriptions", {**given, "id": id_})[0] == 201:
                self.say(f"! subscribe {id_}")
        elif kind == "replace":
            self.ask("PUT", f"/v1/subscriptions/{id_}", given)
        elif kind == "remove":
            self.say(f"? remove {id_}")
            self.ask("DELETE", f"/v1/subscriptions/{id_}")
        else:
            self.ask("PATCH", f"/v1/subscriptions/{id_}", {"paused": rng.random() < 0.3})

    def consume(self, rng: random.Random) -> None:
        _, answer = self.ask("POST", "/v1/consumers/c/pull", {"max": 20, "wait": 0.2, "lease": 1})
        ids = [one["id"] for one in answer["deliveries"] if rng.random() < 0.8]
        for id_ in ids:
            self.say(f"! seen {id_}")
            self.say(f"? ack {id_}")
        if ids:
            self.ask("POST", "/v1/consumers/c/ack", {"ids": ids})
            for id_ in ids:
                self.say(f"! ack {id_}")

    def _listen(self) -> None:
        """A stream shows nothing that is not on disk."""
        with (
            suppress(OSError, ValueError),
            socket.create_connection(("127.0.0.1", self.service.port), timeout=10) as client,
        ):
            lines = f"GET /v1/stream?all=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.service.key}\r\n\r\n"
            client.sendall(lines.encode())
            with client.makefile("rb") as file:
                for line in file:
                    if line.startswith(b'data: {"id":') and line.endswith(b"}\n"):
                        self.say(f"! seen {json.loads(line[6:])['id']}")

    def _snapshot(self) -> None:
        with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
            self.ask("POST", "/v1/snapshot")

    # afterwards

    def check(self) -> Replay:
        """Everything `kills.check` wants; and what was shown to anybody is on disk, and webhooks came by `seq`."""
        replay = check(self.folder / "tenants" / "default", self.said)
        matches = {f"{id_}@{seq}" for seq, hits in replay.by_seq.items() for id_, _ in hits}
        seen = {line[7:] for line in self.said if line.startswith("! seen ")}
        assert seen <= matches, f"shown, and not on disk: {sorted(seen - matches)[:5]}"
        for id_, seqs in self.arrived.items():
            assert seqs == sorted(seqs), f"webhooks of {id_} came as {seqs}"
        return replay
