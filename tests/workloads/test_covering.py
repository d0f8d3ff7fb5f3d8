from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest

from matchwood.workloads import Covering, WorkloadError


@pytest.mark.parametrize("p", [0.0, 0.05, 0.4])
def test_only_subscriptions_that_exist_are_unsubscribed(p: float) -> None:
    operations = Covering(size=3000, dimensions=6, unsubscribe=p).operations()
    alive: set[int] = set()
    for subscribe, number in zip(operations.subscribe.tolist(), operations.ids.tolist(), strict=True):
        if subscribe:
            assert number not in alive
            alive.add(number)
        else:
            alive.remove(number)
    assert operations.live().tolist() == sorted(alive)
    assert operations.rows.size == operations.subscribe.sum()


def test_subscriptions_are_numbered_in_the_order_they_arrive() -> None:
    operations = Covering(size=1000, unsubscribe=0.3).operations()
    assert np.array_equal(operations.ids[operations.subscribe], np.arange(operations.rows.size))


def test_the_share_of_unsubscribes_is_p() -> None:
    operations = Covering(size=20_000, unsubscribe=0.15).operations()
    assert np.mean(~operations.subscribe) == pytest.approx(0.15, abs=0.01)


def test_victims_are_drawn_evenly_from_all_that_exist() -> None:
    operations = Covering(size=20_000, unsubscribe=0.4).operations()
    alive: list[int] = []
    ranks = []
    for subscribe, number in zip(operations.subscribe.tolist(), operations.ids.tolist(), strict=True):
        if subscribe:
            alive.append(number)
        else:
            place = bisect_left(alive, number)
            ranks.append(place / len(alive))
            del alive[place]
    tenths = np.bincount((np.array(ranks) * 10).astype(int), minlength=10) / len(ranks)
    assert tenths == pytest.approx(0.1, abs=0.02)


def test_edges_are_segments_between_two_random_keys() -> None:
    workload = Covering(size=20_000, dimensions=6, unsubscribe=0.0, bits=10)
    rows = workload.subscriptions()
    assert len(rows.dims) == 3 * 20_000
    assert (rows.lo.min(), rows.hi.max()) == (0, 1023)
    assert np.array_equal(rows.lo, np.floor(rows.lo))
    assert rows.lo.mean() / 1023 == pytest.approx(1 / 3, abs=0.01)
    assert rows.hi.mean() / 1023 == pytest.approx(2 / 3, abs=0.01)


def test_subscriptions_are_those_of_the_operations() -> None:
    workload = Covering(size=500)
    for one, other in zip(workload.subscriptions(), workload.operations().rows, strict=True):
        assert np.array_equal(one, other)


def test_an_odd_number_of_point_dimensions_is_refused() -> None:
    with pytest.raises(WorkloadError, match="even"):
        Covering(dimensions=7)
    with pytest.raises(WorkloadError, match=r"below 0\.5"):
        Covering(unsubscribe=0.5)
