"""Hypothesis profiles: derandomised, so that a run can be repeated; `--hypothesis-profile=stress` tries many more.

The tests of one index, and of one file, stay in one process, so that kernels are compiled once: side by side in two, both would
compile the same at the same time. With `NUMBA_BOUNDSCHECK=1` (`make bounds`) every kernel is compiled a second time, to find out
whether it stays within its arrays: the first seed of each test does.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from numba.core import config as numba_config

from matchwood.index import workers

_QUIET = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.function_scoped_fixture,
    HealthCheck.differing_executors,
]

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=_QUIET)
settings.register_profile("stress", deadline=None, max_examples=5_000, suppress_health_check=_QUIET)
settings.load_profile("default")


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """By so many threads is every bulk change made, however small."""
    monkeypatch.setattr(workers, "ENOUGH", 1)
    monkeypatch.setenv(workers.VARIABLE, str(request.param))
    return int(request.param)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One process an index, a file, or Spark, whose tests share a session and come first, since they take longest; under bounds
    checking the first seeds."""
    kept, left_out = [], []
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        group = "spark" if _is_spark(item) else str(parameters.get("name", item.nodeid.split("::")[0]))
        item.add_marker(pytest.mark.xdist_group(group))
        (left_out if numba_config.BOUNDSCHECK and parameters.get("seed", 0) else kept).append(item)
    items[:] = sorted(kept, key=lambda item: not _is_spark(item))
    config.hook.pytest_deselected(items=left_out)


def _is_spark(item: pytest.Item) -> bool:
    return "tests/spark/" in item.path.as_posix()
