"""Kernels called at their entry point: the same answers, and nothing gets there that has not the right type."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import make_rows
from matchwood.jit.decorators import kernel
from matchwood.jit.direct import IDS, KEPT, ROWS, Direct, exact
from matchwood.structures import BEStarTree, MOTree, Scan
from matchwood.workloads import City
from tests.worlds import ranked


@kernel
def total(values, start):
    for i in range(values.size):
        start += values[i]
    return start


def test_every_call_gives_what_the_kernel_gives() -> None:
    direct = Direct(total)
    for size in (0, 1, 5):
        assert direct.call(np.arange(size, dtype=np.float64), 1.0) == 1.0 + sum(range(size))


def test_a_kernel_of_several_versions_is_dispatched_as_ever() -> None:
    @kernel
    def first(values):
        return values[0]

    direct = Direct(first)
    first(np.array([1], np.uint8))
    assert direct.call(np.array([2.5])) == 2.5
    assert direct.call(np.array([3], np.uint8)) == 3


def test_only_contiguous_arrays_of_the_very_types_are_exact() -> None:
    rows = make_rows([1], [0.0], [0, 1], [0], [0], [1.0], [2.0], [1.0])
    assert exact(rows, ROWS)
    assert not exact(rows._replace(dims=rows.dims.astype(np.int64)), ROWS)
    assert not exact(rows._replace(lo=np.zeros(4)[::2]), ROWS)
    assert not exact(rows._replace(ids=rows.ids.astype(">i8")), ROWS)
    assert not exact(rows._replace(lo=rows.lo.reshape(1, 1)), ROWS)
    assert not exact(rows._replace(lo=[1.0]), ROWS)
    assert not exact(rows._replace(lo=[]), ROWS)
    assert not exact(rows[:-1], ROWS)
    assert exact((*City.preset("quick").events(3), rows.ids, rows.lo), KEPT)
    assert exact((np.zeros(3, np.int64),), IDS)


def test_arrays_that_may_not_be_written_are_exact_too() -> None:
    rows = make_rows([1], [0.0], [0, 1], [0], [0], [1.0], [2.0], [1.0])
    for array in rows:
        array.flags.writeable = False
    assert exact(rows, ROWS)


@pytest.mark.parametrize("kind", [MOTree, BEStarTree])
def test_rows_of_other_types_are_taken_or_refused_but_never_misread(kind: type) -> None:
    city = City.preset("quick", size=3_000)
    rows, events = city.subscriptions(), city.events(60)
    index = kind.build(rows.take(0, 2_900))
    for r in range(2_900, 3_000):
        row = rows.take(r, r + 1)
        if r % 2:  # every other cell of a wider array, as a caller might hand it over
            wide = np.repeat(row.lo, 2)
            row = row._replace(lo=wide[::2])
        index.insert(make_rows(*row) if r % 4 == 3 else row)
        if r % 5 == 0:
            index.delete(np.repeat(row.ids, 2)[::2])
            index.insert(rows.take(r, r + 1))
    index.check()
    assert ranked(index.match(events)) == ranked(Scan.build(rows).match(events))
