"""Keywords: searches that wait for documents which have all of some terms and, for a few, lack another.

In one form a term is a dimension: a document has the key 1 in the dimensions of its terms, a required term is the point 1, a
forbidden one `IS NULL`. In the other, `as_list`, a document is a list of terms, and a search says `A_CONTAINS(terms, (...)) AND
terms != ...` of it: what users write. Both have the same matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import ABSENT, COUNT, INTERVAL, PART, Events, Float64s, Rows, make_events, make_rows
from matchwood.schema import MAX_DIMENSIONS, Schema
from matchwood.workloads.columns import bids
from matchwood.workloads.draw import UNUSED, ascending, events_of, offsets_of, pick_distinct, zipf
from matchwood.workloads.workload import Part, Workload, require


@dataclass(frozen=True, kw_only=True)
class Keywords(Workload):
    """Searches. Terms are numbered by descending popularity, by a Zipf law in documents and in searches."""

    size: int = 100_000
    vocabulary: int = 50_000
    skew: float = 1.0
    stop_words: int = 100
    """The commonest terms, which no search names."""
    required: tuple[int, int] = (1, 4)
    forbidden: float = 0.1
    """The share of searches with a forbidden term."""
    terms: tuple[int, int] = (100, 300)
    """Different terms of a document, minimum and maximum."""
    weight: float = 0.0
    """Of every predicate; with 0 the score is the priority."""
    as_list: bool = False
    """Are the terms of a document the values of one list, rather than attributes?"""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "100k": {},
        "1m": {"size": 1_000_000},
        "quick": {"size": 20_000},
    }

    def __post_init__(self) -> None:
        require(
            self.vocabulary <= min(MAX_DIMENSIONS, UNUSED),
            f"vocabulary must be at most {min(MAX_DIMENSIONS, UNUSED)}, the number of dimensions, got {self.vocabulary}",
        )
        require(
            1 <= self.required[0] <= self.required[1] < self.vocabulary - self.stop_words,
            f"required must be a range of positive numbers below the vocabulary, got {self.required}",
        )
        require(
            1 <= self.terms[0] <= self.terms[1] <= self.vocabulary,
            f"terms must be a range within 1 to {self.vocabulary}, got {self.terms}",
        )

    def schema(self) -> Schema:
        """`t00000`, `t00001`, ..., all numbers; or `terms`, numbers too."""
        if self.as_list:
            return Schema({"terms": "number"}, learn=False)
        return Schema.from_json(_schema(self.vocabulary))

    def subscriptions(self) -> Rows:
        """Searches; terms are ascending. About 2 s per million."""
        rng = self._stream(Part.SUBSCRIPTIONS)
        sizes = rng.integers(self.required[0], self.required[1] + 1, self.size)
        forbids = rng.random(self.size) < self.forbidden
        terms = pick_distinct(rng, self.popularity()[self.stop_words :], self.size, self.required[1] + 1)
        dims = (terms + self.stop_words).astype(np.uint16)
        kinds = np.full(dims.shape, INTERVAL)
        kinds[:, -1] = ABSENT
        used = np.arange(dims.shape[1]) < sizes[:, None]
        used[:, -1] = forbids
        order = np.argsort(dims, axis=1)
        used = np.take_along_axis(used, order, axis=1)
        dims = np.take_along_axis(dims, order, axis=1)[used]
        kinds = np.take_along_axis(kinds, order, axis=1)[used]
        keys = np.where(kinds == ABSENT, np.nan, 1.0)
        priority = bids(self._stream(Part.WEIGHTS), self.size)
        offsets = offsets_of(used.sum(axis=1))
        if self.as_list:
            return self._listed(dims, kinds == ABSENT, offsets, priority)
        return make_rows(
            np.arange(self.size), priority, offsets, dims, kinds, keys, keys, np.full(len(dims), self.weight)
        )

    def _listed(self, terms: np.ndarray, is_forbidden: np.ndarray, offsets: np.ndarray, priority: Float64s) -> Rows:
        """The searches as rows of one list attribute; the terms of search i are offsets[i]:offsets[i + 1]."""
        entries: list[tuple[int, float, float, float]] = []
        ends = [0]
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            named, absent = terms[begin:end].tolist(), is_forbidden[begin:end].tolist()
            wanted = [term for term, is_absent in zip(named, absent, strict=True) if not is_absent]
            entries.append((INTERVAL, wanted[-1], wanted[-1], self.weight * len(named)))
            for parts, least, most in (
                (sorted(set(named) - set(wanted)), 0, 0.0),
                (wanted if wanted[1:] else (), len(wanted), np.inf),
            ):
                if parts:
                    entries += [(COUNT, least, most, 0.0), *((PART, term, term, 0.0) for term in parts)]
            ends.append(len(entries))
        kinds, lo, hi, weight = zip(*entries, strict=True)
        return make_rows(np.arange(self.size), priority, ends, np.zeros(len(kinds)), kinds, lo, hi, weight)

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Documents; terms are ascending."""
        rng = self._stream(Part.EVENTS, batch)
        sizes = rng.integers(self.terms[0], self.terms[1] + 1, count)
        dims = ascending(pick_distinct(rng, self.popularity(), count, self.terms[1]), sizes)
        events = events_of(dims, np.ones(dims.shape))
        if not self.as_list:
            return events
        return make_events(events.offsets, np.zeros(len(events.dims)), events.dims, events.dims)

    def popularity(self) -> Float64s:
        """The share of each term; the first is the commonest."""
        return zipf(self.vocabulary, self.skew)


@lru_cache(maxsize=2)
def _schema(vocabulary: int) -> dict[str, Any]:
    return Schema({f"t{term:05}": "number" for term in range(vocabulary)}, learn=False).to_json()
