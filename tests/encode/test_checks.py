"""Arrays from outside: what compiled code would trust blindly is refused with the row or event at fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from matchwood.encode.arrays import (
    ABSENT,
    CIRCLE,
    COUNT,
    INTERVAL,
    JOINED,
    MORE,
    PART,
    Events,
    Rows,
    make_events,
    make_rows,
)
from matchwood.encode.checks import check_events, check_rows
from matchwood.errors import EventError, SubscriptionError
from matchwood.schema import Schema
from tests.worlds import TYPES, World, worlds

NAN = float("nan")
Entry = tuple[int, int, float, float, float]
GOOD: list[Entry] = [(0, INTERVAL, 0.0, 1.0, 1.0)]


def rows(*entries: Entry, before: list[Entry] = GOOD) -> Rows:
    """Row 0 is good, row 1 has the entries."""
    columns = zip(*before, *entries, strict=True)
    return make_rows([7, 9], [0.0, 0.0], [0, len(before), len(before) + len(entries)], *columns)


@given(worlds(subscriptions=5, events=4))
@settings(max_examples=40)
def test_whatever_the_encoder_makes_is_good(world: World) -> None:
    check_rows(world.rows(), Schema(TYPES).dimensions)
    check_events(world.event_arrays())


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([(0, 12, 0.0, 1.0, 1.0)], "unknown kind of entry"),
        ([(0, COUNT, 0.0, 0.0, 0.0)], "first entry is not the head of a predicate"),
        ([(0, INTERVAL, 0.0, 1.0, 1.0), (0, COUNT, 0.0, 0.0, 0.0)], "a COUNT entry has no PART"),
        (
            [(0, INTERVAL, 0.0, 1.0, 1.0), (1, COUNT, 0.0, 0.0, 0.0), (1, PART, 2.0, 2.0, 0.0)],
            "a COUNT entry does not follow the intervals of its dimension",
        ),
        (
            [(0, INTERVAL, 0.0, 1.0, 1.0), (0, COUNT, 2.0, 1.0, 0.0), (0, PART, 2.0, 2.0, 0.0)],
            "the bounds of a COUNT entry are not whole numbers, the smaller one first",
        ),
        (
            [
                (0, INTERVAL, 0.0, 1.0, 1.0),
                (0, COUNT, 1.0, 1.0, 0.0),
                (0, PART, 2.0, 2.0, 0.0),
                (0, PART, 2.0, 3.0, 0.0),
            ],
            "a PART entry does not follow a COUNT or PART entry of its dimension in ascending order",
        ),
        ([(0, INTERVAL, 0.0, 1.0, 1.0), (0, PART, 2.0, 2.0, 0.0)], "a PART entry does not follow a COUNT"),
        ([(9, INTERVAL, 0.0, 1.0, 1.0)], "a dimension is not one of the schema's 4"),
        ([(0, MORE, 0.0, 1.0, 0.0)], "first entry is not the head of a predicate"),
        ([(0, JOINED, 0.0, 1.0, 0.0)], "first entry is not the head of a predicate"),
        ([(0, CIRCLE, 0.0, 1.0, 5.0)], "first entry is not the head of a predicate"),
        ([*GOOD, (0, MORE, 0.5, 2.0, 0.0)], "does not follow an interval"),
        ([*GOOD, (1, MORE, 5.0, 6.0, 0.0)], "does not follow an interval"),
        ([(1, ABSENT, NAN, NAN, 1.0), (1, MORE, 5.0, 6.0, 0.0)], "does not follow an interval"),
        ([(1, ABSENT, NAN, NAN, 1.0), (2, JOINED, 5.0, 6.0, 0.0)], "continues a predicate that tests for absence"),
        ([*GOOD, (0, CIRCLE, 1.0, 1.0, 5.0)], "a circle does not follow a longitude and a latitude"),
        (
            [*GOOD, (1, JOINED, 0.0, 1.0, 0.0), (2, INTERVAL, 0.0, 1.0, 1.0), (2, CIRCLE, 1.0, 1.0, 5.0)],
            "a circle does not",
        ),
        ([*GOOD, (2, INTERVAL, 0.0, 1.0, 1.0), *GOOD], "two predicates are on one dimension"),
        ([*GOOD, (0, ABSENT, NAN, NAN, 1.0)], "two predicates are on one dimension"),
        ([*GOOD, (1, JOINED, 0.0, 1.0, 0.0), (0, CIRCLE, 1.0, 1.0, 0.0)], "the radius of a circle is zero"),
        ([(0, INTERVAL, 2.0, 1.0, 1.0)], "an interval is empty or NaN"),
        ([(0, INTERVAL, NAN, 1.0, 1.0)], "an interval is empty or NaN"),
        ([(0, INTERVAL, 0.0, 1.0, -1.0)], "a weight is not finite and >= 0"),
        ([(0, INTERVAL, 0.0, 1.0, np.inf)], "a weight is not finite and >= 0"),
        ([(0, ABSENT, NAN, NAN, NAN)], "a weight is not finite and >= 0"),
    ],
)
def test_a_bad_row_is_refused_with_its_number_and_the_reason(entries: list[Entry], reason: str) -> None:
    with pytest.raises(SubscriptionError, match=rf"row 1 \(subscription 9\): .*{reason}"):
        check_rows(rows(*entries), 4)


def test_a_circle_of_another_row_is_no_latitude_before_it() -> None:
    place: list[Entry] = [(0, INTERVAL, 0.0, 1.0, 1.0), (1, JOINED, 0.0, 1.0, 0.0), (0, CIRCLE, 1.0, 1.0, 5.0)]
    check_rows(rows(*place, before=place), 4)
    with pytest.raises(SubscriptionError, match="row 1"):
        check_rows(rows(*GOOD, (0, CIRCLE, 1.0, 1.0, 5.0), before=place), 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": np.array([0, 2, 1])},
        {"offsets": np.array([1, 1, 2])},
        {"offsets": np.zeros(0, np.int64)},
        {"offsets": np.array([0, 1, 5])},
        {"lo": np.zeros(1)},
        {"ids": np.array([7])},
        {"priority": np.array([0.0, np.nan])},
        {"priority": np.array([0.0, np.inf])},
    ],
)
def test_columns_that_do_not_fit_together_are_refused(changes: dict[str, Any]) -> None:
    good = rows(*GOOD)
    check_rows(good, 4)
    with pytest.raises(SubscriptionError, match="expected"):
        check_rows(good._replace(**changes), 4)


def test_no_rows_and_rows_without_entries_are_good() -> None:
    check_rows(make_rows([], [], [0], [], [], [], [], []), 0)
    check_rows(make_rows([1, 2], [0, 0], [0, 0, 0], [], [], [], [], []), 0)
    check_events(make_events([0], [], [], []))
    check_events(make_events([0, 0, 0], [], [], []))


@pytest.mark.parametrize(
    ("dims", "lo", "hi", "weight", "reason"),
    [
        ([0, 1], [0, 2], [0, 1], [1, 1], "a value is empty or NaN"),
        ([0, 1], [0, NAN], [0, NAN], [1, 1], "a value is empty or NaN"),
        ([0, 1], [0, 1], [0, 1], [1, -1], "a weight is not finite"),
        ([0, 0], [1, 0], [1, 0], [1, 1], "not ascending and disjoint"),
        ([0, 0], [1, 1], [2, 3], [1, 1], "not ascending and disjoint"),
        ([0, 1, 0], [1, 1, 2], [1, 1, 2], [1, 1, 1], "not adjacent"),
    ],
)
def test_a_bad_event_is_refused_with_its_number_and_the_reason(
    dims: list[int], lo: list[float], hi: list[float], weight: list[float], reason: str
) -> None:
    n = len(dims)
    good = [0], [1.0], [1.0], [1.0]
    columns = [[*first, *second] for first, second in zip(good, (dims, lo, hi, weight), strict=True)]
    with pytest.raises(EventError, match=f"event 1: .*{reason}"):
        check_events(make_events([0, 1, 1 + n], *columns))


def test_events_of_one_batch_may_name_dimensions_in_any_order() -> None:
    check_events(make_events([0, 3, 5], [5, 2, 2, 2, 1], [1, 1, 2, 0, 0], [1, 1, 2, 0, 0]))


def test_events_whose_columns_do_not_fit_together_are_refused() -> None:
    events = make_events([0, 1], [0], [1.0], [1.0])
    with pytest.raises(EventError, match="expected columns of 1 entries"):
        check_events(Events(events.offsets, events.dims, events.lo, np.zeros(2), events.weight))


@pytest.mark.parametrize("name", ["ids", "offsets", "dims", "lo"])
def test_columns_in_the_other_order_of_bytes_are_refused(name: str) -> None:
    good = rows(*GOOD)
    column = getattr(good, name)
    with pytest.raises(SubscriptionError, match=f"expected {name} in the byte order of this machine"):
        check_rows(good._replace(**{name: column.astype(column.dtype.newbyteorder())}), 4)
    events = make_events([0, 1], [0], [1.0], [1.0])
    with pytest.raises(EventError, match="expected hi in the byte order"):
        check_events(events._replace(hi=events.hi.astype(">f8" if np.little_endian else "<f8")))
