"""The soak in short, and that it would notice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker import soak

STEADY: dict[str, Any] = {
    "rss": 200 << 20,
    "handles": 50,
    "threads": 10,
    "journal": 4 << 20,
    "wal": 16 << 20,
    "waiting": 100,
}


def samples(**slopes: float) -> list[dict[str, Any]]:
    return [{name: value + slopes.get(name, 0) * n for name, value in STEADY.items()} for n in range(360)]


def test_what_stays_as_it_is_passes() -> None:
    assert soak.judge(samples()) == []


@pytest.mark.parametrize(
    ("name", "slope"),
    [("rss", 100_000), ("handles", 0.05), ("threads", 0.05), ("journal", 50_000), ("waiting", 5), ("wal", 1 << 20)],
)
def test_what_grows_is_noticed(name: str, slope: float) -> None:
    [problem] = soak.judge(samples(**{name: slope}))
    assert ("the write-ahead log" if name == "wal" else name) in problem


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_a_broker_at_load_for_four_minutes_stays_as_it_is() -> None:
    """For an hour: `make soak`."""
    assert soak.run(240.0, 100.0, retention=20.0) == []
