"""Interval sets are a Boolean algebra over the floats, in one canonical form."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.lang.intervals import (
    EVERYTHING,
    INF,
    NOTHING,
    IntervalSet,
    above,
    at_least,
    at_most,
    below,
    closed,
    points,
)

TINY = 5e-324
# Few keys and their neighbours, so that ends meet, touch and miss by one float all the time.
_EDGES = (-INF, -1.7976931348623157e308, -1.0, -TINY, 0.0, TINY, 1.0, 2.0, 1.7976931348623157e308, INF)
KEYS = sorted({k for e in _EDGES for k in (math.nextafter(e, -INF), e, math.nextafter(e, INF))})
keys = st.sampled_from([*KEYS, -0.0]) | st.floats(allow_nan=False)
sets = st.lists(st.tuples(keys, keys), max_size=5).map(IntervalSet.of)


def is_canonical(found: IntervalSet) -> bool:
    ordered = all(lo <= hi for lo, hi in found.parts)
    apart = all(math.nextafter(a[1], INF) < b[0] for a, b in pairwise(found.parts))
    positive_zero = all(math.copysign(1.0, end) == 1.0 for part in found.parts for end in part if end == 0.0)
    return ordered and apart and positive_zero


@given(sets, sets, sets)
def test_union_and_intersection_are_associative_and_commutative(a: IntervalSet, b: IntervalSet, c: IntervalSet) -> None:
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert (a | b, a & b) == (b | a, b & a)


@given(sets, sets, sets)
def test_each_distributes_over_the_other(a: IntervalSet, b: IntervalSet, c: IntervalSet) -> None:
    assert a & (b | c) == (a & b) | (a & c)
    assert a | (b & c) == (a | b) & (a | c)


@given(sets, sets)
def test_absorption(a: IntervalSet, b: IntervalSet) -> None:
    assert a | (a & b) == a
    assert a & (a | b) == a


@given(sets, sets)
def test_de_morgan(a: IntervalSet, b: IntervalSet) -> None:
    assert ~(a | b) == ~a & ~b
    assert ~(a & b) == ~a | ~b


@given(sets)
def test_complement(a: IntervalSet) -> None:
    assert ~~a == a
    assert a & ~a == NOTHING
    assert a | ~a == EVERYTHING
    assert (a & EVERYTHING, a | NOTHING, a & NOTHING, a | EVERYTHING) == (a, a, NOTHING, EVERYTHING)


@given(sets, sets, keys)
def test_membership_agrees_with_every_operation(a: IntervalSet, b: IntervalSet, key: float) -> None:
    for probe in {key, *(end for part in (a.parts + b.parts) for end in part)}:
        for near in (math.nextafter(probe, -INF), probe, math.nextafter(probe, INF)):
            in_a, in_b = near in a, near in b
            assert in_a == any(lo <= near <= hi for lo, hi in a.parts)
            assert (near in (a | b)) == (in_a or in_b)
            assert (near in (a & b)) == (in_a and in_b)
            assert (near in ~a) == (not in_a)
            assert (near in (a - b)) == (in_a and not in_b)


@given(sets, sets)
def test_meets_and_covers_say_what_the_operations_say(a: IntervalSet, b: IntervalSet) -> None:
    assert a.meets(b) == bool(a & b) == b.meets(a)
    assert a.covers(b) == (not (b - a))


@given(sets, sets, keys, keys)
def test_every_result_is_canonical(a: IntervalSet, b: IntervalSet, x: float, y: float) -> None:
    made = [a, a | b, a & b, ~a, a - b, closed(x, y), points([x, y]), at_most(x), at_least(x), below(x), above(x)]
    assert all(map(is_canonical, made))


@given(sets)
def test_of_changes_nothing_in_what_is_canonical_already(a: IntervalSet) -> None:
    assert IntervalSet.of(a.parts) == a
    assert IntervalSet.of(reversed(a.parts)) == a


@given(sets.filter(bool))
def test_the_hull_is_the_smallest_interval_around_the_set(a: IntervalSet) -> None:
    lo, hi = a.hull
    assert closed(lo, hi).covers(a)
    assert lo in a
    assert hi in a


def test_the_empty_set_has_no_hull_and_is_false() -> None:
    assert not NOTHING
    with pytest.raises(ValueError, match="no hull"):
        _ = NOTHING.hull


@given(keys)
def test_an_open_end_stops_one_float_before(key: float) -> None:
    assert key not in below(key)
    assert key not in above(key)
    assert below(key) | points([key]) == at_most(key)
    assert above(key) | points([key]) == at_least(key)
    assert below(key) == ~at_least(key)
    assert above(key) == ~at_most(key)


def test_neighbours_between_which_no_float_lies_join() -> None:
    after = math.nextafter(1.0, INF)
    assert points([1.0, after]) == closed(1.0, after)
    assert closed(0.0, 1.0) | closed(after, 2.0) == closed(0.0, 2.0)
    assert len((closed(0.0, 1.0) | closed(math.nextafter(after, INF), 2.0)).parts) == 2


def test_infinities_are_keys_like_any_other() -> None:
    assert INF in EVERYTHING
    assert -INF in EVERYTHING
    assert below(-INF) == above(INF) == NOTHING
    assert below(INF) == ~points([INF])
    assert at_most(INF) == at_least(-INF) == EVERYTHING
    assert below(INF).hull == (-INF, 1.7976931348623157e308)
    assert ~points([INF, -INF]) == closed(-1.7976931348623157e308, 1.7976931348623157e308)


def test_an_interval_the_wrong_way_round_is_empty() -> None:
    assert closed(2.0, 1.0) == NOTHING
    assert IntervalSet.of([(2.0, 1.0), (0.0, 0.5)]) == closed(0.0, 0.5)


def test_nan_is_in_no_set_and_makes_none() -> None:
    assert math.nan not in EVERYTHING
    assert closed(math.nan, 1.0) == points([math.nan]) == IntervalSet.of([(0.0, math.nan)]) == NOTHING


def test_minus_zero_is_zero() -> None:
    assert 0.0 in points([-0.0])
    assert -0.0 in points([0.0])
    made = [points([-0.0]), closed(-0.0, -0.0), at_most(-0.0), at_least(-0.0), ~at_most(-TINY), above(-TINY)]
    assert all(map(is_canonical, made))


@given(sets, sets)
def test_the_whole_numbers_of_a_set_have_one_form(a: IntervalSet, b: IntervalSet) -> None:
    numbers = [-INF, *map(float, range(-4, 5)), -(2.0**53), 2.0**53, 2.0**53 + 2, 1e308, INF]
    whole = a.whole()
    assert [key in whole for key in numbers] == [key in a for key in numbers]
    assert all(end == INF or end == -INF or end == math.floor(end) for part in whole.parts for end in part)
    assert is_canonical(whole)
    assert whole.whole() == whole
    assert (whole & b.whole()) == (a & b).whole()
    assert (whole | b.whole()).whole() == (a | b).whole()
    assert (whole | (~a).whole()).whole() == EVERYTHING
