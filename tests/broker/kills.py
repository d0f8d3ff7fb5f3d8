"""Kills of a tenant and of the whole service at random and named points, and what must be true afterwards.

The load says what it is about to do, and what was acknowledged, in lines:

    ? KIND DATA   asked for: it may have happened, or not
    ! KIND DATA   acknowledged: it must have happened

`check` reads the folder again and compares it with the lines, and with a replay of the journal by the oracle.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from matchwood import ManualClock, Schema, parse
from matchwood.broker.commands import Conditions, Taken, consumer_of
from matchwood.broker.types import DeliveryOptions, Digest
from matchwood.engine.records import (
    Digested,
    Happened,
    Paused,
    Resumed,
    Subscribed,
    Unsubscribed,
    Updated,
    instant_of,
)
from matchwood.engine.snapshotting import write_snapshot
from matchwood.errors import MatchwoodError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.rows import normalise
from tests.broker.tenants import Direct, incoming
from tests.engine.durable_world import Trap, kill
from tests.engine.durable_world import set_trap as trap_files

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {"age": "number", "plan": "string"}
EXPRESSIONS = ["age > 3", "age BETWEEN 2 AND 6 ^0.5", "plan IN ('a', 'b') OR age = 1", "TRUE", "NOT plan = 'c' ^2"]
Point = tuple[str, str, bool]
POINTS: list[Point] = [
    (operation, suffix, after)
    for operation, suffix in [("write", "-wal"), ("sync", "-wal"), ("write", ".db"), ("sync", ".db")]
    for after in (False, True)
] + [("rename", "", False), ("rename", "", True)]
"""What is done to which file, and whether the kill comes after it: the log, the checkpoint, and the rename of a snapshot."""


def point_of(number: int) -> Point | None:
    """The point of a kill of a campaign; None: at a random time, which every third is."""
    return POINTS[number // 3 % len(POINTS)] if number % 3 else None


def shown(point: Point | None) -> str:
    """A point in words, for the counts of a campaign."""
    if point is None:
        return "at a random time"
    operation, suffix, after = point
    return f"{'after' if after else 'before'} {operation} {suffix or 'of a snapshot'}"


def kill_at_rename(kill: Callable[[], None], *, after: bool) -> None:
    """Kill when a folder is renamed, which makes it a snapshot: before that, or after."""
    rename = Path.rename

    def killing(path: Path, target: Path) -> Path:
        if not path.is_dir():
            return rename(path, target)
        if after:
            rename(path, target)
        kill()
        return path

    Path.rename = killing  # type: ignore[assignment, method-assign]


def set_trap(point: Point, nth: int) -> None:
    """Let this process be killed at a point, the nth time that it comes there."""
    if point[0] == "rename":
        kill_at_rename(kill, after=point[2])
    else:
        trap_files(Trap(point[0], point[1], nth, kill, after=point[2]))


def nth_of(seed: int, point: Point) -> int:
    """Which time the kill comes: most loads come there so often."""
    often = {("write", "-wal"): 250, ("sync", "-wal"): 70, ("write", ".db"): 60, ("sync", ".db"): 8}.get(point[:2], 1)
    return 1 + random.Random(seed).randrange(often)


def missed(kills: Mapping[str, int]) -> set[str]:
    """The points at which a campaign has not killed."""
    return {shown(point) for point in [None, *POINTS]} - {name for name, count in kills.items() if count}


# a tenant


def killed_tenant(folder: Path, seed: int, point: Point | None, start: datetime = START) -> tuple[list[str], bool]:
    """Run the load in a child until it is killed, or has ended; return what it said, and whether it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if point is not None:
                set_trap(point, nth_of(seed, point))
            load(folder, seed, start, lambda line: os.write(writing, f"{line}\n".encode()))
        except BaseException:
            import traceback

            os.write(writing, f"\nfailed {json.dumps(traceback.format_exc())}\n".encode())
            os._exit(7)
        os._exit(0)
    os.close(writing)
    if point is None:
        time.sleep(random.Random(seed).random() * 0.25)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), [line for line in said if line.startswith("failed")]
    return said, status == signal.SIGKILL


