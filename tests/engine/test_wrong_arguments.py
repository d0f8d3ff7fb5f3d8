"""Arguments of the wrong kind: refused by an error of the library that says what was expected, and nothing has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matchwood import Engine
from matchwood.errors import EventError, MatchwoodError, QueryError, SubscriptionError

CALLS: dict[str, tuple[Callable[[Any], object], type[MatchwoodError], str]] = {
    "an expression for each id, not its arguments": (
        lambda engine: engine.update_many({0: "price < 1"}),
        SubscriptionError,
        r"subscription 0: expected the arguments of update, got 'price < 1' \(str\); write \{\"expression\": ...\}",
    ),
    "a list of changes": (
        lambda engine: engine.update_many([0]),
        SubscriptionError,
        r"expected a mapping from id to what changes, got \[0\] \(list\)",
    ),
    "no places": (
        lambda engine: engine.move_many([2], None),
        SubscriptionError,
        "expected a place for each subscription, got None",
    ),
    "one id to move": (
        lambda engine: engine.move_many(2, [(10.0, 59.0)]),
        SubscriptionError,
        r"expected several ids, got 2 \(int\)",
    ),
    "one id to remove": (
        lambda engine: engine.unsubscribe_many("x"),
        SubscriptionError,
        r"expected several ids, got 'x' \(str\)",
    ),
    "a number of expressions": (
        lambda engine: engine.subscribe_many(5),
        SubscriptionError,
        r"expected several expressions, got one: 5 \(int\); use subscribe",
    ),
    "one metadata for several": (
        lambda engine: engine.subscribe_many(["a > 1"], metadata={"owner": "Ada"}),
        SubscriptionError,
        "metadata: expected one for each of 1 subscriptions, got {'owner': 'Ada'}",
    ),
    "one place for several": (
        lambda engine: engine.subscribe_many(["a > 1"], place={"lon": 1.0, "lat": 2.0}, radius=5),
        SubscriptionError,
        "place: expected one for each of 1 subscriptions",
    ),
    "several events for one": (
        lambda engine: engine.match([{"a": 2}]),
        EventError,
        "expected one event, got .* for several use match_many or top_k_many",
    ),
    "text that is no event": (lambda engine: engine.match("hello"), EventError, "^the event is not JSON"),
    "a clock that cannot be called": (lambda engine: Engine(clock="now"), QueryError, "expected a clock, .* got 'now'"),  # type: ignore[arg-type]
    "limits that are none": (lambda engine: Engine(limits=5), QueryError, r"expected limits as Limits\(...\), got 5"),  # type: ignore[arg-type]
}


@pytest.fixture(params=["plain", "durable"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine without subscriptions."""
    if request.param == "plain":
        yield Engine()
        return
    with Engine.open(tmp_path / "engine") as opened:
        yield opened


@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_a_wrong_argument_says_what_it_expects(engine: Engine, name: str) -> None:
    call, error, message = CALLS[name]
    engine.subscribe_many(["a > 1", "a > 2"])
    engine.subscribe("price < 3", place=(10.0, 59.0), radius=500)
    before = list(engine.subscriptions())
    with pytest.raises(error, match=message):
        call(engine)
    assert list(engine.subscriptions()) == before


def test_places_may_come_from_a_generator() -> None:
    engine = Engine()
    ids = engine.subscribe_many(["TRUE"] * 2, place=[(10.0, 59.0), (11.0, 59.0)], radius=500)
    engine.move_many((int(id_) for id_ in ids), ((20.0 + i, 59.0) for i in range(2)))
    assert [match.id for match in engine.match({"place": (21.0, 59.0)})] == [1]


def test_published_events_that_are_rejected_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine()
    engine.subscribe("a > 1")
    with caplog.at_level(logging.WARNING, "matchwood"):
        found = engine.publish_many([{"a": 2}, {"a": "x"}], until="9999-01-01")
    assert list(found.rejected) == [1]
    assert "1 events of a batch were rejected; the first: event 1" in caplog.text
