"""When to try again: the schedule, `Retry-After`, and circuits that open and close."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.broker.retries import DELAYS, LONGEST, Breakers, Schedule, seconds_of


def test_retries_are_ten_and_take_more_than_a_day_in_all() -> None:
    schedule = Schedule(jitter=0.0)
    delays = [schedule.delay(failures) for failures in range(1, 11)]
    assert delays == list(DELAYS) == sorted(DELAYS)
    assert 24 * 3600 < sum(DELAYS) < 48 * 3600
    assert schedule.delay(11) is None


def test_jitter_spreads_a_delay_by_a_fifth_to_both_sides() -> None:
    schedule = Schedule(random=random.Random(1).random)
    delays = [schedule.delay(5) for _ in range(500)]
    assert all(delay is not None and 0.8 * 1800 <= delay <= 1.2 * 1800 for delay in delays)
    assert min(delays) < 0.85 * 1800 < 1.15 * 1800 < max(delays)  # type: ignore[type-var]


def test_a_receiver_can_ask_for_later_but_not_for_earlier_or_never() -> None:
    schedule = Schedule(jitter=0.0)
    assert schedule.delay(1, retry_after=60.0) == 60.0
    assert schedule.delay(2, retry_after=1.0) == 30.0
    assert schedule.delay(1, retry_after=1e9) == LONGEST
    assert schedule.delay(11, retry_after=60.0) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        (" 120 ", 120.0),
        ("99999999999999999999", LONGEST),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("Thu, 01 Jan 1970 00:20:00 GMT", 200.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:20:00", 200.0),
        ("Thu, 99 Jan 1970", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float | None) -> None:
    assert seconds_of(text, now=1000.0) == seconds


@given(st.text())
def test_no_retry_after_raises(text: str) -> None:
    found = seconds_of(text, now=0.0)
    assert found is None or found >= 0


def test_a_circuit_opens_after_failures_in_a_row_and_lets_one_probe_through() -> None:
    breakers = Breakers(threshold=3, pause=10.0)
    for _ in range(2):
        breakers.failed("a", 0.0)
    assert breakers.wait("a", 0.0) == 0.0
    breakers.failed("a", 1.0)
    assert breakers.wait("a", 1.0) == 10.0
    assert breakers.wait("b", 1.0) == 0.0
    assert breakers.open() == 1
    assert breakers.wait("a", 11.0) == 0.0  # the probe
    assert breakers.wait("a", 11.0) > 0.0  # the others go on waiting
    breakers.succeeded("a")
    assert breakers.wait("a", 11.0) == 0.0
    assert len(breakers) == breakers.open() == 0


def test_the_pause_doubles_with_each_failed_probe_up_to_a_limit() -> None:
    breakers = Breakers(threshold=1, pause=10.0, longest=60.0)
    now, pauses = 0.0, []
    breakers.failed("a", now)
    for _ in range(5):
        pauses.append(breakers.wait("a", now))
        now += pauses[-1]
        assert breakers.wait("a", now) == 0.0
        breakers.failed("a", now)
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0]


def test_a_success_between_failures_starts_the_count_again() -> None:
    breakers = Breakers(threshold=2)
    for _ in range(5):
        breakers.failed("a", 0.0)
        breakers.succeeded("a")
    assert breakers.wait("a", 0.0) == 0.0


def test_a_cancelled_probe_leaves_the_next_one_to_another() -> None:
    breakers = Breakers(threshold=1, pause=10.0)
    breakers.failed("a", 0.0)
    assert breakers.wait("a", 10.0) == 0.0
    breakers.abandoned("a")
    breakers.abandoned("unknown")
    assert breakers.wait("a", 10.0) == 0.0


def test_late_failures_of_attempts_that_began_before_do_not_extend_the_pause() -> None:
    breakers = Breakers(threshold=1, pause=10.0)
    breakers.failed("a", 0.0)
    breakers.failed("a", 5.0)
    assert breakers.wait("a", 10.0) == 0.0


def test_circuits_are_bounded_in_number() -> None:
    breakers = Breakers(threshold=1, hosts=3)
    for host in "abcd":
        breakers.failed(host, 0.0)
    assert len(breakers) == 3
    assert breakers.wait("a", 0.0) == 0.0  # forgotten
    assert breakers.wait("d", 0.0) > 0.0