def load(folder: Path, seed: int, start: datetime, say: Callable[[str], Any], steps: int = 80) -> None:
    """Everything that a tenant does, in random order."""
    rng = random.Random(seed)
    clock = ManualClock(start)
    direct = Direct(folder, clock)
    tenant, call = direct.tenant, direct.call
    tenant._connection.pragma("wal_autocheckpoint", 20)
    call(tenant.declare, SCHEMA, True)
    for number in range(steps):
        kind = rng.choice(
            "event event event subscribe subscribe many replace pause remove pull pull live tick care".split()
        )
        id_ = f"s{rng.randrange(12)}"
        options = rng.choice(
            [
                DeliveryOptions(),
                DeliveryOptions(consumer="c"),
                DeliveryOptions(consumer="d", digest=Digest(max=2, period=5)),
            ]
        )
        until = rng.choice([None, None, clock() + timedelta(seconds=rng.randrange(2, 30))])
        given = {"expression": rng.choice(EXPRESSIONS), "priority": float(rng.randrange(3)), "until": until}
        try:
            if kind == "subscribe":
                call(tenant.subscribe, {**given, "id": id_}, options)
                say(f"! subscribe {id_}")
            elif kind == "many":
                columns = {"place": None, "radius": None, "metadata": number}
                several = [({**given, **columns, "id": f"m{number}.{n}"}, options) for n in range(3)]
                call(tenant.subscribe_many, several)
                for one, _ in several:
                    say(f"! subscribe {one['id']}")
            elif kind == "replace":
                say(f"? remove {id_}")  # its end may be set anew
                call(tenant.replace, id_, given, options, Conditions())
            elif kind == "pause":
                call(tenant.change, id_, {"paused": rng.random() < 0.5}, Conditions())
            elif kind == "remove":
                say(f"? remove {id_}")
                call(tenant.unsubscribe, id_, Conditions())
                say(f"! remove {id_}")
            elif kind in ("event", "live"):
                ids = [f"e{rng.randrange(60)}" for _ in range(rng.choice([1, 3]))]
                until_ = int((clock() + timedelta(seconds=20)).timestamp() * 1e6) if kind == "live" else None
                several_events = [
                    incoming({"age": rng.randrange(9), "plan": rng.choice("abc")}, one, until_) for one in ids
                ]
                for one in ids:
                    say(f"? event {one}")
                for taken in direct.publish(several_events):
                    assert isinstance(taken, Taken), taken
                    if not taken.duplicate:
                        say(f"! event {json.dumps([taken.id, taken.seq, taken.hits])}")
            elif kind == "pull":
                consumer = rng.choice(["stream:c", "stream:d"])
                entries, _ = call(tenant.pull, consumer, 3, 60.0)
                delivered = [f"{entry.subscription}@{entry.seq}" for entry in entries]
                for one in delivered:
                    say(f"? ack {one}")
                if rng.random() < 0.3:
                    call(tenant.give_back, consumer, delivered, 1.0)
                elif delivered:
                    call(tenant.acknowledge, consumer, delivered)
                    for one in delivered:
                        say(f"! ack {one}")
            elif kind == "tick":
                clock.advance(seconds=rng.randrange(1, 6))
            elif kind == "care" and number > steps // 3:
                write_snapshot(folder)
                tenant._trim()
        except MatchwoodError as error:
            if "journal" in str(error):
                raise
    direct.close()


# what must be true


_JUDGED = Schema(SCHEMA)


@cache
def _rows(expression: str) -> Any:
    return normalise(parse(expression), _JUDGED)


def score_of(expression: str, priority: float, event: dict[str, Any]) -> float | None:
    """The oracle."""
    return judge(_rows(expression), event_keys(event, _JUDGED), priority=priority).score


