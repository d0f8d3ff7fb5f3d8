"""`measure` against matching in plain Python, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import ABSENT, CIRCLE, INTERVAL, JOINED, MORE, Events, Rows, make_events, make_rows
from matchwood.errors import UnsupportedError
from matchwood.workloads import measure


def plain_match(rows: Rows, row: int, events: Events, event: int) -> bool:
    holds: list[bool] = []
    for entry in range(rows.offsets[row], rows.offsets[row + 1]):
        meets = any(
            events.dims[value] == rows.dims[entry]
            and events.lo[value] <= rows.hi[entry]
            and events.hi[value] >= rows.lo[entry]
            for value in range(events.offsets[event], events.offsets[event + 1])
        )
        if rows.kinds[entry] == MORE:
            holds[-1] = holds[-1] or meets
        else:
            holds.append(meets)
    return all(holds)


def random_rows(rng: np.random.Generator, count: int) -> Rows:
    """Subscriptions of one or two rows, of one to three predicates of one to three intervals each over five dimensions."""
    ids, offsets, entries = [], [0], []
    for row in range(count):
        for dim in np.sort(rng.permutation(5)[: rng.integers(1, 4)]):
            ends = np.sort(rng.choice(20, size=2 * int(rng.integers(1, 4)), replace=False))
            for place, (lo, hi) in enumerate(ends.reshape(-1, 2)):
                head = JOINED if dim == 1 and entries and entries[-1][0] == 0 else INTERVAL
                entries.append((dim, MORE if place else head, lo, hi))
        ids.append(row // 2)
        offsets.append(len(entries))
    dims, kinds, lo, hi = zip(*entries, strict=True)
    return make_rows(ids, np.zeros(count), offsets, dims, kinds, lo, hi, np.zeros(len(dims)))


def random_events(rng: np.random.Generator, count: int) -> Events:
    """Events of zero to five dimensions, some of them with lists of values or ranges."""
    offsets, entries = [0], []
    for _ in range(count):
        for dim in np.sort(rng.permutation(5)[: rng.integers(0, 6)]):
            starts = np.sort(rng.choice(np.arange(0, 20, 4), size=int(rng.integers(1, 4)), replace=False))
            entries += [(dim, lo, lo + rng.integers(0, 3)) for lo in starts]
        offsets.append(len(entries))
    dims, lo, hi = zip(*entries, strict=True)
    return make_events(offsets, dims, lo, hi)


def test_matches_are_those_that_plain_python_finds() -> None:
    rng = np.random.default_rng(5)
    rows, events = random_rows(rng, 60), random_events(rng, 40)
    expected = [
        len({int(rows.ids[row]) for row in range(rows.size) if plain_match(rows, row, events, event)})
        for event in range(events.size)
    ]
    found = measure(rows, events)
    assert found.matches.tolist() == expected
    assert found.subscriptions == 30
    assert sum(expected) > 50
    assert 0 in expected


def test_a_sample_measures_about_the_same_as_the_whole() -> None:
    rng = np.random.default_rng(6)
    rows, events = random_rows(rng, 2000), random_events(rng, 40)
    whole, sample = measure(rows, events), measure(rows, events, subscriptions=400)
    assert sample.subscriptions < 500
    assert sample.probability == pytest.approx(whole.probability, rel=0.2)
    assert "subscriptions match an event" in str(sample)


def test_a_test_for_absence_holds_where_the_event_lacks_the_dimension() -> None:
    nan = np.nan
    rows = make_rows(
        [0, 1], [0, 0], [0, 2, 3], [0, 1, 1], [INTERVAL, ABSENT, ABSENT], [1, nan, nan], [1, nan, nan], [1] * 3
    )
    events = make_events([0, 1, 3, 4, 4], [0, 0, 1, 1], [1.0, 1.0, 5.0, 5.0], [1.0, 1.0, 5.0, 5.0])
    assert measure(rows, events).matches.tolist() == [2, 0, 0, 1]


def test_rows_with_circles_are_refused() -> None:
    rows = make_rows([0], [0.0], [0, 3], [0, 1, 0], [INTERVAL, JOINED, CIRCLE], [0, 0, 0], [1, 1, 0], [1, 0, 9])
    with pytest.raises(UnsupportedError):
        measure(rows, make_events([0, 1], [0], [0.0], [0.0]))
