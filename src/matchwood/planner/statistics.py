"""Statistics of subscriptions and events, by which contenders are selected and plans explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matchwood.encode.arrays import ABSENT, CIRCLE, GRADE, INTERVAL, JOINED, MORE, Events, Rows


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a sample of rows and events."""

    rows: int
    predicates: float
    """Mean number per row."""
    dimensions: int
    popular: tuple[tuple[int, float], ...]
    """The three dimensions that most rows name, with their shares."""
    width: float
    """How much intervals overlap: the mean share of the intervals of a dimension whose middle an interval contains."""
    sets: float
    """Share of the predicates that have several intervals."""
    absent: float
    """Share of the predicates that test for absence."""
    values: float
    """Mean number per event."""
    weighted: bool
    """Do weights or priorities differ?"""

    @classmethod
    def of(cls, rows: Rows, events: Events) -> Statistics:
        """O(entries log entries)."""
        size = max(rows.size, 1)
        heads = (rows.kinds == INTERVAL) | (rows.kinds == ABSENT)
        boxes = (rows.kinds == INTERVAL) | (rows.kinds == JOINED)
        dims, named = np.unique(rows.dims[boxes], return_counts=True)
        top = sorted(zip((-named / size).tolist(), dims.tolist(), strict=True))[:3]
        before_more = heads[:-1] & (rows.kinds[1:] == MORE)
        scores = rows.weight[heads & (rows.kinds != CIRCLE)]
        return cls(
            rows.size,
            float(heads.sum()) / size,
            len(dims),
            tuple((dim, -share) for share, dim in top),
            _width(rows.dims[boxes], rows.lo[boxes], rows.hi[boxes]),
            float(before_more.sum()) / max(int(heads.sum()), 1),
            float((rows.kinds == ABSENT).sum()) / max(int(heads.sum()), 1),
            len(events.dims) / max(events.size, 1),
            bool(len(np.unique(scores)) > 1 or len(np.unique(rows.priority)) > 1 or (rows.kinds == GRADE).any()),
        )

    def line(self, name_of: Callable[[int], str]) -> str:
        """As text, with the names of the attributes."""
        shares: dict[str, float] = {}
        for dim, share in self.popular:  # the two dimensions of a point have one name
            shares.setdefault(name_of(dim), share)
        popular = ", ".join(f"{name} in {share:.0%}" for name, share in shares.items())
        parts = [f"{self.predicates:.1f} predicates per row over {self.dimensions} dimensions ({popular})"]
        parts.append(f"an interval overlaps {self.width:.1%} of the others in its dimension")
        if self.sets:
            parts.append(f"{self.sets:.0%} are sets")
        if self.absent:
            parts.append(f"{self.absent:.0%} test for absence")
        parts.append(f"{self.values:.1f} values per event")
        parts.append("weights differ" if self.weighted else "equal weights")
        return "; ".join(parts)


def _width(dims: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> float:
    if not len(dims):
        return 0.0
    held = 0.0
    order = np.argsort(dims, kind="stable")
    _, starts = np.unique(dims[order], return_index=True)
    for mine in np.split(order, starts[1:]):
        low, high = np.clip(lo[mine], -1e300, 1e300), np.clip(hi[mine], -1e300, 1e300)
        middles = np.sort(low / 2 + high / 2)
        held += float((np.searchsorted(middles, high, "right") - np.searchsorted(middles, low, "left")).sum()) / len(
            mine
        )
    return held / len(dims)
