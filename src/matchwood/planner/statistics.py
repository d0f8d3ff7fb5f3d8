"""What the subscriptions and events look like: the figures that plans are explained by and contenders are chosen by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matchwood.encode.arrays import ABSENT, CIRCLE, INTERVAL, JOINED, MORE, Events, Rows


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of a sample of rows, and of events if there are any."""

    rows: int
    predicates: float
    """Mean number of a row."""
    dimensions: int
    popular: tuple[tuple[int, float], ...]
    """The three dimensions that most rows name, with their shares."""
    width: float
    """Mean share of a dimension's intervals whose middle an interval holds: how much intervals overlap."""
    sets: float
    """Share of the predicates that have several intervals."""
    absent: float
    """Share of the predicates that ask for absence."""
    values: float
    """Mean number of values of an event."""
    weighted: bool
    """Do weights or priorities differ?"""

    @classmethod
    def of(cls, rows: Rows, events: Events) -> Statistics:
        """O(entries log entries)."""
        size = max(rows.size, 1)
        heads = (rows.kinds == INTERVAL) | (rows.kinds == ABSENT)
        boxes = (rows.kinds == INTERVAL) | (rows.kinds == JOINED)
        dims, named = np.unique(rows.dims[boxes], return_counts=True)
        most = sorted(zip((-named / size).tolist(), dims.tolist(), strict=True))[:3]
        before_more = heads[:-1] & (rows.kinds[1:] == MORE)
        scores = rows.weight[heads & (rows.kinds != CIRCLE)]
        return cls(
            rows.size,
            float(heads.sum()) / size,
            len(dims),
            tuple((dim, -share) for share, dim in most),
            _width(rows.dims[boxes], rows.lo[boxes], rows.hi[boxes]),
            float(before_more.sum()) / max(int(heads.sum()), 1),
            float((rows.kinds == ABSENT).sum()) / max(int(heads.sum()), 1),
            len(events.dims) / max(events.size, 1),
            bool(len(np.unique(scores)) > 1 or len(np.unique(rows.priority)) > 1),
        )

    def line(self, named: Callable[[int], str]) -> str:
        """In words, with the names of the attributes."""
        popular = ", ".join(f"{named(dim)} in {share:.0%}" for dim, share in self.popular)
        parts = [f"{self.predicates:.1f} predicates a row over {self.dimensions} dimensions ({popular})"]
        parts.append(f"an interval meets {self.width:.1%} of the others of its dimension")
        if self.sets:
            parts.append(f"{self.sets:.0%} are sets")
        if self.absent:
            parts.append(f"{self.absent:.0%} ask for absence")
        parts.append(f"{self.values:.1f} values an event")
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
