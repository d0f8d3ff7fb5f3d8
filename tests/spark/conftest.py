"""One session for all tests of the pipeline; they are skipped, with the reason, where Spark cannot run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed; `pip install matchwood[spark]`")

from matchwood.spark.lake import Lake
from matchwood.spark.session import JAVA_OPTIONS, java_problem, local_session

FAST_COMPILER = "-XX:TieredStopAtLevel=1"
"""The JVM compiles with its first compiler only: jobs of a few records take half the processor time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder in one test process (`--dist loadgroup`): one session, not one a process."""
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    problem = java_problem()
    if problem:
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = local_session(
            partitions=2,
            memory="1g",
            options={
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.local.dir": str(folder / "local"),
                "spark.sql.adaptive.enabled": "true",
                "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {FAST_COMPILER}",
                "spark.default.parallelism": "2",
            },
        )
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")
