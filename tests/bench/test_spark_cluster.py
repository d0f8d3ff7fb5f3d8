"""The simulation of a cluster agrees with what can be computed by hand, and fails where it must."""

from __future__ import annotations

import pytest

from bench.spark_cluster import Plan, simulate

CALM = Plan(skew=0.0, heat=0.0, jitter=0.0, failures=0.0, seconds=60.0)


def test_without_chance_a_micro_batch_takes_its_floor_and_its_share_of_the_work() -> None:
    found = simulate(CALM)
    work = CALM.events * CALM.trigger * CALM.visit / (CALM.machines * CALM.cores)
    assert found.median_batch == pytest.approx(CALM.floor + work, rel=0.02)
    assert found.utilisation == pytest.approx(CALM.events * CALM.visit / (CALM.machines * CALM.cores), rel=0.05)
    assert (found.failures, found.repeated_tasks) == (0, 0)


def test_a_cluster_that_is_too_small_falls_behind_and_a_larger_one_does_not() -> None:
    small = simulate(Plan(**{**vars(CALM), "machines": 1}))
    assert small.backlog > 10.0
    assert simulate(CALM).backlog < 2.0


def test_skew_and_failures_cost_latency_and_nothing_is_lost_from_view() -> None:
    plan = Plan(seconds=300.0)
    calm = simulate(Plan(**{**vars(plan), "failures": 0.0, "skew": 0.0, "heat": 0.0}))
    hot = simulate(Plan(**{**vars(plan), "failures": 0.0}))
    failing = simulate(Plan(**{**vars(plan), "failures": 1 / 120}))
    assert calm.median_batch < hot.median_batch
    assert failing.failures > 0
    assert failing.repeated_tasks >= failing.failures
    assert failing.p99_latency > hot.p99_latency
    assert simulate(plan) == simulate(plan)
