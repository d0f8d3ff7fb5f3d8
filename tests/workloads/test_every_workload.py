"""What holds for every workload: determinism, independent streams, and the invariants of the arrays."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import INTERVAL, JOINED, Events, Rows
from matchwood.workloads import VCR, BEGen, City, Covering, Ranked, Workload, WorkloadError

SMALL: dict[str, Workload] = {
    "begen-uniform": BEGen(size=2000),
    "begen-zipf": BEGen(size=2000, distribution="zipf", size_spread=3),
    "begen-unclustered": BEGen(size=2000, clusters=None, cardinality=2500),
    "ranked": Ranked(size=2000),
    "ranked-exact": Ranked(size=2000, dimensions=4, matching="exact"),
    "covering": Covering(size=2000, dimensions=6, unsubscribe=0.4),
    "vcr-uniform": VCR.preset("moderate-uniform", size=2000),
    "vcr-skewed": VCR.preset("large-90-1", size=2000),
    "city": City(size=2000, source="synthetic"),
    "city-mixed": City.preset("mixed", size=2000, source="synthetic"),
}


@pytest.fixture(params=SMALL.values(), ids=SMALL.keys())
def workload(request: pytest.FixtureRequest) -> Workload:
    found: Workload = request.param
    return found


def same(one: Rows | Events, other: Rows | Events) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def resized(workload: Workload, size: int) -> Workload:
    return type(workload)(**{**vars(workload), "size": size})


def reseeded(workload: Workload, seed: int) -> Workload:
    return type(workload)(**{**vars(workload), "seed": seed})


def test_the_same_parameters_give_the_same_arrays(workload: Workload) -> None:
    again = reseeded(workload, workload.seed)
    assert same(workload.subscriptions(), again.subscriptions())
    assert same(workload.events(50), again.events(50))


def test_another_seed_gives_other_subscriptions_and_other_events(workload: Workload) -> None:
    other = reseeded(workload, workload.seed + 1)
    assert not same(workload.subscriptions(), other.subscriptions())
    assert not same(workload.events(50), other.events(50))


def test_events_do_not_change_with_the_number_of_subscriptions(workload: Workload) -> None:
    assert same(workload.events(50), resized(workload, 700).events(50))


def test_every_batch_holds_events_of_its_own(workload: Workload) -> None:
    assert not same(workload.events(50), workload.events(50, batch=1))


def test_rows_are_well_formed(workload: Workload) -> None:
    rows = workload.subscriptions()
    assert np.array_equal(rows.ids, np.arange(rows.size))
    assert rows.offsets[0] == 0
    assert rows.offsets[-1] == len(rows.dims) == len(rows.kinds) == len(rows.lo) == len(rows.hi) == len(rows.weight)
    assert (np.diff(rows.offsets) > 0).all()
    assert (rows.lo <= rows.hi).all()
    assert np.isfinite(rows.lo).all()
    assert np.isfinite(rows.hi).all()
    assert np.isfinite(rows.weight).all()
    assert (rows.weight >= 0).all()
    assert (rows.weight[rows.kinds == JOINED] == 0).all()
    assert set(np.unique(rows.kinds)) <= {INTERVAL, JOINED}
    assert rows.kinds[rows.offsets[:-1]].max() == INTERVAL
    assert rows.dims.max() < workload.schema().dimensions
    assert_ascending(rows.offsets, rows.dims)


def test_events_are_well_formed(workload: Workload) -> None:
    events = workload.events(300)
    assert events.size == 300
    assert events.offsets[-1] == len(events.dims) == len(events.lo) == len(events.hi) == len(events.weight)
    assert np.array_equal(events.lo, events.hi)
    assert np.isfinite(events.lo).all()
    assert (events.weight == 1).all()
    assert events.dims.max() < workload.schema().dimensions
    assert_ascending(events.offsets, events.dims)


def assert_ascending(offsets: np.ndarray, dims: np.ndarray) -> None:
    """Within a row every dimension is greater than the one before it, so it stands at most once."""
    rises = np.diff(dims.astype(np.int64)) > 0
    rises[offsets[1:-1] - 1] = True
    assert rises.all()


def test_no_events_and_no_subscriptions_are_empty_arrays(workload: Workload) -> None:
    assert workload.events(0).size == 0
    if not isinstance(workload, BEGen):
        assert resized(workload, 0).subscriptions().size == 0


@pytest.mark.parametrize("kind", [BEGen, Ranked, Covering, VCR, City])
def test_every_preset_can_be_made_and_tells_its_parameters(kind: type[Workload]) -> None:
    for name in kind.PRESETS:
        parameters = kind.preset(name, seed=9).parameters()
        assert parameters["workload"] == kind.__name__
        assert parameters["seed"] == 9


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(WorkloadError, match=r"no preset 'huge'; it has table-1"):
        Ranked.preset("huge")
