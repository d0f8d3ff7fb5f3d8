"""Moving subscribers in bulk: the rows of subscriptions with their conditions on the place moved.

Nearly all who move ask for one circle away from the poles and the antimeridian. Their rows are moved column by column, to the
same bits as `lang.moving.moved`, which moves all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from matchwood.encode.arrays import CIRCLE, INTERVAL, JOINED, MORE, Float64s, Int64s, Rows, concatenate_rows
from matchwood.encode.picking import pick_rows
from matchwood.engine.reading import Place, Reader
from matchwood.engine.subscriptions import Subscriptions
from matchwood.errors import SubscriptionError
from matchwood.lang.event import PLACE
from matchwood.lang.places import reach_of, width_of
from matchwood.schema import point_of


def moved_rows(subscriptions: Subscriptions, ids: Int64s, places: Sequence[Place], reader: Reader) -> tuple[Rows, Rows]:
    """The rows of these subscriptions as they are, and with their conditions on the place moved there. O(entries).

    Raises `ExpressionError` if one cannot be moved, `ValueTypeError` if a place is none.
    """
    if len(ids) != len(places):
        raise SubscriptionError(f"expected a place for each of {len(ids)} subscriptions, got {len(places)}")
    before = subscriptions.rows_of_many(ids)
    lon, lat = _coordinates(places)
    if not before.size:
        return before, before
    is_first = np.concatenate([[True], before.ids[1:] != before.ids[:-1]])
    owner = np.cumsum(is_first) - 1
    moved = _moved_circles(before, lon[owner], lat[owner], reader)
    if moved is not None:
        return before, moved
    parts = [pick_rows(before, np.flatnonzero(owner == i)) for i in range(len(ids))]
    here = list(zip(lon.tolist(), lat.tolist(), strict=True))
    return before, concatenate_rows([reader.moved(rows, place) for rows, place in zip(parts, here, strict=True)])


def _coordinates(places: Sequence[Place]) -> tuple[Float64s, Float64s]:
    if isinstance(places, np.ndarray) and places.ndim == 2 and places.shape[1] == 2:
        lon, lat = np.ascontiguousarray(places.T, np.float64)
        if ((np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)).all():
            return lon + 0.0, lat + 0.0
    points = [point_of(place) for place in places]
    return np.array([point.lon for point in points]), np.array([point.lat for point in points])


def _moved_circles(rows: Rows, lon: Float64s, lat: Float64s, reader: Reader) -> Rows | None:
    """The rows around these places, if each row has one circle there and nothing else about the place; otherwise None."""
    attribute = reader.schema.get(PLACE)
    if attribute is None or len(attribute.dims) != 2:
        return None
    first, second = attribute.dims
    at = np.flatnonzero(rows.kinds == CIRCLE)
    box = np.flatnonzero((rows.kinds == INTERVAL) & (rows.dims == first))
    if not len(at) == len(box) == rows.size or not np.array_equal(box + 2, at):
        return None  # of an entry for longitudes, one for latitudes and one for a circle, in this order
    owner = np.searchsorted(rows.offsets, at, "right") - 1
    radius = rows.weight[at]
    if not (
        np.array_equal(owner, np.arange(rows.size))
        and (rows.kinds[at - 1] == JOINED).all()
        and (rows.dims[at] == first).all()
        and (radius > 0).all()
        and not ((rows.kinds == MORE) & ((rows.dims == first) | (rows.dims == second))).any()
    ):
        return None
    old = _boxes(rows.lo[at], rows.hi[at], radius)
    new = _boxes(lon, lat, radius)
    if old is None or new is None:
        return None
    is_whole = (rows.lo[box] == old[0]) & (rows.hi[box] == old[1])
    is_whole &= (rows.lo[at - 1] == old[2]) & (rows.hi[at - 1] == old[3])
    if not is_whole.all():
        return None
    lo, hi = rows.lo.copy(), rows.hi.copy()
    lo[box], hi[box], lo[at - 1], hi[at - 1] = new
    lo[at], hi[at] = lon, lat
    return rows._replace(lo=lo, hi=hi)


def _boxes(lon: Float64s, lat: Float64s, radius: Float64s) -> tuple[Any, ...] | None:
    """West, east, south and north of the boxes around circles; None if one reaches a pole or the antimeridian."""
    if len(lon) == 1:
        return _box(float(lon[0]), float(lat[0]), float(radius[0]), math.sqrt)
    return _box(lon, lat, radius, np.sqrt)


def _box(lon: Any, lat: Any, radius: Any, sqrt: Any) -> tuple[Any, ...] | None:
    reach = reach_of(radius)
    south, north = lat - reach, lat + reach
    if not np.all((south > -90.0) & (north < 90.0)):
        return None
    width = width_of(lat, radius, sqrt)
    west, east = lon - width, lon + width
    if not np.all((west > -180.0) & (east < 180.0)):
        return None
    return west + 0.0, east + 0.0, south + 0.0, north + 0.0
