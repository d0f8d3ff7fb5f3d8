"""The plan of live events: on which attributes they are divided, and how finely."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matchwood.structures.base import AxisShape
from matchwood.structures.live.event_store import EventStore
from matchwood.structures.mo_tree.kernels.layout import LINE_ROWS
from matchwood.structures.mo_tree.plan import MAX_AXES, MAX_LAYERS, SAMPLE, TICKS, AxisPlan, TreePlan

SLICES, LAYER_SLICES = 16, 8  # a request has 4 bits for those of a layer
MIN_SLICES, MAX_SLICES = 6, 33
SHARE_OF_SLICES = 1.1  # of those that the subscriptions have on the attribute
NODE_FILLING = 1.2  # nodes a bucket: as many cells as leave a node of 512 events mostly full


def planned_events(store: EventStore, slots: np.ndarray, like: Sequence[AxisShape]) -> TreePlan:
    """Disjoint cells of even filling on the layers of the subscriptions' tree, else on the two most popular attributes.

    `like` are the shapes of that tree's axes, so that both halves are divided alike, as in the paper's unified structure.
    """
    sample = np.ascontiguousarray(slots[:: max(1, len(slots) // SAMPLE)])
    _, dims, keys = store.values(sample)
    found, popularity = np.unique(dims, return_counts=True)
    ranked = [int(dim) for _, dim in sorted(zip(-popularity, found, strict=True))]
    slices = {dim: min(max(MIN_SLICES, round(SHARE_OF_SLICES * n)), MAX_SLICES) for dim, n, _ in like if n}
    chosen = [dim for dim, _, is_layer in like if is_layer and dim in ranked]
    if not chosen and len(slots) > 2 * LINE_ROWS:
        chosen = ranked[:2]
    chosen = chosen[:MAX_LAYERS] if len(slots) > LINE_ROWS else []
    cells = max(1, int((len(slots) / (NODE_FILLING * LINE_ROWS)) ** (1 / max(len(chosen), 1))))
    axes = []
    for dim in [*chosen, *(dim for dim in ranked if dim not in chosen)][:MAX_AXES]:
        values = np.sort(keys[(dims == dim) & np.isfinite(keys)])
        size = TICKS if dim in chosen else slices.get(dim, SLICES)
        cuts = np.unique(values[np.arange(1, size) * len(values) // size]) if len(values) else np.zeros(0)
        if dim in chosen:
            axes.append(AxisPlan(dim, cuts, LAYER_SLICES, disjoint=min(cells, len(cuts) + 1)))
        else:
            axes.append(AxisPlan(dim, cuts, len(cuts) + 1))
    return TreePlan(tuple(axes), len(slots))
