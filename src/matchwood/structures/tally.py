"""Counting every test that matching makes: the papers' measures, exactly, at no cost where nobody asks."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Int64s
from matchwood.store.kernels.candidates import BOUNDARIES, KEY, PREDICATES, SIGNATURES, TALLY
from matchwood.structures.base import Index

PLACES = {"boundaries_tested": BOUNDARIES, "signatures_tested": SIGNATURES, "predicates_tested": PREDICATES}


class Tallied(Index):
    """An index whose kernels can count what they test. Counting is another compilation of the same source, so the kernels
    that are timed do not know of it.

    boundaries_tested   intervals of the structure compared with the event: boundaries of buckets, heads of lists, columns
    signatures_tested   rows looked at by signature
    predicates_tested   intervals of rows compared exactly
    """

    _tally: Int64s | None = None

    def count_tests(self, *, on: bool = True) -> None:
        """From now on count every test (`stats().details`), or stop. Slows matching; an event that is begun again because
        results had no room is counted twice, so ask of a batch what has been matched before."""
        self._tally = np.zeros(TALLY, np.int64) if on else None

    def reset_counters(self) -> None:
        """Start counting from zero."""
        super().reset_counters()
        if self._tally is not None:
            self._tally[:] = 0

    def _tests(self) -> dict[str, float]:
        """What was counted, for `stats`."""
        return {} if self._tally is None else {name: float(self._tally[place]) for name, place in PLACES.items()}


def new_keys(dimensions: int) -> np.ndarray:
    """Scratch for one event, every dimension absent."""
    keys = np.zeros(dimensions, KEY)
    keys["hi"] = keys["below"] = np.nan
    keys["weight"] = 1.0
    return keys
