from __future__ import annotations

import numpy as np
import pytest

from matchwood.workloads import BEGen, WorkloadError, measure


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
@pytest.mark.parametrize("probability", [0.001, 0.01, 0.09])
def test_the_match_probability_is_what_was_asked_for(distribution: str, probability: float) -> None:
    workload = BEGen.preset(distribution, size=20_000, match_probability=probability)
    found = workload.verify(events=500, tolerance=0.06)
    assert found.probability == pytest.approx(probability, rel=0.06)


def test_the_match_probability_holds_without_clusters_and_with_sizes_that_vary() -> None:
    BEGen(size=20_000, clusters=None, match_probability=0.01).verify(events=500, tolerance=0.06)
    BEGen(size=20_000, size_spread=3, match_probability=0.01).verify(events=500, tolerance=0.06)


def test_a_workload_that_matches_by_accident_fails_its_verification() -> None:
    crowded = BEGen(
        size=2000,
        dimensions=4,
        cardinality=10,
        clusters=None,
        subscription_size=1,
        event_size=4,
        match_probability=0.001,
    )
    with pytest.raises(WorkloadError, match=r"expected a match probability of 0\.1000%"):
        crowded.verify(events=100)


def test_a_match_probability_out_of_reach_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"at most 0\.52"):
        BEGen(match_probability=0.9)


def test_matches_are_spread_over_the_events() -> None:
    workload = BEGen(size=20_000, match_probability=0.01)
    found = workload.selectivity(events=400)
    assert found.events_with_matches > 0.97
    assert len(np.unique(found.matches)) > 50
    assert found.matches.max() < 3 * found.matches.mean()


def test_subscriptions_are_not_copies_of_one_another() -> None:
    rows = BEGen(size=5000, match_probability=0.09).subscriptions()
    boxes = np.concatenate([part.reshape(5000, 8) for part in (rows.dims, rows.lo, rows.hi)], axis=1)
    assert len(np.unique(boxes, axis=0)) == 5000


def test_events_of_one_target_differ_in_attributes_and_values() -> None:
    workload = BEGen(size=10, match_probability=0.3)
    assert workload.targets == 1
    events = workload.events(200)
    assert len(np.unique(events.dims.reshape(200, 15), axis=0)) > 150
    assert len(np.unique(events.lo.reshape(200, 15), axis=0)) == 200


def test_keys_are_integers_of_the_domain_and_ranges_hold_a_handful() -> None:
    rows = BEGen(size=3000, cardinality=2500).subscriptions()
    for keys in (rows.lo, rows.hi):
        assert np.array_equal(keys, np.floor(keys))
        assert keys.min() >= 0
        assert keys.max() <= 2499
    widths = rows.hi - rows.lo + 1
    assert widths.max() == 8
    assert 4 < widths.mean() < 6


def test_values_lie_within_the_clusters_of_their_dimension() -> None:
    workload = BEGen(size=10, clusters=3, cluster_size=50)
    events, centres = workload.events(500), workload.structure().centres
    assert centres.shape == (400, 3)
    distance = np.abs(centres[events.dims] - events.lo[:, None]).min(axis=1)
    assert distance.max() <= 50


def test_uniform_attributes_are_evenly_popular_and_zipf_ones_are_not() -> None:
    shares = {}
    for law in ("uniform", "zipf"):
        rows = BEGen.preset(law, size=20_000).subscriptions()
        shares[law] = np.sort(np.bincount(rows.dims, minlength=400))[::-1] / 20_000
    assert shares["uniform"].max() < 1.5 * shares["uniform"].min()
    assert shares["zipf"][0] > 0.6
    # Ranks 50 and 100 are rare enough for drawing without replacement not to matter: their shares are as 2 to 1.
    assert shares["zipf"][40:60].mean() / shares["zipf"][85:115].mean() == pytest.approx(2, rel=0.3)


def test_rare_attributes_weigh_more_and_no_weight_exceeds_its_inverse_frequency() -> None:
    rows = BEGen.preset("zipf", size=5000).subscriptions()
    uses = np.bincount(rows.dims, minlength=400)
    inverse = uses[uses > 0].min() / uses[rows.dims]
    assert (rows.weight <= inverse).all()
    assert np.mean(rows.weight / inverse) == pytest.approx(0.8, abs=0.005)
    assert np.std(rows.weight / inverse) == pytest.approx(0.05, abs=0.005)


def test_weights_as_printed_are_the_inverse_frequencies() -> None:
    rows = BEGen(size=5000, weights="printed").subscriptions()
    uses = np.bincount(rows.dims, minlength=400)
    assert np.mean(rows.weight == uses.min() / uses[rows.dims]) > 0.999


def test_sizes_vary_around_their_averages() -> None:
    workload = BEGen(size=5000, size_spread=3)
    subscriptions, events = np.diff(workload.subscriptions().offsets), np.diff(workload.events(2000).offsets)
    assert (subscriptions.min(), subscriptions.max()) == (5, 11)
    assert (events.min(), events.max()) == (12, 18)
    assert subscriptions.mean() == pytest.approx(8, abs=0.1)
    assert events.mean() == pytest.approx(15, abs=0.15)


@pytest.mark.parametrize(
    "wrong",
    [
        {"subscription_size": 16},
        {"size_spread": 8},
        {"dimensions": 14},
        {"range_size": (3, 2)},
        {"match_probability": 0},
    ],
    ids=str,
)
def test_parameters_that_contradict_each_other_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WorkloadError):
        BEGen(**wrong)  # type: ignore[arg-type]


def test_a_sweep_walks_one_column_of_table_iii() -> None:
    steps = list(BEGen.sweep("clusters", distribution="zipf"))
    assert [step.clusters for step in steps] == [2, 4, 10, 26, None]
    assert {(step.size, step.distribution) for step in steps} == {(100_000, "zipf")}
    with pytest.raises(WorkloadError, match="no column 'colour'"):
        next(BEGen.sweep("colour"))


def test_verification_reads_the_rows_it_is_given() -> None:
    workload = BEGen(size=4000, match_probability=0.05)
    rows = workload.subscriptions()
    assert np.array_equal(
        workload.selectivity(events=50, rows=rows).matches, measure(rows, workload.events(50)).matches
    )
    with pytest.raises(WorkloadError):
        workload.verify(rows=rows._replace(lo=rows.lo + 1e6, hi=rows.hi + 1e6), events=50)