@dataclass
class Said:
    """What the load said."""

    asked: dict[str, Counter[str]] = field(default_factory=dict)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[str]) -> Said:
        made = cls({}, {})
        for line in lines:
            if line.count(" ") < 2:
                continue  # cut off
            mark, kind, data = line.split(" ", 2)
            if mark == "?":
                made.asked.setdefault(kind, Counter())[data] += 1
            else:
                made.acknowledged.setdefault(kind, []).append(data)
        return made


class Replay:
    """The journal, applied to plain dictionaries and judged by the oracle."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, dict[str, Any]] = {}  # in the order of subscription
        self.events: dict[str, tuple[int, list[tuple[str, float]]]] = {}
        self.by_seq: dict[int, list[tuple[str, float]]] = {}
        self.deliveries: set[tuple[str, str]] = set()  # consumer and delivery id
        self.digested: set[tuple[str, int]] = set()
        self.open: dict[str, list[tuple[int, float]]] = {}  # matches of digests that are not closed
        self.abouts: dict[str, Any] = {}  # of those that have expired too

    def apply(self, seq: int, now: datetime, record: Any) -> None:
        self.subscriptions = {i: s for i, s in self.subscriptions.items() if s["until"] is None or now < s["until"]}
        if isinstance(record, Subscribed):
            assert str(record.id) not in self.subscriptions, f"{record.id} was subscribed twice"
            self.subscriptions[str(record.id)] = {
                "expression": record.expression,
                "priority": record.priority,
                "until": instant_of(record.until),
                "about": record.about,
                "paused": False,
            }
        elif isinstance(record, Updated):
            known = self.subscriptions[str(record.id)]
            known.update(expression=record.expression, priority=record.priority, until=instant_of(record.until or None))
            known["about"] = record.about
        elif isinstance(record, Paused | Resumed):
            self.subscriptions[str(record.id)]["paused"] = isinstance(record, Paused)
        elif isinstance(record, Unsubscribed):
            del self.subscriptions[str(record.id)]
            self.open.pop(str(record.id), None)
        elif isinstance(record, Happened):
            self.happened(seq, record)
        elif isinstance(record, Digested):
            due = sorted(self.open.pop(record.subscription), key=lambda hit: (-hit[1], hit[0]))
            assert record.hits == due[:2]
            assert record.left_out == len(due) - len(record.hits)
            self.deliveries.add(
                (f"stream:{self.abouts[record.subscription]['consumer']}", f"{record.subscription}@{seq}")
            )
        if isinstance(record, Subscribed | Updated):
            assert str(record.id) not in self.open or record.about == self.abouts[str(record.id)]
            self.abouts[str(record.id)] = record.about

    def happened(self, seq: int, record: Happened) -> None:
        assert record.id not in self.events, f"event {record.id} was published twice"
        event = json.loads(bytes(record.data))
        found = []
        for order, (id_, one) in enumerate(self.subscriptions.items()):
            score = None if one["paused"] else score_of(one["expression"], one["priority"], event)
            if score is not None:
                found.append((-score, order, id_))
        hits = [(id_, -negative) for negative, _, id_ in sorted(found)]
        assert record.hits == hits, f"record {seq}: {record.hits} is recorded, {hits} are its matches"
        self.events[str(record.id)] = seq, hits
        self.by_seq[seq] = hits
        for id_, score in hits:
            options = _options(self.subscriptions[id_]["about"])
            consumer = consumer_of(options)
            if options.digest is not None:
                self.open.setdefault(id_, []).append((seq, score))
            elif consumer is not None:
                self.deliveries.add((consumer, f"{id_}@{seq}"))


def check(folder: Path, lines: list[str]) -> Replay:
    """All that was acknowledged is there, nothing is invented, and what waits is what should wait. Returns the replay."""
    said = Said.of(lines)
    direct = Direct(folder, ManualClock(START))
    tenant = direct.tenant
    try:
        replay = Replay()
        last = START
        for chunk in tenant._journal.chunks(0):
            last = datetime.fromtimestamp(chunk.time / 1e6, UTC)
            for seq, record in enumerate(chunk.records, chunk.first):
                replay.apply(seq, last, record)
        for data in said.acknowledged.get("event", []):
            id_, seq, hits = json.loads(data)
            assert id_ in replay.events, f"event {id_} was acknowledged and is lost"
            assert replay.events[id_] == (seq, [(s, score) for s, score in hits])
        asked = said.asked.get("event", Counter())
        assert set(replay.events) <= set(asked), "an event was invented"
        _check_subscriptions(direct, replay, said, last)
        _check_outbox(direct, replay, said)
    finally:
        direct.close()
    return replay


def _check_subscriptions(direct: Direct, replay: Replay, said: Said, last: datetime) -> None:
    tenant = direct.tenant
    alive = {i for i, s in replay.subscriptions.items() if s["until"] is None or last < s["until"]}
    stored = {row[0] for row in tenant._connection.execute("SELECT id FROM subscriptions")}
    assert alive <= stored
    assert alive <= set(tenant.engine.ids().tolist())
    maybe = set(said.asked.get("remove", ()))
    for id_ in said.acknowledged.get("subscribe", []):
        if id_ not in alive and id_ not in maybe:
            until = tenant_until(direct, id_)
            assert until is not None, f"{id_} was acknowledged and is lost"
    for id_ in alive:
        known = replay.subscriptions[id_]
        assert tenant._routes.get(id_, DeliveryOptions()) == _options(known["about"])
    problems = tenant._journal.check()
    assert problems == []


def tenant_until(direct: Direct, id_: str) -> int | None:
    """When a subscription of the journal was to end; None if it was to stay, or was never there."""
    found = None
    for chunk in direct.tenant._journal.chunks(0):
        for record in chunk.records:
            if isinstance(record, Subscribed) and str(record.id) == id_:
                found = record.until
    return found


def _options(about: Any) -> DeliveryOptions:
    return DeliveryOptions() if about is None else msgspec.convert(about, DeliveryOptions)


def _check_outbox(direct: Direct, replay: Replay, said: Said) -> None:
    """What waits is what was to be delivered, once, but for what may be, and without what surely was, acknowledged."""
    connection = direct.tenant._connection
    rows: list[Any] = list(connection.execute("SELECT consumer, subscription || '@' || seq FROM outbox"))
    waiting = [(str(consumer), str(delivery)) for consumer, delivery in rows]
    assert len(waiting) == len(set(waiting)) == direct.tenant._waiting
    asked, settled = set(said.asked.get("ack", ())), set(said.acknowledged.get("ack", ()))
    expected = replay.deliveries
    lost = {one for one in expected - set(waiting) if one[1] not in asked}
    assert not lost, f"deliveries are lost: {lost}"
    invented = set(waiting) - expected
    assert not invented, f"deliveries are invented: {invented}"
    again = {one for one in waiting if one[1] in settled}
    assert not again, f"deliveries were acknowledged and wait: {again}"
    events = {row[0] for row in connection.execute("SELECT seq FROM payloads")}
    plain = {int(row[0]) for row in connection.execute("SELECT seq FROM outbox WHERE digest IS NULL")}
    assert plain <= events, "the event of a delivery is lost"
    stored: dict[str, list[tuple[int, float]]] = {}
    for subscription, seq, score in connection.execute("SELECT subscription, seq, score FROM digests ORDER BY seq"):
        stored.setdefault(str(subscription), []).append((int(seq), float(score)))
    best = {name: sorted(sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:2]) for name, hits in replay.open.items()}
    assert stored == best
    periods = dict(connection.execute("SELECT subscription, count FROM periods"))
    assert periods == {name: len(hits) for name, hits in replay.open.items()}
