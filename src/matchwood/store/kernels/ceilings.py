"""How high a row with grades can score for an event. In: `Store.ceilings`, the event's values. Out: a number no score exceeds.

Without an event the bound of a row is the sum of its weights (`rows.max_score`), which says little where they count by closeness.
A ceiling is one cache line, and comes within a millionth of the score of a row that matches and has at most two grades.

Sound as long as scores are sums and no weight of the event is above 1 (`may_use`): each grade adds weight x closeness at most, so
the score is below the full one by weight x (1 - closeness), and closeness never grows with the distance. Distances are rounded
down: a place to the precision of float32, two metres, and along the chord; a list or a range to the nearest value of its hull.
"""

from __future__ import annotations

import math

import numpy as np

from matchwood import decay, geo
from matchwood.jit.decorators import helper, subroutine
from matchwood.store.kernels.grades import place_of
from matchwood.store.kernels.rows import ABOVE, BELOW, PLACE
from matchwood.store.kernels.verify import ANY

PLACE_ERROR = 2.0  # metres; a coordinate of a unit vector is wrong by 2 ** -25 of the earth's radius at most
SLACK = 1e-9  # of a closeness: more than the rounding of what `decay` computes
_LN2 = 0.6931471805599453 * (1.0 - 1e-12)


@helper
def may_use(store, events, e, mode, combine):
    """Do ceilings tell how rows can score for event e? O(its entries)."""
    if store.ceilings.size == 0 or combine is not None or mode & ANY:
        return False
    light = True
    for i in range(events.offsets[e], events.offsets[e + 1]):
        light &= events.weight[i] <= 1.0
    return light


@helper
def power_above(t):
    """No less than 2 ** -t, for t >= 0."""
    if t >= 60.0:
        return 1e-18
    whole = np.int64(t)
    a = (t - whole) * _LN2
    series = 1.0 - a * (1.0 - a / 2.0 * (1.0 - a / 3.0 * (1.0 - a / 4.0 * (1.0 - a / 5.0 * (1.0 - a / 6.0)))))
    return series / np.float64(np.int64(1) << whole)


@helper
def closeness_above(curve, t):
    """No less than the closeness on a curve, at the distance t."""
    if not t > 0.0:
        return 1.0
    if curve == decay.LINEAR:
        return max(1.0 - t, 0.0)
    return power_above(t if curve == decay.EXPONENTIAL else t * t)


@helper
def least_loss(weight, curve, slope, away):
    """At least what a grade of that weight loses `away` from where it begins to fall."""
    return max(np.float64(weight) * (1.0 - SLACK - closeness_above(curve, np.float64(slope) * away)), 0.0)


@helper
def away_from(key, z, kind, dim, lat, values):
    """At least how far the event is from the origin of a grade; negative or NaN if that is unknown."""
    value = values[np.int64(dim)]
    if np.isnan(value.lo):
        return -1.0
    if kind & PLACE:
        x, y = np.uint32(key).view(np.float32), np.uint32(key >> np.uint64(32)).view(np.float32)
        px, py, pz = place_of(values, value, np.uint32(lat))
        dx, dy, dz = px - np.float64(x), py - np.float64(y), pz - np.float64(z)
        return math.sqrt(dx * dx + dy * dy + dz * dz) * geo.EARTH_RADIUS_M - PLACE_ERROR
    best = np.uint64(key).view(np.float64)
    if value.lo > best:
        return -1.0 if kind & ABOVE else value.lo - best
    if value.hi < best:
        return -1.0 if kind & BELOW else best - value.hi
    return -1.0


@subroutine
def ceiling_of(store, slot, values):
    """No score of the row is higher for the event in `values`. O(1)."""
    it = store.ceilings[slot]
    bound = np.float64(it.full)
    if it.kind0 != 0:
        away = away_from(it.key0, it.z0, it.kind0, it.dim0, it.lat0, values) - np.float64(it.offset0)
        bound -= least_loss(it.weight0, np.int64(it.kind0 & np.uint8(3)) - 1, it.slope0, away)
    if it.kind1 != 0:
        away = away_from(it.key1, it.z1, it.kind1, it.dim1, it.lat1, values) - np.float64(it.offset1)
        bound -= least_loss(it.weight1, np.int64(it.kind1 & np.uint8(3)) - 1, it.slope1, away)
    return bound
