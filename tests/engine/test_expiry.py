"""Expiry names what has expired, all of it and nothing else, whatever was removed or changed meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.engine.expiry import MIN_HEAP, Expiry


class Owner:
    """Ids with their instants, the truth that an `Expiry` follows."""

    def __init__(self) -> None:
        self.until: dict[int, float] = {}
        self.expiry = Expiry(self.until_of)

    def until_of(self, ids: Int64s) -> Float64s:
        return np.array([self.until.get(id_, np.inf) for id_ in ids.tolist()])

    def put(self, new: dict[int, float]) -> None:
        self.until.update(new)
        self.expiry.add(new)

    def expired(self, now: float) -> list[int]:
        return sorted(id_ for id_, until in self.until.items() if until <= now)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_due_is_what_a_look_at_every_id_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    owner, now = Owner(), 0.0
    for _ in range(300):
        now += float(rng.integers(0, 20))
        count = int(rng.choice([1, 1, 1, 50, 2 * MIN_HEAP]))
        ids, until = rng.integers(0, 20_000, count).tolist(), (now + rng.integers(-5, 300, count)).tolist()
        owner.put(dict(zip(ids, until, strict=True)))
        for id_ in rng.choice(list(owner.until), min(20, len(owner.until)), replace=False).tolist():
            del owner.until[id_]
        due = owner.expiry.due(now).tolist()
        assert due == owner.expired(now)
        if rng.random() < 0.7:  # otherwise the removal failed, and they are named again
            for id_ in due:
                del owner.until[id_]
    assert len(owner.expiry) <= 2 * (len(owner.until) + MIN_HEAP)


def test_with_a_limit_a_few_at_a_time_are_due_until_none_is_left() -> None:
    owner = Owner()
    owner.put({id_: float(id_ % 7) for id_ in range(5 * MIN_HEAP)})
    owner.put({10**6 + id_: 3.0 for id_ in range(100)})
    removed = 0
    while len(due := owner.expiry.due(6.0, limit=100)):
        assert len(due) <= 200
        for id_ in due.tolist():
            del owner.until[id_]
        removed += len(due)
    assert removed == 5 * MIN_HEAP + 100
    assert not owner.until
    assert not owner.expiry


def test_an_instant_that_moves_later_postpones_and_one_that_moves_earlier_hastens() -> None:
    owner = Owner()
    owner.put({1: 10.0, 2: 20.0})
    owner.put({1: 30.0, 2: 5.0})
    assert owner.expiry.due(10.0).tolist() == [2]
    assert owner.expiry.due(29.0).tolist() == [2]
    del owner.until[2]
    assert owner.expiry.due(30.0).tolist() == [1]


def test_a_few_are_left_until_they_are_enough() -> None:
    owner = Owner()
    owner.put({id_: float(id_) for id_ in range(10)})
    assert owner.expiry.due(3.0, at_least=5).tolist() == []
    assert owner.expiry.due(4.0, at_least=5).tolist() == [0, 1, 2, 3, 4]
