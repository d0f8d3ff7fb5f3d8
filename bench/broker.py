"""The broker: requests that are acknowledged when they are on disk, over real sockets; server and load have a core each.

    single      POST of one event on 64 connections; each waits for its answer before the next
    batches     POST of 100 events, 100,000 ranked circles, the 10 best of each event
    streams     server-sent events to many clients that each get 10 matches a second: processor time a delivery, and delay
    webhooks    deliveries to a receiver on the same machine
    recovery    a broker that is killed and started again on its data, until its first answer
    PostgreSQL  the service that a user would otherwise write: the circles in a table with an index, asked for each event; with
                the numbers of circles and connections, the batches and the durable commits of `single` and `batches`

Before anything is measured, the rankings of some events are compared with those of an engine in this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.broker_load import Load, http_load, ready, request, sse_load
from bench.report import Report
from matchwood import Engine

SIZES: dict[str, dict[str, Any]] = {
    "quick": {"circles": 20_000, "seconds": 5.0, "clients": 500, "hooks": 2000, "kept": 20_000},
    "paper": {"circles": 100_000, "seconds": 10.0, "clients": 1000, "hooks": 10_000, "kept": 1_000_000},
}
SERVER_CORE, LOAD_CORE = 0, 1
BROKER = "broker"
POSTGRES = "PostgreSQL"
PLURALS = {"event": "events", "delivery": "deliveries"}


def run(preset: str, report: Report) -> None:
    """One part for each block of the list above."""
    size = SIZES[preset]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[LOAD_CORE]})
    try:
        with tempfile.TemporaryDirectory(dir="build" if Path("build").is_dir() else None) as name:
            folder = Path(name)
            report.part("single", partial(single, report, folder / "single", size["seconds"]))
            report.part("batches", partial(batches, report, folder / "batches", size["circles"], size["seconds"]))
            report.part("streams", partial(streams, report, folder / "streams", size["clients"], size["seconds"]))
            report.part("webhooks", partial(webhooks, report, folder / "webhooks", size["hooks"]))
            report.part("recovery", partial(recovery, report, folder / "recovery", size["kept"]))
            report.part("PostgreSQL", partial(postgres, report, folder / "postgres", size["circles"], size["seconds"]))
    finally:
        os.sched_setaffinity(0, cores)


# the server


class Server:
    """`matchwood serve` in a child process, on a core of its own."""

    def __init__(self, folder: Path, port: int, *, key: str = "") -> None:
        self.folder, self.port = folder, port
        command = [sys.executable, "-m", "matchwood.cli.main", "serve", "--data", str(folder), "--port", str(port)]
        command += ["--allow-webhooks-to", "127.0.0.0/8", "--allow-http-webhooks", "--log-level", "warning"]
        log = folder.with_suffix(".log").open("ab")

        def pinned() -> None:
            cores = range(os.cpu_count() or 1)
            os.sched_setaffinity(0, {cores[SERVER_CORE]})

        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, preexec_fn=pinned, start_new_session=True
        )
        log.close()
        assert self.process.stdout is not None
        printed = ""
        while "matchwood serves" not in printed:
            line = self.process.stdout.readline().decode()
            assert line, f"the broker did not start: {printed}"
            printed += line
        words = [word for word in printed.split() if word.startswith("mw_")]
        self.key = words[0] if words else key

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Any:
        return json.loads(request(self.port, method, path, self.key, body, kind) or b"null")

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if how is signal.SIGKILL:  # with the process that makes a snapshot
            os.killpg(self.process.pid, how)
        else:
            self.process.send_signal(how)
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """A new broker."""
    made = Server(folder, _port())
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.end()


def _port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# the data


def circles(count: int, seed: int = 29) -> list[dict[str, Any]]:
    """Subscriptions: an offer below a price within some kilometres, with priorities."""
    draw = random.Random(seed)
    return [
        {
            "id": f"c{n}",
            "expression": f"price < {draw.randrange(50, 5000)}",
            "priority": draw.randrange(1000) / 1000,
            "place": [10.0 + draw.random(), 59.0 + draw.random()],
            "radius": 200.0 + draw.randrange(600),
        }
        for n in range(count)
    ]


def offers(count: int, seed: int = 30) -> list[dict[str, Any]]:
    """Events."""
    draw = random.Random(seed)
    return [
        {
            "item": draw.choice(["phone", "bike", "desk"]),
            "price": draw.randrange(4000),
            "place": {"lon": 10.0 + draw.random(), "lat": 59.0 + draw.random()},
        }
        for _ in range(count)
    ]


def load_circles(broker: Server, subscriptions: list[dict[str, Any]]) -> None:
    for at in range(0, len(subscriptions), 2000):
        lines = b"\n".join(json.dumps(one).encode() for one in subscriptions[at : at + 2000])
        answer = broker.request("POST", "/v1/subscriptions", lines, "application/x-ndjson")
        assert not answer.get("rejected"), answer["rejected"][:1]


def verified(broker: Server, subscriptions: list[dict[str, Any]], events: list[dict[str, Any]]) -> bool:
    """Are the rankings of the broker those of an engine?"""
    engine = Engine(ids="str", index="scan")
    engine.subscribe_many(
        [one["expression"] for one in subscriptions],
        ids=[one["id"] for one in subscriptions],
        priority=[one["priority"] for one in subscriptions],
        place=[tuple(one["place"]) for one in subscriptions],
        radius=[one["radius"] for one in subscriptions],
    )
    for event in events[:20]:
        answer = broker.request("POST", "/v1/events?k=10&wait=matched", json.dumps(event).encode())
        found = [(hit["subscription"], hit["score"]) for hit in answer["matches"]]
        assert found == [(hit.id, hit.score) for hit in engine.top_k(event, 10)]
    return True


# the parts


def _rows(report: Report, workload: str, n: int, load: Load, verified: bool, what: str = "event") -> None:
    measured = {
        f"{PLURALS[what]} a second": load.events / load.seconds,
        "p50 ms": load.percentile(0.5) * 1e3,
        "p99 ms": load.percentile(0.99) * 1e3,
        f"processor us {'an' if what == 'event' else 'a'} {what}": load.cpu / max(load.events, 1) * 1e6,
        "load's share of its core": load.busy,
    }
    for metric, value in measured.items():
        report.row(workload=workload, system=BROKER, n=n, metric=metric, value=value, verified=verified)
        print(f"    {workload}: {metric} {value:,.2f}", file=sys.stderr)


def single(report: Report, folder: Path, seconds: float) -> None:
    """One event a request."""
    subscriptions, events = circles(1000), offers(2000)
    report.workload("single", connections=64, subscriptions=1000, k=10, seconds=seconds)
    with server(folder) as broker:
        load_circles(broker, subscriptions)
        good = verified(broker, subscriptions, events)
        ready(broker.port, broker.key)
        bodies = [json.dumps(event).encode() for event in events]
        run_once = partial(http_load, broker, "/v1/events?k=10", bodies, 64, 1)
        run_once(1.0)
        load = run_once(seconds)
    _rows(report, "single", 1000, load, good)


def batches(report: Report, folder: Path, count: int, seconds: float) -> None:
    """100 events a request."""
    subscriptions, events = circles(count), offers(5000)
    report.workload("batches", connections=8, batch=100, subscriptions=count, k=10, seconds=seconds)
    with server(folder) as broker:
        load_circles(broker, subscriptions)
        good = verified(broker, subscriptions, events)
        lines = [json.dumps(event).encode() for event in events]
        bodies = [b"\n".join(lines[at : at + 100]) for at in range(0, len(lines), 100)]
        run_once = partial(http_load, broker, "/v1/events?k=10", bodies, 8, 100)
        run_once(2.0)
        time.sleep(20.0)  # the planner chooses a structure for what it has seen
        run_once(2.0)
        load = run_once(seconds)
        print(f"    index {broker.request('GET', '/v1/status')['index']}", file=sys.stderr)
    _rows(report, "batches", count, load, good)


def streams(report: Report, folder: Path, clients: int, seconds: float) -> None:
    """Each client listens to a subscription of its own, and gets 10 matches a second."""
    report.workload("streams", clients=clients, rate=10, seconds=seconds)
    with server(folder) as broker:
        subscriptions = [{"id": f"s{n}", "expression": f"room = {n // 50}"} for n in range(clients)]
        load_circles(broker, subscriptions)
        events = [json.dumps({"room": room, "text": "x" * 50}).encode() for room in range((clients + 49) // 50)]
        load = sse_load(broker, clients, events, 10, seconds)
    _rows(report, "streams", clients, load, load.complete, "delivery")


def webhooks(report: Report, folder: Path, count: int) -> None:
    """Deliveries to a receiver that answers 200 at once, in a process of its own on the core of the load."""
    report.workload("webhooks", deliveries=count)
    port = _port()
    receiver = subprocess.Popen(
        [sys.executable, "-m", "bench.broker_receiver", str(port)], stdout=subprocess.PIPE, text=True
    )
    assert receiver.stdout is not None
    receiver.stdout.readline()
    try:
        with server(folder) as broker:
            url = json.dumps({"url": f"http://127.0.0.1:{port}/"}).encode()
            broker.request("PUT", "/v1/hooks/one", url)
            delivery = {"type": "webhook", "hook": "one"}
            several = ({"id": f"s{n}", "expression": f"price = {n}", "delivery": delivery} for n in range(300))
            lines = b"\n".join(json.dumps(one).encode() for one in several)  # each in order, and all side by side
            broker.request("POST", "/v1/subscriptions", lines, "application/x-ndjson")
            before, start = broker.cpu(), time.perf_counter()
            for at in range(0, count, 1000):
                lines = b"\n".join(b'{"price": %d}' % (n % 300) for n in range(at, min(at + 1000, count)))
                broker.request("POST", "/v1/events", lines, "application/x-ndjson")
            while broker.request("GET", "/v1/consumers")["consumers"]:
                time.sleep(0.05)
            seconds, cpu = time.perf_counter() - start, broker.cpu() - before
            received = int(request(port, "GET", "/count", "", b"", "text/plain"))
    finally:
        receiver.terminate()
        receiver.wait()
        receiver.stdout.close()
    good = received == count
    for metric, value in (("deliveries a second", count / seconds), ("processor us a delivery", cpu / count * 1e6)):
        report.row(workload="webhooks", system=BROKER, n=count, metric=metric, value=value, verified=good)
        print(f"    webhooks: {metric} {value:,.1f} (received {received})", file=sys.stderr)


def recovery(report: Report, folder: Path, count: int) -> None:
    """Subscriptions in a snapshot, a tenth as many changes after it, a kill, and a start."""
    changes = count // 10
    report.workload("recovery", subscriptions=count, changes=changes)
    with server(folder) as broker:
        broker.request("PUT", "/v1/tenants/default", json.dumps({"subscriptions": 2 * count}).encode())
        load_circles(broker, circles(count))
        broker.request("POST", "/v1/snapshot")
        load_circles(broker, [{**one, "id": f"later{one['id']}"} for one in circles(changes, seed=31)])
        broker.end(signal.SIGKILL)
        start = time.perf_counter()
        again = Server(folder, _port(), key=broker.key)
        try:
            answer = again.request("POST", "/v1/match", json.dumps({"event": offers(1)[0], "k": 10}).encode())
            seconds = time.perf_counter() - start
            good = again.request("GET", "/v1/status")["subscriptions"] == count + changes and "matches" in answer
        finally:
            again.end()
    report.row(workload="recovery", system=BROKER, n=count, metric="seconds", value=seconds, verified=good)
    print(f"    recovery of {count:,} and {changes:,} changes: {seconds:.1f} s", file=sys.stderr)


# PostgreSQL


def postgres(report: Report, folder: Path, count: int, seconds: float) -> None:
    """The circles in a table with a GiST index, and an event table; one transaction for each request."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    try:
        import psycopg
    except ImportError:
        print("    left out: psycopg is not installed", file=sys.stderr)
        return
    if not binaries:
        print("    left out: PostgreSQL (Debian's postgresql) is not installed", file=sys.stderr)
        return
    for name, circles_of_it, connections, batch in (("single", 1000, 64, 1), ("batches", count, 8, 100)):
        with _cluster(binaries[-1].parent, folder / name) as where:
            with psycopg.connect(where, autocommit=True) as connection:
                _fill(connection, circles_of_it)
            asyncio.run(_ask(where, offers(5000), connections, batch, 1.0))
            load = asyncio.run(_ask(where, offers(5000), connections, batch, seconds))
        ours = report.value(workload=name, system=BROKER, metric="events a second")
        rate = load.events / load.seconds
        for metric, value in (
            ("events a second", rate),
            ("p50 ms", load.percentile(0.5) * 1e3),
            ("p99 ms", load.percentile(0.99) * 1e3),
            ("load's share of its core", load.busy),
        ):
            ratio = {"baseline": BROKER, "ratio": ours / rate} if metric == "events a second" and ours else {}
            report.row(workload=name, system=POSTGRES, n=circles_of_it, metric=metric, value=value, **ratio)
            print(f"    PostgreSQL, {name}: {metric} {value:,.2f}", file=sys.stderr)


