"""Shedding against an obvious model: a list that is sorted to find the worst."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.broker.shedding import Pressure, ShedNotice, ShedQueue
from matchwood.errors import RequestError

PUTS = st.tuples(st.just("put"), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.integers(1, 4))
TAKES = st.tuples(st.just("take"), st.just(0.0), st.integers(0, 5))


@given(st.integers(1, 10), st.lists(PUTS | TAKES, max_size=80))
def test_what_is_kept_and_what_is_announced_are_those_of_the_model(
    capacity: int, steps: list[tuple[str, float, int]]
) -> None:
    queue: ShedQueue[int] = ShedQueue(capacity)
    kept: list[tuple[int, float, int]] = []
    shed: list[tuple[int, float, int]] = []
    offered = taken = lost = 0
    for seq, (verb, score, amount) in enumerate(steps):
        if verb == "put":
            queue.put(seq, score, seq, size=amount)
            kept.append((seq, score, amount))
            offered += 1
            while sum(size for _, _, size in kept) > capacity:
                worst = min(kept, key=lambda one: (one[1], -one[0]))
                kept.remove(worst)
                shed.append(worst)
        else:
            notice, items = queue.take(amount)
            assert items == [one[0] for one in kept[:amount]]
            expected = None
            if shed:
                seqs = [one[0] for one in shed]
                expected = ShedNotice(len(shed), max(one[1] for one in shed), min(seqs), max(seqs))
            assert notice == expected
            taken += len(items)
            lost += len(shed)
            kept, shed = kept[amount:], []
        assert len(queue) == len(kept)
        assert queue.used == sum(size for _, _, size in kept) <= capacity
        assert offered == taken + len(kept) + lost + len(shed)
        assert queue.shed == lost + len(shed)


def test_a_long_life_does_not_grow_the_heap() -> None:
    queue: ShedQueue[int] = ShedQueue(10)
    for seq in range(10_000):
        queue.put(seq, float(seq % 7), seq)
        queue.take(1)
    assert len(queue._worst) < 100


def test_a_match_that_is_larger_than_the_queue_is_shed_and_announced() -> None:
    queue: ShedQueue[str] = ShedQueue(10)
    queue.put(1, 5.0, "large", size=11)
    assert queue.take(1) == (ShedNotice(1, 5.0, 1, 1), [])
    assert queue.take(1) == (None, [])


@given(st.integers(0, 50), st.integers(1, 50), st.integers(0, 200), st.integers(0, 30))
def test_pressure_takes_all_below_none_above_and_never_more_when_more_waits(
    low: int, width: int, waiting: int, count: int
) -> None:
    pressure = Pressure(low=low, high=low + width)
    room = pressure.room(waiting, count)
    assert 0 <= pressure.room(waiting + 1, count) <= room <= count
    if waiting <= low:
        assert room == count
    if waiting >= low + width:
        assert room == 0
    elif count:
        assert room > 0  # the best match goes through as long as there is room at all


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(RequestError, match="capacity of at least 1"):
        ShedQueue(0)
    with pytest.raises(RequestError, match="0 <= low < high"):
        Pressure(low=5, high=5)
