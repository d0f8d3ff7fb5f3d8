"""Indexes that collect candidates and verify them in runs: they own the scratch that `store.kernels.candidates` describes."""

from __future__ import annotations

import numpy as np

from matchwood.store.kernels.candidates import ANSWER, MAX_FOUND, VISITED, WORK, Candidates
from matchwood.structures.tally import Tallied, new_keys


class VerifyingIndex(Tallied):
    """An index with a buffer of candidates, as large as the store needs."""

    def __init__(self) -> None:
        super().__init__()
        self._candidates = np.zeros(WORK, np.int64)
        self._buffer = self._new_buffer()

    @property
    def _visited(self) -> float:
        """How many parts of the structure events have visited."""
        return float(self._candidates[VISITED])

    def _prepare(self) -> None:
        super()._prepare()
        held, tally = self._buffer, self._tally
        counts_as_asked = len(held.tally) == 0 if tally is None else held.tally is tally
        if held.values is not self._values or held.seen is not self._seen or not counts_as_asked:
            self._buffer = self._new_buffer()

    def _new_buffer(self) -> Candidates:
        return Candidates(
            values=self._values,
            keys=new_keys(len(self._values)),
            seen=self._seen,
            slots=np.zeros(MAX_FOUND + 1, np.uint32),
            answer=np.zeros(1, ANSWER),
            work=self._candidates,
            tally=np.zeros(0, np.int64) if self._tally is None else self._tally,
        )
