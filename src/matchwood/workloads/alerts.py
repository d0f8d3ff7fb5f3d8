"""Alerts: readers who follow authors or title terms of real papers. Without the data folder it raises `WorkloadError`.

subscription  authors IN 1 to 3, or title terms any of 1 to 4; `venues !=` and `year >=` for a share of them
event         a random paper, with lists of authors, title terms and venues
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matchwood.encode.arrays import INTERVAL, Float64s, Int64s, Rows
from matchwood.workloads.columns import after, before, bids
from matchwood.workloads.real import FromTable, rows_of_parts
from matchwood.workloads.workload import Part, require


@dataclass(frozen=True, kw_only=True)
class PaperAlerts(FromTable):
    """Alerts on papers; every alert has one list: of authors, or of title terms."""

    FILE: ClassVar[str] = "acl_papers_2016_2023"
    COLUMNS: ClassVar[Sequence[str] | None] = ("authors", "title_terms", "venues", "year")

    author_share: float = 0.5
    """The share of alerts on authors; the others are on title terms."""
    authors: int = 3
    """Maximum number of authors of an alert."""
    terms: int = 4
    """Maximum number of title terms of an alert."""
    venue_share: float = 0.3
    year_share: float = 0.8
    weight: float = 0.0
    """Of every predicate; with 0 the score is the priority."""

    def __post_init__(self) -> None:
        require(self.authors >= 1 and self.terms >= 1, "authors and terms must be at least 1")

    def subscriptions(self) -> Rows:
        """Authors of several random papers, or title terms of one; the year is up to three before that of a random paper."""
        rng, table = self._stream(Part.SUBSCRIPTIONS), self.table()
        row = np.arange(self.size)
        by_author = rng.random(self.size) < self.author_share
        parts = []
        for name, owners, maximum in (
            ("authors", row[by_author], self.authors),
            ("title_terms", row[~by_author], self.terms),
        ):
            papers = self._papers_with(name)
            base = papers[rng.integers(len(papers), size=len(owners))]
            counts = rng.integers(1, maximum + 1, size=len(owners))
            for place in range(maximum):
                use = np.flatnonzero(counts > place)
                source = base[use] if name == "title_terms" else papers[rng.integers(len(papers), size=len(use))]
                keys = table.drawn(rng, name, source)
                parts.append((owners[use], name, keys, keys))
        shuns = np.flatnonzero(rng.random(self.size) < self.venue_share)
        papers = self._papers_with("venues")
        venue = table.drawn(rng, "venues", papers[rng.integers(len(papers), size=len(shuns))])
        parts.append((shuns, "venues", np.full(len(shuns), -np.inf), before(venue)))
        parts.append((shuns, "venues", after(venue), np.full(len(shuns), np.inf)))
        recent = np.flatnonzero(rng.random(self.size) < self.year_share)
        year = table.column("year")[rng.integers(table.size, size=len(recent))] - rng.integers(0, 4, size=len(recent))
        parts.append((recent, "year", year, np.full(len(recent), np.inf)))
        rows = rows_of_parts(table.schema, row, parts)
        weight = np.where(rows.kinds == INTERVAL, self.weight, 0.0)
        return rows._replace(priority=bids(self._stream(Part.WEIGHTS), self.size), weight=weight)

    def _papers_with(self, name: str) -> Int64s:
        """The papers that have a value in a column."""
        column: Float64s = self.table().column(name)
        return np.flatnonzero(~np.isnan(column))
