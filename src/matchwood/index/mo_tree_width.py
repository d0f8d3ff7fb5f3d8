"""How wide the overlapping cells of each level should be (MO-Tree 5)."""

from __future__ import annotations

import numpy as np


def cell_widths(levels: int, eta: float) -> list[float]:
    """Placeholder."""
    t = np.arange(1, levels + 1) / levels
    c = levels - np.arange(levels)
    return list((t * (c - 1) + 1) / c)
