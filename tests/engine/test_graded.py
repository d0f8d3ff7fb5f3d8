"""Graded predicates and scorings by name through the engine: behind `auto`, by name, live, saved and after a restart."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from matchwood import Engine, ManualClock
from matchwood.errors import QueryError
from matchwood.lang.evaluate import Mode
from matchwood.lang.event import Event
from tests.worlds import World, a_world, seeded_dice

TEXTS = [
    "price <= 300 ^2 DECAY(LINEAR, ORIGIN 100, SCALE 200)",
    "DWITHIN(place, POINT(10 50), 5 km) ^3 DECAY(EXP, SCALE 1 km) AND price < 1000",
    "price > 50 AND (DWITHIN(place, POINT(10 50), 1 km) ^4 DECAY OR TRUE)",
]
EVENT = Event({"price": 150, "place": {"lon": 10.005, "lat": 50.001}})


def found(engine: Engine, world: World, mode: str, k: int | None) -> list[list[tuple[int, float]]]:
    return [
        [
            (match.id, match.score)
            for match in (engine.match(e, mode=mode) if k is None else engine.top_k(e, k, mode=mode))
        ]
        for e in world.events
    ]


@pytest.mark.parametrize("index", ["auto", "scan", "mo-tree"])
def test_an_engine_ranks_as_the_oracle_does(index: str) -> None:
    world = a_world(seeded_dice(5, grades=True), 40, 8)
    engine = Engine(world.schema, index=index)
    for id_, (priority, expression, _) in world.subscriptions.items():
        engine.subscribe(expression, id=id_, priority=priority)
    for mode in Mode:
        for k in (None, 1, 3):
            assert found(engine, world, mode, k) == world.expected(mode=mode, k=k)
            if k is not None:
                batch = engine.top_k_many(world.events, k, mode=mode)
                listed = [
                    [*zip(*(part.tolist() for part in batch.of(e)), strict=True)] for e in range(len(world.events))
                ]
                assert listed == world.expected(mode=mode, k=k)
    for event in world.events:
        for match in engine.match(event):
            assert engine.explain(event, match.id).score == match.score


def test_a_new_subscription_gets_its_live_events_nearest_first() -> None:
    engine = Engine(clock=ManualClock(datetime(2026, 5, 1, tzinfo=UTC)))
    for lon in (10.03, 10.0, 10.01):
        engine.publish({"place": {"lon": lon, "lat": 50}}, until="2026-05-02")
    live = engine.subscribe("DWITHIN(place, POINT(10 50), 5 km) DECAY").live
    assert [match.event for match in live] == [1, 2, 0]
    assert live[0].score == 1.0


def test_priorities_updates_and_moves_keep_the_grade() -> None:
    engine = Engine()
    ids = engine.subscribe_many(TEXTS)
    before = {match.id: match.score for match in engine.match(EVENT)}
    engine.set_priority(ids[0], 10.0)
    engine.move(ids[1], (10.005, 50.001))
    engine.update(ids[2], TEXTS[0])
    after = {match.id: match.score for match in engine.match(EVENT)}
    assert after[0] == 10.0 + before[0]
    assert after[1] == 3.0 + 1.0  # the event is at the centre now
    assert after[2] == before[0]


def test_a_saved_folder_and_a_restart_give_the_same_scores(tmp_path: Path) -> None:
    pytest.importorskip("apsw")
    engine = Engine()
    engine.subscribe_many(TEXTS)
    expected = engine.match(EVENT)
    engine.save(tmp_path / "saved")
    assert Engine.load(tmp_path / "saved").match(EVENT) == expected
    with Engine.open(tmp_path / "durable") as durable:
        for text in TEXTS:
            durable.subscribe(text)
    with Engine.open(tmp_path / "durable") as durable:
        assert durable.match(EVENT) == expected
        assert durable.subscription(0).expression == engine.subscription(0).expression


def test_covering_is_by_the_filter_alone() -> None:
    engine = Engine()
    wide = engine.subscribe("price <= 300 DECAY(LINEAR, ORIGIN 100, SCALE 200) AND DWITHIN(p, POINT(1 1), 9 km) DECAY")
    narrow = "price <= 200 ^3 DECAY(EXP, ORIGIN 5, SCALE 1) AND DWITHIN(p, POINT(1 1), 5 km)"
    assert list(engine.covers(narrow)) == [wide]
    assert list(engine.covered_by(narrow)) == []
    assert list(engine.covered_by("price <= 400 AND p IS NOT NULL DECAY(LINEAR, ORIGIN POINT(1 1), SCALE 1)")) == [wide]


def test_scoring_by_priority_ignores_weights_and_grades() -> None:
    engine = Engine(scoring="priority")
    engine.subscribe_many(TEXTS, priority=[0.5, -1.0, 2.0])
    assert [(match.id, match.score) for match in engine.top_k(EVENT, 3)] == [(2, 2.0), (0, 0.5), (1, -1.0)]
    with pytest.raises(QueryError, match="expected scoring 'sum', 'max', 'priority' or a function"):
        Engine(scoring="bids")


def test_scores_never_exceed_the_bound_of_their_row() -> None:
    world = a_world(seeded_dice(9, grades=True), 60, 1)
    engine = Engine(world.schema, index="scan")
    engine.subscribe_rows(world.rows())
    engine._index.check()  # type: ignore[union-attr]
    extracted = engine._index.store.extract_all()
    assert np.array_equal(extracted.kinds, world.rows().kinds)
    assert np.array_equal(extracted.weight, world.rows().weight)
