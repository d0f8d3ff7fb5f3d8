"""Several threads on one engine: readers see whole states only, and go on while a writer reads what it is given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from matchwood import Engine, Event
from matchwood.errors import MatchwoodError

SECONDS = 0.6
UNTIL = datetime.now(UTC) + timedelta(days=1)


def together(*jobs: Callable[[], None]) -> None:
    """Repeat each job in a thread of its own for a while; raise the first exception."""
    errors: list[BaseException] = []
    end = time.monotonic() + SECONDS

    def repeated(job: Callable[[], None]) -> None:
        try:
            while time.monotonic() < end and not errors:
                job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeated, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a call hangs"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("index", ["auto", "scan", "mo-tree", "be-star-tree", "vcr", "ranked"])
def test_readers_see_all_of_a_change_or_nothing_of_it(index: str) -> None:
    engine = Engine(index=index)
    engine.subscribe_many([f"a BETWEEN {i} AND {i + 2} AND s = 'w{i % 5}'" for i in range(500)])
    stays = int(engine.subscribe("a > 100 AND t = 'stays'", id=1_000, priority=5))
    event = {"a": 200, "t": "stays", "unasked": "x"}
    pair = [2_000, 2_001]  # come, go and change together
    seen: set[tuple[int, ...]] = set()
    written = 0

    def write() -> None:
        nonlocal written
        engine.subscribe_many(["t = 'stays'"] * 2, ids=pair, priority=1.0)
        engine.update_many({id_: {"priority": 2.0} for id_ in pair})
        engine.set_until(pair[0], UNTIL)
        engine.unsubscribe_many(pair)
        number = engine.subscribe(f"t = 'stays' AND new{written % 7} = 'v{written}'")
        engine.pause(number)
        engine.unsubscribe(number)
        with pytest.raises(MatchwoodError):
            engine.subscribe_many(["t = 'stays'", f"other{written} = 1 AND a = 'text'"])
        written += 1

    def publish() -> None:
        engine.publish(Event({"a": 1, f"later{written % 3}": 1}, id=7), until=UNTIL, replace=True)

    def read() -> None:
        for found in (engine.match(event), engine.top_k(event, 3)):
            seen.add(tuple(match.id for match in found))
            scores = {match.score for match in found if match.id in pair}
            assert scores in (set(), {2.0}, {3.0})
        batch = engine.match_many([event, {"a": "bad"}, event])
        assert [*batch.rejected] == [1]
        assert batch.of(0)[0].tolist()[0] == stays

    together(read, read, write, publish)
    assert written > 0
    assert seen <= {(stays,), (stays, *pair)}
    engine._index.check()


def test_a_writer_that_is_reading_does_not_keep_others_waiting() -> None:
    engine = Engine()
    engine.subscribe("a > 1")
    inside, go_on = threading.Event(), threading.Event()

    def expressions() -> Iterator[str]:
        yield "a > 2 AND b = 'new'"
        inside.set()
        assert go_on.wait(60)
        yield f"a > {len(engine.match({'a': 2}))}"  # it may use the engine itself

    thread = threading.Thread(target=lambda: engine.subscribe_many(expressions()))
    thread.start()
    assert inside.wait(60)
    assert engine.match({"a": 5}) == [(0, 1.0)]
    assert engine.subscribe("a > 3") == 1
    go_on.set()
    thread.join(60)
    assert engine.ids().tolist() == [0, 1, 2, 3]


def test_readers_go_on_while_a_large_expression_is_normalised() -> None:
    engine = Engine()
    engine.subscribe("a > 1")
    waited: list[float] = []

    def progress(_: int) -> None:
        """Called by the writer, in the middle of its reading."""
        found: list[object] = []
        reader = threading.Thread(target=lambda: found.append(engine.match({"a": 5})))
        start = time.monotonic()
        reader.start()
        reader.join(60)
        waited.append(time.monotonic() - start)
        assert found == [[(0, 1.0)]]

    engine.subscribe_many([f"b = {i}" for i in range(2_100)], progress=progress)
    assert len(waited) == 2
    assert max(waited) < 30
