"""Samples: whole subscriptions, evenly drawn, and events that rows wait for."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import ABSENT, make_events, make_rows
from matchwood.planner.sample import generated_events, sample_rows, sample_store
from matchwood.planner.statistics import Statistics
from matchwood.structures import Scan
from matchwood.workloads import BEGen, City
from tests.worlds import a_world, seeded_dice


def test_a_sample_keeps_subscriptions_whole() -> None:
    rows = a_world(seeded_dice(3), 300, 0).rows()
    scan = Scan.build(rows)
    of_each = dict(zip(*np.unique(rows.ids, return_counts=True), strict=True))
    for sample in (sample_store(scan.store, 60), sample_rows(rows, 60)):
        ids, counts = np.unique(sample.ids, return_counts=True)
        assert 10 < len(ids) < 200
        assert all(of_each[id_] == count for id_, count in zip(ids, counts, strict=True))


def test_a_sample_of_more_than_there_is_is_everything() -> None:
    rows = a_world(seeded_dice(4), 40, 0).rows()
    scan = Scan.build(rows)
    assert sample_rows(rows, 10_000).size == rows.size == sample_store(scan.store, 10_000).size
    assert sample_store(Scan().store, 10).size == 0


def test_sampled_rows_are_the_rows_themselves() -> None:
    rows = City.preset("quick", size=500).subscriptions()
    sample = sample_rows(rows, 100)
    for r in range(sample.size):
        here = sample.take(r, r + 1)
        there = rows.take(int(sample.ids[r]), int(sample.ids[r]) + 1)
        assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


def test_each_made_up_event_is_what_some_row_waits_for() -> None:
    rows = BEGen(size=400).subscriptions()
    events = generated_events(rows, 50)
    found = Scan.build(rows).match(events)
    assert events.size == 50
    assert (np.diff(found.offsets) >= 1).all()


def test_made_up_events_name_attributes_as_often_as_rows_do() -> None:
    rows = make_rows(
        np.arange(1000), np.zeros(1000), np.arange(1001), [0] * 900 + [1] * 100, [0] * 1000, *[[1.0] * 1000] * 3
    )
    events = generated_events(rows, 2000)
    shares = np.bincount(events.dims, minlength=2) / 2000
    assert shares[0] > 0.95
    assert 0.15 < shares[1] < 0.24  # 0.1 by itself, 0.1 because the row asks for it


def test_open_and_absent_predicates_make_events_too() -> None:
    rows = make_rows(
        [0, 1, 2],
        [0.0] * 3,
        [0, 1, 2, 3],
        [0, 0, 1],
        [0, 0, ABSENT],
        [-np.inf, 5, np.nan],
        [np.inf, np.inf, np.nan],
        [1] * 3,
    )
    events = generated_events(rows, 30)
    assert np.isfinite(events.lo).all()
    assert set(events.dims) == {0}
    assert generated_events(make_rows([], [], [0], [], [], [], [], []), 3).size == 3


def test_statistics_say_what_the_rows_are() -> None:
    rows = make_rows(
        [0, 1, 2, 3],
        [0.0] * 4,
        [0, 2, 4, 5, 6],
        [7, 9, 7, 9, 7, 9],
        [0, 0, 0, 1, 0, 3],
        [0, 0, 0, 5, 10, np.nan],
        [1, 1, 1, 6, 11, np.nan],
        [1.0] * 6,
    )
    found = Statistics.of(rows, make_events([0, 2, 3], [7, 9, 7], [0.0] * 3, [0.0] * 3))
    assert found.predicates == 5 / 4
    assert found.popular == ((7, 0.75), (9, 0.25))
    assert found.sets == 1 / 5
    assert found.absent == 1 / 5
    assert found.values == 1.5
    assert not found.weighted
    assert "d7 in 75%" in found.line(lambda dim: f"d{dim}")
    assert 0 < found.width < 1
