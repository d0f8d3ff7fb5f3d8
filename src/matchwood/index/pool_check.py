"""Pools verified: free lists walked, regions laid side by side. In Python, for tests."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

NONE = 0xFFFFFFFF
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
