"""Whose turn it is among the lines of webhooks."""

from __future__ import annotations

import random

from matchwood.broker.lines import Line, Lines


def line(consumer: str, subscription: str = "s", number: int = 0) -> Line:
    return Line(f"webhook:{consumer}", subscription, number)


def test_a_line_is_taken_once_until_it_is_put_back() -> None:
    lines = Lines(each=10)
    lines.add([(line("a"), 0), (line("a"), 0)])
    assert lines.take(0, 10) == [line("a")]
    lines.add([(line("a"), 0)])
    assert lines.take(0, 10) == []
    lines.put_back(line("a"))
    assert lines.take(0, 10) == [line("a")]
    lines.end(line("a"))
    assert len(lines) == 0
    lines.add([(line("a"), 0)])
    assert lines.take(0, 10) == [line("a")]


def test_a_line_with_a_time_waits_for_it() -> None:
    lines = Lines(each=10)
    lines.add([(line("a", "late"), 50), (line("a", "now"), 0)])
    assert lines.take(0, 10) == [line("a", "now")]
    assert lines.next_time() == 50
    lines.put_back(line("a", "now"), 20)
    assert lines.next_time() == 20
    assert lines.take(19, 10) == []
    assert lines.take(60, 10) == [line("a", "now"), line("a", "late")]
    assert lines.next_time() is None


def test_hooks_take_turns_and_none_takes_more_than_its_share() -> None:
    lines = Lines(each=2)
    lines.add([(line("busy", f"s{n}"), 0) for n in range(100)] + [(line("quiet"), 0)])
    assert [one.consumer for one in lines.take(0, 10)] == ["webhook:busy", "webhook:quiet", "webhook:busy"]
    lines.end(line("busy", "s0"))
    assert lines.take(0, 10) == [line("busy", "s2")]


def test_a_paused_hook_is_passed_over() -> None:
    lines = Lines(each=5)
    lines.add([(line("down"), 0), (line("up"), 0)])
    lines.pause("webhook:down", 100)
    assert lines.take(0, 5) == [line("up")]
    assert lines.next_time() == 100
    assert lines.take(100, 5) == [line("down")]
    lines.put_back(line("down"))
    lines.pause("webhook:down", 200)
    lines.resume("webhook:down")
    assert lines.take(101, 5) == [line("down")]


def test_nothing_is_lost_in_random_use() -> None:
    rng = random.Random(7)
    lines, work = Lines(each=3), {line(c, s): rng.randrange(1, 6) for c in "abc" for s in "uvwxyz"}
    lines.add([(one, rng.choice([0, 40])) for one in work])
    left, taken, now = dict(work), set(), 0
    while left:
        now += 1
        new = lines.take(now, 5 - len(taken))
        assert not taken & set(new)
        taken |= set(new)
        assert max(sum(one.consumer == f"webhook:{c}" for one in taken) for c in "abc") <= 3
        if rng.random() < 0.1:
            lines.pause(f"webhook:{rng.choice('abc')}", now + 5)
        for one in sorted(taken):
            if rng.random() < 0.5:
                taken.discard(one)
                left[one] -= 1
                if left[one]:
                    lines.put_back(one, rng.choice([0, now + 3]))
                else:
                    del left[one]
                    lines.end(one)
        assert now < 10_000
    assert len(lines) == 0
