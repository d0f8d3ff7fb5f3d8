"""Digests against an obvious model: keep all matches with their times, and sort."""

from __future__ import annotations

from itertools import pairwise

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.broker import stored_digests
from matchwood.broker.digest import ClosedDigest, DigestHit, Digests
from matchwood.errors import RequestError

NAMES = st.sampled_from(["ann", "bob", "cat"])
OPTIONS = {"ann": (1, 10.0), "bob": (3, 7.0), "cat": (2, 25.0)}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES, st.sampled_from([0.0, 0.5, 1.0, 2.5, -1.0])),
        st.tuples(st.just("wait"), st.just(""), st.sampled_from([0.0, 1.0, 3.0, 7.0, 30.0])),
        st.tuples(st.just("remove"), NAMES, st.just(0.0)),
        st.tuples(st.just("restart"), st.just(""), st.just(0.0)),
    ),
    max_size=60,
)


class Model:
    """All matches of each subscription in a list; a period is cut off when its time has come."""

    def __init__(self) -> None:
        self.matches: dict[str, list[tuple[float, int, float]]] = {}

    def add(self, name: str, seq: int, score: float, now: float) -> None:
        self.matches.setdefault(name, []).append((now, seq, score))

    def close(self, now: float) -> list[ClosedDigest]:
        closed = []
        for name, matches in list(self.matches.items()):
            most, period = OPTIONS[name]
            opened = matches[0][0]
            if opened + period <= now:
                best = sorted(matches, key=lambda match: (-match[2], match[1]))[:most]
                hits = [DigestHit(seq, score) for _, seq, score in best]
                closed.append(ClosedDigest(name, hits, len(matches) - len(hits), opened, opened + period))
                del self.matches[name]
        return sorted(closed, key=lambda one: (one.closed, one.subscription))


def memory_tables() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(stored_digests.TABLES)
    return connection


def restored(tables: apsw.Connection) -> Digests:
    """What a broker has after a restart."""
    digests = Digests()
    for name, opened, count, hits in stored_digests.stored(tables):
        most, period = OPTIONS[name]
        assert len(hits) == min(count, most)
        digests.restore(name, hits, count=count, max=most, period=period, opened=opened / 1e6)
    return digests


@given(STEPS)
def test_digests_are_those_of_the_model(steps: list[tuple[str, str, float]]) -> None:
    digests, model, now, seq = Digests(), Model(), 0.0, 0
    tables = memory_tables()
    delivered: dict[str, list[float]] = {}
    for verb, name, value in steps:
        if verb == "add":
            most, period = OPTIONS[name]
            left_out = digests.add(name, seq, value, max=most, period=period, now=now)
            stored_digests.add(tables, name, DigestHit(seq, value), int(now * 1e6), left_out)
            model.add(name, seq, value, now)
            seq += 1
        elif verb == "remove":
            digests.remove(name)
            stored_digests.forget(tables, name)
            model.matches.pop(name, None)
        elif verb == "restart":
            digests = restored(tables)
        now += value if verb == "wait" else 0.0
        closed = digests.close(now)
        assert closed == model.close(now)
        assert set(digests) == set(model.matches)
        assert len(digests) == len(model.matches)
        ends = [matches[0][0] + OPTIONS[name][1] for name, matches in model.matches.items()]
        assert digests.next_end() == min(ends, default=None)
        for one in closed:
            stored_digests.forget(tables, one.subscription)
            delivered.setdefault(one.subscription, []).append(one.closed)
            assert len(one.hits) <= OPTIONS[one.subscription][0]
    for name, times in delivered.items():
        assert all(later - earlier >= OPTIONS[name][1] for earlier, later in pairwise(times))


def test_a_period_that_was_removed_does_not_end_the_next_one_early() -> None:
    digests = Digests()
    digests.add("ann", 1, 1.0, max=2, period=10.0, now=0.0)
    digests.remove("ann")
    digests.add("ann", 2, 1.0, max=2, period=10.0, now=5.0)
    assert digests.close(10.0) == []
    [closed] = digests.close(15.0)
    assert closed.hits == [DigestHit(2, 1.0)]


@pytest.mark.parametrize(("most", "period"), [(0, 1.0), (1, 0.0), (1, float("nan"))])
def test_a_digest_without_room_or_time_is_refused(most: int, period: float) -> None:
    with pytest.raises(RequestError, match="max >= 1 and a period above 0"):
        Digests().add("ann", 1, 1.0, max=most, period=period, now=0.0)
