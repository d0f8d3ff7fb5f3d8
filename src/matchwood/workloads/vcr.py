"""Rectangles and points on a grid, skewed by the alpha-beta rule (VCR 3.1).

A share alpha of the bottom-left corners is inside a hot rectangle in the centre with a share beta of the area, the others
outside. Events follow the same rule. alpha = beta = 1 is uniform. A predicate is a <= x <= a + w and b <= y <= b + h, cut off
at the border; keys are integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.schema import Schema
from matchwood.workloads.draw import fixed_events, fixed_rows
from matchwood.workloads.workload import Part, Workload, require

_MODERATE = {"width": 300, "height": 200}
_LARGE = {"width": 2000, "height": 1500}
_SKEWS = {"uniform": (1.0, 1.0), "90-10": (0.9, 0.1), "90-1": (0.9, 0.01)}


@dataclass(frozen=True, kw_only=True)
class VCR(Workload):
    """Parameters of VCR 3.1. The paper gives the number of cells (60,000 and 3,000,000), but not the shape of the grid."""

    size: int = 32_000
    width: int = 300
    """R_x: x is in 0 .. width - 1."""
    height: int = 200
    widest: int = 40
    """W_x: widths are uniform in 1 .. widest."""
    highest: int = 20
    alpha: float = 0.9
    beta: float = 0.1
    construct_width: int = 16
    """L_x, the maximum width of a virtual construct rectangle: a parameter of the index, not used by the workload."""
    construct_height: int = 8

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **{
            f"{cells}-{skew}": {**shape, "alpha": alpha, "beta": beta}
            for cells, shape in (("moderate", _MODERATE), ("large", _LARGE))
            for skew, (alpha, beta) in _SKEWS.items()
        },
        **{f"moderate-90-10-{n}k": {"size": n * 1000} for n in (32, 64, 128, 256)},
        **{f"large-90-1-{n}k": {**_LARGE, "size": n * 1000, "alpha": 0.9, "beta": 0.01} for n in (32, 64, 128, 256)},
        "quick": {"size": 4_000},
    }

    def __post_init__(self) -> None:
        require(self.width >= 1 and self.height >= 1, f"the grid must have a cell, got {self.width} x {self.height}")
        require(
            self.widest >= 1 and self.highest >= 1,
            f"widest and highest must be at least 1, got {self.widest}, {self.highest}",
        )
        require(
            0 <= self.alpha <= 1 and 0 < self.beta <= 1, f"alpha and beta must be shares, got {self.alpha}, {self.beta}"
        )
        first, last = self.hot()
        require(
            self.alpha == 1 or int(np.prod(last - first + 1)) < self.width * self.height,
            "the hot rectangle leaves no room outside; lower beta or set alpha to 1",
        )

    def schema(self) -> Schema:
        return Schema({"x": "number", "y": "number"}, learn=False)

    def subscriptions(self) -> Rows:
        """Rectangles, x before y; weights are uniform in [0, 1), since the paper has none. About 0.2 s per million."""
        rng = self._stream(Part.SUBSCRIPTIONS)
        lo = self._corners(rng, self.size)
        extent = np.stack([rng.integers(1, most + 1, size=self.size) for most in (self.widest, self.highest)], axis=1)
        hi = np.minimum(lo + extent, [self.width, self.height])
        weight = self._stream(Part.WEIGHTS).random(lo.shape)
        return fixed_rows(lo, hi, weight)

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Points by the same rule as the corners."""
        return fixed_events(self._corners(self._stream(Part.EVENTS, batch), count))

    def hot(self) -> tuple[Int64s, Int64s]:
        """The first and the last (x, y) of the hot rectangle, both inclusive."""
        whole = np.array([self.width, self.height])
        sides = np.maximum(1, np.rint(whole * np.sqrt(self.beta))).astype(np.int64)
        first = (whole - sides) // 2
        return first, first + sides - 1

    def _corners(self, rng: np.random.Generator, count: int) -> Float64s:
        first, last = self.hot()
        inside = rng.random(count) < self.alpha
        points = rng.integers(first, last + 1, size=(count, 2))
        pending = np.flatnonzero(~inside)
        while len(pending):
            points[pending] = rng.integers(0, [self.width, self.height], size=(len(pending), 2))
            pending = pending[((points[pending] >= first) & (points[pending] <= last)).all(axis=1)]
        return points.astype(np.float64)
