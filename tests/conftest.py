"""Hypothesis profiles: derandomised, so that a run can be repeated; `--hypothesis-profile=stress` tries many more.

With `NUMBA_BOUNDSCHECK=1` (`make bounds`) every kernel is compiled a second time, to find out whether it stays within its arrays:
the first seed of each test does, and the tests of one index stay in one process, so that its kernels are compiled once.

Planners compile in their thread, and only what they need: another process would compile the same kernels as the tests beside it.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from numba.core import config as numba_config

from matchwood.planner import compiling

os.environ.setdefault(compiling.VARIABLE, "0")

_QUIET = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.function_scoped_fixture,
    HealthCheck.differing_executors,
]

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=_QUIET)
settings.register_profile("stress", deadline=None, max_examples=5_000, suppress_health_check=_QUIET)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under bounds checking: the first seeds, and one process an index."""
    if not numba_config.BOUNDSCHECK:
        return
    kept, left_out = [], []
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        item.add_marker(pytest.mark.xdist_group(str(parameters.get("name", item.nodeid.split("::")[0]))))
        (left_out if parameters.get("seed", 0) else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