@contextmanager
def _cluster(binaries: Path, folder: Path) -> Iterator[str]:
    """A server of its own, on one core, with its own data."""
    folder.mkdir(parents=True)
    data = Path(tempfile.mkdtemp(prefix="matchwood-pg-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(data, user)
    port = _port()

    def call(*words: str) -> None:
        subprocess.run([*words], check=True, capture_output=True, user=user, cwd="/")

    try:
        call(str(binaries / "initdb"), "-D", str(data / "d"), "-U", "postgres", "-A", "trust")
        options = f"-p {port} -k {data} -c listen_addresses=127.0.0.1"
        pinned = ["taskset", "-c", str(SERVER_CORE)] if shutil.which("taskset") else []
        call(
            *pinned,
            str(binaries / "pg_ctl"),
            "-D",
            str(data / "d"),
            "-w",
            "-l",
            str(data / "log"),
            "-o",
            options,
            "start",
        )
        yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    finally:
        subprocess.run(
            [str(binaries / "pg_ctl"), "-D", str(data / "d"), "-m", "immediate", "stop"],
            check=False,
            capture_output=True,
            user=user,
            cwd="/",
        )
        shutil.rmtree(data, ignore_errors=True)


def _fill(connection: Any, count: int) -> None:
    connection.execute(
        "CREATE TABLE subscriptions(id text, price int, priority float, place point, radius float, area box)"
    )
    connection.execute("CREATE TABLE events(seq bigserial PRIMARY KEY, body jsonb, matches text[])")
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY subscriptions(id, price, priority, place, radius, area) FROM STDIN") as copy,
    ):
        for one in circles(count):
            (lon, lat), radius = one["place"], one["radius"]
            wide, high = radius / 111_320 / 0.5, radius / 111_320
            area = f"(({lon + wide},{lat + high}),({lon - wide},{lat - high}))"
            price = int(one["expression"].rpartition(" ")[2])
            copy.write_row((one["id"], price, one["priority"], f"({lon},{lat})", radius, area))
    connection.execute("CREATE INDEX ON subscriptions USING gist(area)")
    connection.execute("ANALYZE subscriptions")


_ASK = """
WITH best AS (
    SELECT id FROM subscriptions
    WHERE area @> point(%(lon)s, %(lat)s) AND price > %(price)s
      AND 6371008.8 * 2 * asin(sqrt(power(sin(radians(place[1] - %(lat)s) / 2), 2)
          + cos(radians(place[1])) * cos(radians(%(lat)s)) * power(sin(radians(place[0] - %(lon)s) / 2), 2))) <= radius
    ORDER BY priority DESC, id LIMIT 10)
INSERT INTO events(body, matches) VALUES(%(body)s, ARRAY(SELECT id FROM best)) RETURNING matches
"""


async def _ask(where: str, events: list[dict[str, Any]], connections: int, batch: int, seconds: float) -> Load:
    """Ask for so many seconds; each connection waits for its transaction before the next. A batch goes as one pipeline."""
    import psycopg

    load = Load()
    given = [{**event["place"], "price": event["price"], "body": json.dumps(event)} for event in events]

    async def one(number: int, connection: Any) -> None:
        at = number * 97
        while time.perf_counter() < end:
            began = time.perf_counter()
            several = [given[(at + step) % len(given)] for step in range(batch)]
            at += batch
            if batch == 1:
                cursor = await connection.execute(_ASK, several[0], prepare=True)
                await cursor.fetchall()
            else:
                async with connection.transaction(), connection.cursor() as cursor:
                    await cursor.executemany(_ASK, several, returning=True)
            load.times.append(time.perf_counter() - began)
            load.events += batch

    opened = [await psycopg.AsyncConnection.connect(where, autocommit=True) for _ in range(connections)]
    end = time.perf_counter() + seconds
    with load.measured(lambda: 0.0):
        await asyncio.gather(*(one(number, connection) for number, connection in enumerate(opened)))
    for connection in opened:
        await connection.close()
    return load
