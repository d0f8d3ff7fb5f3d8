"""Indexes that collect candidates and verify them in runs: they own the scratch that `store.kernels.candidates` describes."""

from __future__ import annotations

import numpy as np

from matchwood.store.kernels.candidates import ANSWER, MAX_FOUND, VISITED, Candidates
from matchwood.structures.scratch import Scratch
from matchwood.structures.tally import Tallied, new_keys


class VerifyingIndex(Tallied):
    """An index whose scratches have a buffer of candidates, as large as the store needs."""

    @property
    def _visited(self) -> float:
        """How many parts of the structure events have visited."""
        return float(self._scratches.counts[VISITED])

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        held, tally = scratch.buffer, scratch.work.tally
        if (
            held is None
            or held.values is not scratch.values
            or held.seen is not scratch.seen
            or (len(held.tally) > 0 if tally is None else held.tally is not tally)
        ):
            scratch.buffer = _new_buffer(scratch)


def _new_buffer(scratch: Scratch) -> Candidates:
    work = scratch.work
    return Candidates(
        values=scratch.values,
        keys=new_keys(len(scratch.values)),
        seen=scratch.seen,
        slots=np.zeros(MAX_FOUND + 1, np.uint32),
        ceilings=np.zeros(MAX_FOUND + 1),
        answer=np.zeros(1, ANSWER),
        work=work.counts,
        tally=np.zeros(0, np.int64) if work.tally is None else work.tally,
    )
