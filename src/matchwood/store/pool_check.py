"""Checks of pools and tables of ids: free lists walked, regions laid side by side. In Python, for tests."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from matchwood.store.kernels import id_table

NONE = int(id_table.NONE)
Region = tuple[int, int]
"""Where it begins, and its size."""


def chain(head: int, following: np.ndarray, end: int = NONE) -> list[int]:
    """The positions of a list that is chained through `following`, from `head` until `end`. O(list)."""
    found: list[int] = []
    while head != end:
        found.append(head)
        assert len(found) <= len(following), "a chain has a cycle"
        head = int(following[head])
    return found


def freed(head: int, size: int, following: np.ndarray, end: int = NONE) -> list[Region]:
    """The free regions of one size."""
    return [(start, size) for start in chain(int(head), following, end)]


def check_regions(what: str, regions: Iterable[Region], top: int) -> None:
    """Raise AssertionError unless the regions, used and free, fill the pool up to `top` without overlap."""
    at = 0
    for start, size in sorted(regions):
        assert start == at, f"{what} {at} to {start} are in no region or in two"
        at = start + size
    assert at == top, f"{what}: the regions end at {at}, the counter says {top}"


def check_table(table: np.ndarray, ids: np.ndarray, shift: int) -> None:
    """Raise AssertionError if a cell holds a wrong distance between its id and the home of that id. O(cells)."""
    farthest = int(id_table.FARTHEST)
    for at in np.flatnonzero(table != id_table.NONE).tolist():
        id_ = int(ids[int(id_table.number_in(table[at])) >> shift])
        distance = (at - int(id_table.home(table, id_))) % len(table)
        assert int(table[at]) & farthest == min(distance, farthest), (
            f"cell {at}: id {id_} is {distance} cells from its home, the cell says otherwise"
        )
