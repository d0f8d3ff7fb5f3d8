"""What the grades of a block have in common, and how high its rows can score for an event. In: `Store.ceilings`. Out: heights.

A block has two hulls, one for the first grade of its rows and one for the second: the box of the origins, the flattest slope, the
largest offset and the smallest weight. What they lose by distance, every row of the block loses. A hull is MIXED, and says
nothing, if a row lacks the grade or has it on another attribute or another curve.
"""

from __future__ import annotations

import math

import numpy as np

from matchwood import geo
from matchwood.jit.decorators import helper, subroutine
from matchwood.store.kernels.ceilings import PLACE_ERROR, least_loss
from matchwood.store.kernels.grades import place_of
from matchwood.store.kernels.rows import ABOVE, BELOW, PLACE
from matchwood.structures.postings.kernels.layout import HELD, MIXED

_KIND = np.uint8(3) | PLACE  # the curve and PLACE: sides are part of the box


@helper
def widen_hulls(postings, store, block, slot):
    """Let the hulls of a block hold a row too, if blocks have hulls. O(1)."""
    if postings.hulls.size == 0:
        return
    it = store.ceilings[slot]
    hull = postings.hulls[2 * block]
    widen(hull, it.key0, it.z0, it.kind0, it.dim0, it.lat0, it.slope0, it.offset0, it.weight0)
    hull = postings.hulls[2 * block + 1]
    widen(hull, it.key1, it.z1, it.kind1, it.dim1, it.lat1, it.slope1, it.offset1, it.weight1)


@subroutine
def widen(hull, key, z, kind, dim, lat, slope, offset, weight):
    """Let a hull hold a grade too, which is given as `store.kernels.rows.CEILING` has it."""
    if hull.state == HELD and (hull.kind != kind & _KIND or hull.dim != dim or hull.lat != lat):
        hull.state = MIXED
    if kind == 0:
        hull.state = MIXED
    if hull.state == MIXED:
        return
    if hull.state != HELD:
        hull.state, hull.kind, hull.dim, hull.lat = HELD, kind & _KIND, dim, lat
        hull.west = hull.south = hull.bottom = hull.slope = hull.weight = np.inf
        hull.east = hull.north = hull.top = -np.inf
        hull.offset = 0.0
    if kind & PLACE:
        x, y = np.uint32(key).view(np.float32), np.uint32(key >> np.uint64(32)).view(np.float32)
        hull.west, hull.east = min(hull.west, np.float64(x)), max(hull.east, np.float64(x))
        hull.south, hull.north = min(hull.south, np.float64(y)), max(hull.north, np.float64(y))
        hull.bottom, hull.top = min(hull.bottom, np.float64(z)), max(hull.top, np.float64(z))
    else:
        best = np.uint64(key).view(np.float64)
        hull.west = min(hull.west, -np.inf if kind & BELOW else best)
        hull.east = max(hull.east, np.inf if kind & ABOVE else best)
    hull.slope, hull.weight = min(hull.slope, np.float64(slope)), min(hull.weight, np.float64(weight))
    hull.offset = max(hull.offset, np.float64(offset))


@helper
def beyond(key, low, high):
    """How far a key is outside an interval."""
    return max(max(low - key, key - high), 0.0)


@subroutine
def loss_of(hull, values):
    """At least what every row of a block loses, for the event in `values`, by the grade of this hull. O(1)."""
    if hull.state != HELD:
        return 0.0
    value = values[np.int64(hull.dim)]
    if np.isnan(value.lo):
        return 0.0
    if hull.kind & PLACE:
        x, y, z = place_of(values, value, np.uint32(hull.lat))
        dx, dy, dz = (
            beyond(x, hull.west, hull.east),
            beyond(y, hull.south, hull.north),
            beyond(z, hull.bottom, hull.top),
        )
        away = math.sqrt(dx * dx + dy * dy + dz * dz) * geo.EARTH_RADIUS_M - PLACE_ERROR
    else:
        away = max(max(hull.west - value.hi, value.lo - hull.east), 0.0)
    return least_loss(hull.weight, np.int64(hull.kind & np.uint8(3)) - 1, hull.slope, away - hull.offset)


@helper
def height_of(postings, block, values):
    """No row of the block scores higher for the event in `values`, if ceilings may be used. O(1)."""
    losses = loss_of(postings.hulls[2 * block], values) + loss_of(postings.hulls[2 * block + 1], values)
    height = np.float64(postings.bounds[block]) - losses
    return np.inf if np.isnan(height) else height
