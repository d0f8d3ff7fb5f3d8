"""Fixtures of the planner's tests."""

from __future__ import annotations

import pytest

from tests.planner.scripts import Machine


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Where scripts run whose planner has to compile."""
    return Machine(tmp_path_factory.mktemp("machine")).prepare()
