"""A call that an exception cuts short, at any line, has happened or has not; and the engine goes on, whichever index it has.

Every public change, on every index, with an exception at a few of the lines that it runs in `make test`, and at all of them in
`make stress`.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import numpy as np
import pytest

from matchwood import Engine, Event
from matchwood.encode.arrays import Rows
from matchwood.encode.objects import RowsBuilder
from matchwood.engine.clock import ManualClock
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import instant_key
from matchwood.structures import INDEXES, Capability
from tests.interrupts import places, raised_at
from tests.worlds import an_event, seeded_dice

START = datetime(2026, 3, 1, tzinfo=UTC)
CHANGEABLE = ["auto", *(name for name in INDEXES if Capability.UPDATES in INDEXES[name].capabilities)]
Change = Callable[[Engine], object]

EXPRESSIONS = [
    "age > 3 ^0.5 AND plan = 'pro'",
    "age BETWEEN 1 AND 7 OR plan IN ('free', 'trial') ^2",
    "vip = TRUE AND age IS NOT NULL",
    "DWITHIN(place, POINT(-74 40.7), 3 km) AND price < 7",
    "price != 3 ^0.25",
    "seen IS NULL AND age <= 2",
]


EVENTS = [an_event(dice) for dice in [seeded_dice(7)] for _ in range(6)]


def an_engine(index: str) -> Engine:
    """Sixty subscriptions, ten of them about to expire, live events, and an index of covers."""
    clock = ManualClock(START)
    engine = Engine(index=index, clock=clock)
    engine.subscribe_many([EXPRESSIONS[i % 6].replace("3", str(1 + i % 9)) for i in range(40)])
    for i in range(10):
        engine.subscribe(EXPRESSIONS[i % 6], id=40 + i, until=START + timedelta(hours=1 + i), priority=i)
        engine.subscribe(
            f"price >= {i}", id=1_000 + i, place=(-74.0, 40.7 + i / 100), radius=900, until=START + timedelta(days=9)
        )
    for i in range(12):
        engine.publish(Event({"age": i, "price": 7 - i, "plan": "pro"}, id=3 * i), until=START + timedelta(hours=2 + i))
    for i in range(3):
        values = {"age": i, "waits": 3 + i, "deep": {"er": "x", "est": [1, 2]}}
        engine.publish(Event(values, id=300 + i), until=START + timedelta(hours=4))
    engine.pause(47)
    engine.update(43, metadata=[1, 2])
    if index == "auto":
        engine.covers("age > 5")
    return engine


def some_rows(engine: Engine) -> Rows:
    """Thirty subscriptions as arrays, of two rows each, some of which expire."""
    builder = RowsBuilder(engine.schema)
    for i in range(30):
        builder.add(5_000 + i, i / 2, normalise(parse(f"age > {i} OR price < {i}"), engine.schema))
    rows = builder.build()
    until = np.where(rows.ids % 3 == 0, instant_key(START + timedelta(days=3)), np.inf)
    return rows.stamped(engine.schema, until)


CHANGES: dict[str, Change] = {
    "subscribe": lambda e: e.subscribe("age > 4 AND brand = 'new'", priority=1.5, until=START + timedelta(days=1)),
    "subscribe by id and place": lambda e: e.subscribe("age > 4", id=77, place=(-74.0, 40.71), radius=500),
    "subscribe many": lambda e: e.subscribe_many([f"age > {i} AND x{i} = {i} OR plan = 'p{i}'" for i in range(70)]),
    "subscribe rows": lambda e: e.subscribe_rows(some_rows(e)),
    "unsubscribe": lambda e: e.unsubscribe(41),
    "unsubscribe many": lambda e: e.unsubscribe_many([3, 44, 40, 1_003, 7]),
    "update": lambda e: e.update(40, "price > 1 AND colour = 'red'", priority=9, until=START + timedelta(days=2)),
    "update to several rows": lambda e: e.update(42, "price > 1 OR age < 3 OR vip = FALSE"),
    "update metadata": lambda e: e.update(43, metadata={"a": 1}, until=None),
    "set priority": lambda e: e.set_priority(44, 11.5),
    "set until": lambda e: e.set_until(45, START + timedelta(days=4)),
    "pause": lambda e: e.pause(46),
    "resume": lambda e: e.resume(47),
    "unsubscribe a paused one": lambda e: e.unsubscribe_many([5, 47]),
    "move many": lambda e: e.move_many([1_005, 1_006], [(-73.5, 41.0), (-73.6, 41.0)]),
    "subscribe with metadata": lambda e: e.subscribe_many(
        ["age > 1", "age > 2"], metadata=["x", None], until="2026-03-09"
    ),
    "subscribe to what waits": lambda e: e.subscribe("waits > 3 AND deep.er = 'x'"),
    "publish many": lambda e: e.publish_many(
        [{"age": i, "new": i} for i in range(5)], until=START + timedelta(hours=3)
    ),
    "replace an event": lambda e: e.publish(
        Event({"age": 5, "other": 3}, id=30), until=START + timedelta(hours=3), replace=True
    ),
    "move": lambda e: e.move(1_004, (-73.5, 41.0)),
    "expire": lambda e: (e._clock.advance(hours=5), len(e)),  # type: ignore[attr-defined]
    "publish": lambda e: e.publish({"age": 4, "price": 2, "size": 3}, until=START + timedelta(hours=3)),
    "publish under an id": lambda e: e.publish(Event({"age": 5}, id=500), until=START + timedelta(hours=3), k=2),
    "retract": lambda e: e.retract(9),
    "match": lambda e: [e.match({"age": 4, "price": 2, "plan": "pro"}) for _ in range(3)],
    "top-k relaxed": lambda e: e.top_k({"age": 4, "price": 2}, 3, mode="any"),
}


def state_of(engine: Engine) -> dict[str, Any]:
    """Everything that a user can see of an engine."""
    return {
        "subscriptions": [engine.subscription(id_) for id_ in engine.ids().tolist()],
        "matches": [engine.match(event) for event in EVENTS],
        "best": [engine.top_k(event, 3) for event in EVENTS],
        "until": {id_: engine._subscriptions.until_of(id_) for id_ in engine.ids().tolist()},
        "waiting": engine._live._waiting.values_of(engine._live.ids().tolist()),
        "live": {id_: engine.live(id_) for id_ in (2, 11, 43) if id_ in engine},
        "events": len(engine._live),
        "next": (engine._subscriptions.next_id, engine._live.next_id),
        "schema": [(a.name, a.type, a.dims) for a in engine.schema],
    }


class Trial:
    """An engine that one change after another is cut short on; a new one whenever the change has happened all the same."""

    def __init__(self, index: str, change: Change) -> None:
        self._index, self._change = index, change
        self._make()
        self.before = state_of(self.engine)
        changed = an_engine(index)
        self.places = places(lambda: change(changed))
        self.after = state_of(changed)

    def _make(self) -> None:
        self.engine = an_engine(self._index)

    def cut_short(self, point: int, error: BaseException, again: int | None = None) -> None:
        """Raise the error at a point of the change, and, if told so, a second one where the engine recovers from it."""
        where = raised_at(lambda: self._change(self.engine), point, error)
        if again is not None:
            where = f"{where}, then {raised_at(lambda: len(self.engine), again, KeyboardInterrupt())}"
        assert is_free(self.engine._lock), f"cut short at {where}: the lock is still held"
        state = state_of(self.engine)
        self.engine._index.check()
        if state == self.before:
            return
        wrong = [name for name in state if state[name] != self.after[name]]
        assert not wrong, f"cut short at {where}: neither as before nor as after: {wrong}"
        self._make()


def is_free(lock: Any) -> bool:
    """Can another thread take the lock?"""
    taken = []

    def take() -> None:
        taken.append(lock.acquire(timeout=5))
        if taken[0]:
            lock.release()

    thread = Thread(target=take)
    thread.start()
    thread.join()
    return bool(taken[0])


def cut_short_at(index: str, what: str, most: int) -> None:
    """Cut the change short at so many places of the source, each at one of the points where it is passed."""
    chooser = random.Random(f"{index} {what}")
    trial = Trial(index, CHANGES[what])
    for i, place in enumerate(chooser.sample(sorted(trial.places), min(most, len(trial.places)))):
        error = KeyboardInterrupt() if i % 2 else MemoryError()
        trial.cut_short(chooser.choice(trial.places[place]), error, again=i if i % 5 == 0 else None)


def offered(index: str) -> list[str]:
    relaxed = index == "auto" or Capability.ANY in INDEXES[index].capabilities
    return [what for what in CHANGES if relaxed or "relaxed" not in what]


@pytest.mark.parametrize(("index", "what"), [(index, what) for index in CHANGEABLE for what in offered(index)])
def test_a_change_that_is_cut_short_has_happened_or_has_not(index: str, what: str) -> None:
    cut_short_at(index, what, 12)


@pytest.mark.parametrize("index", ["auto", "scan", "mo-tree", "be-star-tree"])
def test_ctrl_c_at_any_time_leaves_an_engine_that_goes_on(index: str) -> None:
    """Real signals, at random times, while subscriptions come and go; every one that was acknowledged is there.

    The first round is left alone: it loads the kernels, and Numba itself does not survive an exception while it does that.
    """
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for seconds in (0.0, 2e-3):
            come_and_go(an_engine(index), random.Random(index), seconds)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def come_and_go(engine: Engine, chooser: random.Random, seconds: float) -> None:
    """Change subscriptions 150 times, interrupted somewhere in the first `seconds` of each, and check what is there."""
    known, bulk = set(engine.ids().tolist()), {*range(5_000, 5_030)}
    for step in range(150):
        added, gone, uncertain = [20_000 + 3 * step + i for i in range(3)], chooser.choice(sorted(known)), set[int]()
        rows = some_rows(engine)
        try:
            signal.setitimer(signal.ITIMER_REAL, chooser.random() * seconds)
            for id_ in added:
                engine.subscribe("age > 2 OR price < 3", id=id_)
                known.add(id_)
            engine.unsubscribe(gone)
            known.discard(gone)
            engine.subscribe_rows(rows)
            known |= bulk
            engine.unsubscribe_many(sorted(bulk))
            known -= bulk
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            uncertain = {*added, gone, *bulk}
        there = set(engine.ids().tolist())
        assert known ^ there <= uncertain, "an acknowledged change is lost, or an unasked one is there"
        assert len(there & bulk) in (0, 30), "a part of a bulk change is there"
        engine.unsubscribe_many(sorted(there & bulk))
        known = set(engine.ids().tolist())
        if step % 10 == 0:
            engine._index.check()
    engine._index.check()


@pytest.mark.stress
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("index", "what"), [(index, what) for index in CHANGEABLE for what in offered(index)])
def test_a_change_cut_short_at_every_line_has_happened_or_has_not(index: str, what: str) -> None:
    cut_short_at(index, what, 1_000_000)
