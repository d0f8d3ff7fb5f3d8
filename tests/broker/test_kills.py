"""A tenant and a whole service, killed at random and named points: nothing acknowledged is lost, nothing invented or doubled."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from tests.broker.killed_service import Campaign
from tests.broker.kills import START, check, killed_tenant, point_of
from tests.broker.service import memory_folder

LIVES = 3
"""How often a tenant is killed and goes on."""


def kill_a_tenant(folder: Path, number: int) -> int:
    """Kill it and look, several times; return how often it was killed: some loads end before they come to their point."""
    said: list[str] = []
    kills = 0
    for life in range(LIVES):
        lines, killed = killed_tenant(
            folder, 10 * number + life, point_of(number + life), START + timedelta(minutes=10 * life)
        )
        said += lines
        kills += killed
        if (folder / "journal.db").exists():
            check(folder, said)
        else:
            assert not any(line.startswith("!") for line in said)
    return kills


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_a_kill_of_a_tenant_loses_nothing_acknowledged_and_doubles_nothing(number: int) -> None:
    with memory_folder() as folder:
        kill_a_tenant(folder, number)


def kill_a_service(folder: Path, number: int, lives: int) -> int:
    """Kill a service and start it again, several times; look after each. Returns how often it was killed."""
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
        assert kill_a_service(folder, 2, lives=2) == 2


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_hundreds_of_kills_of_a_service() -> None:
    number, left = int(os.environ.get("KILLS_FROM", "1000")), int(os.environ.get("KILLS", "300"))
    while left > 0:
        with memory_folder() as folder:
            left -= kill_a_service(folder, number, lives=min(10, left))
        number += 10


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_hundreds_of_kills_of_a_tenant() -> None:
    """KILLS says how many, KILLS_FROM with which seed to begin: so that a campaign can be made in portions."""
    number, left = int(os.environ.get("KILLS_FROM", "1000")), int(os.environ.get("KILLS", "500"))
    while left > 0:
        with memory_folder() as folder:
            left -= kill_a_tenant(folder, number)
        number += 1
