"""Pools and tables of ids verified: free lists walked, regions laid side by side. In Python, for tests."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from matchwood.store.kernels import id_table

NONE = int(id_table.NONE)
Region = tuple[int, int]
"""Where it begins, and its size."""


def chain(head: int, following: np.ndarray, end: int = NONE) -> list[int]:
    """The places of a list that is chained through `following`, from `head` on until `end`. O(list)."""
    found: list[int] = []
    while head != end:
        found.append(head)
        assert len(found) <= len(following), "a chain runs in a circle"
        head = int(following[head])
    return found


def freed(head: int, size: int, following: np.ndarray, end: int = NONE) -> list[Region]:
    """The free regions of one size."""
    return [(start, size) for start in chain(int(head), following, end)]


def check_regions(what: str, regions: Iterable[Region], top: int) -> None:
    """Raise AssertionError if the regions, used and free, leave anything out up to `top`, or overlap."""
    at = 0
    for start, size in sorted(regions):
        assert start == at, f"{what} {at} to {start} are lost or doubled"
        at = start + size
    assert at == top, f"the end of the {what} is miscounted"


def check_table(table: np.ndarray, ids: np.ndarray, shift: int) -> None:
    """Raise AssertionError if a cell is wrong about how far from home its id stands. O(cells)."""
    farthest = int(id_table.FARTHEST)
    for at in np.flatnonzero(table != id_table.NONE).tolist():
        id_ = int(ids[int(id_table.number_in(table[at])) >> shift])
        distance = (at - int(id_table.home(table, id_))) % len(table)
        assert int(table[at]) & farthest == min(distance, farthest), f"cell {at}: {id_} stands {distance} from home"
