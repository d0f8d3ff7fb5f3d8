"""A tenant and a whole service, killed at random and named points: nothing acknowledged is lost, nothing invented or doubled."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from tests.broker.killed_service import Campaign
from tests.broker.kills import START, check, killed_tenant, missed, point_of, shown
from tests.broker.service import memory_folder

LIVES = 3
"""How often a tenant is killed and goes on."""


def kill_a_tenant(folder: Path, number: int) -> Counter[str]:
    """Kill it and look, several times; return how often it was killed at each point (not all loads come to theirs)."""
    said: list[str] = []
    kills: Counter[str] = Counter()
    for life in range(LIVES):
        point = point_of(number + life)
        lines, killed = killed_tenant(folder, 10 * number + life, point, START + timedelta(minutes=10 * life))
        said += lines
        kills[shown(point)] += killed
        if (folder / "journal.db").exists():
            check(folder, said)
        else:
            assert not any(line.startswith("!") for line in said)
    return kills


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_a_kill_of_a_tenant_loses_nothing_acknowledged_and_doubles_nothing(number: int) -> None:
    with memory_folder() as folder:
        kill_a_tenant(folder, number)


def kill_a_service(folder: Path, number: int, lives: int) -> Counter[str]:
    """Kill a service and start it again, several times; look after each. Returns how often it was killed at each point."""
    campaign = Campaign(folder / "data", number)
    try:
        for life in range(lives):
            campaign.live(number + life)
            replay = campaign.check()
        assert len(replay.events) > lives
    finally:
        campaign.end()
    return campaign.kills


def test_kills_of_a_service_under_load_lose_nothing_acknowledged_and_show_nothing_that_is_not_on_disk() -> None:
    with memory_folder() as folder:
        assert kill_a_service(folder, 2, lives=2).total() == 2


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_hundreds_of_kills_of_a_service() -> None:
    number, wanted = int(os.environ.get("KILLS_FROM", "1000")), int(os.environ.get("KILLS", "300"))
    kills: Counter[str] = Counter()
    while kills.total() < wanted:
        with memory_folder() as folder:
            kills += kill_a_service(folder, number, lives=min(10, wanted - kills.total()))
        number += 10
    print(f"\na service was killed {kills.total()} times: {dict(sorted(kills.items()))}")
    assert wanted < 300 or not missed(kills)


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_hundreds_of_kills_of_a_tenant() -> None:
    """KILLS says how many, KILLS_FROM with which seed to begin: so that a campaign can be made in portions."""
    number, wanted = int(os.environ.get("KILLS_FROM", "1000")), int(os.environ.get("KILLS", "500"))
    kills: Counter[str] = Counter()
    while kills.total() < wanted:
        with memory_folder() as folder:
            kills += kill_a_tenant(folder, number)
        number += 1
    print(f"\na tenant was killed {kills.total()} times: {dict(sorted(kills.items()))}")
    assert wanted < 300 or not missed(kills)
