"""Counting every test that matching makes: the measures of the papers. It costs nothing unless it is switched on."""

from __future__ import annotations

import numpy as np

from matchwood.store.kernels.candidates import BOUNDARIES, KEY, PREDICATES, SIGNATURES, TALLY
from matchwood.structures.scratch import Scratch
from matchwood.structures.stored import StoredIndex

PLACES = {"boundaries_tested": BOUNDARIES, "signatures_tested": SIGNATURES, "predicates_tested": PREDICATES}


class Tallied(StoredIndex):
    """An index whose kernels can count what they test.

    boundaries_tested   intervals of the structure compared with the event: boundaries of buckets, heads of lists, columns
    signatures_tested   rows tested by signature
    predicates_tested   intervals of rows compared exactly
    """

    _counts_tests = False

    def count_tests(self, *, on: bool = True) -> None:
        """Count every test from now on (`stats().details`), or stop. Slows matching. An event that is answered again because
        its results had no room is counted twice; match a batch once before it is counted."""
        self._counts_tests = on
        for work in self._scratches.works:
            work.tally = None

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        if self._counts_tests and scratch.work.tally is None:
            scratch.work.tally = np.zeros(TALLY, np.int64)

    def _tests(self) -> dict[str, float]:
        """The counts, for `stats`."""
        if not self._counts_tests:
            return {}
        total = sum((work.tally for work in self._scratches.works if work.tally is not None), np.zeros(TALLY, np.int64))
        return {name: float(total[place]) for name, place in PLACES.items()}


def new_keys(dimensions: int) -> np.ndarray:
    """Scratch for one event, every dimension absent."""
    keys = np.zeros(dimensions, KEY)
    keys["hi"] = keys["below"] = np.nan
    keys["weight"] = 1.0
    return keys
