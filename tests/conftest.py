"""Hypothesis profiles: derandomised, so that a run can be repeated; `--hypothesis-profile=stress` tries many more."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_QUIET = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.function_scoped_fixture,
    HealthCheck.differing_executors,
]

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=_QUIET)
settings.register_profile("stress", deadline=None, max_examples=5_000, suppress_health_check=_QUIET)
settings.load_profile("default")
