"""Moving subscribers in bulk: the rows of subscriptions with their conditions on the place moved.

Nearly all who move ask for one circle away from the poles and the antimeridian. Their rows are moved column by column, to the
same bits as `lang.moving.moved`, which moves all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from matchwood.encode.arrays import CIRCLE, INTERVAL, JOINED, Float64s, Int64s, Rows, concatenate_rows
from matchwood.encode.picking import pick_rows
from matchwood.engine.reading import Place, Reader
from matchwood.engine.subscriptions import Subscriptions
from matchwood.errors import SubscriptionError
from matchwood.lang.event import PLACE
from matchwood.lang.places import reach_of, width_of
from matchwood.schema import Point, point_of


def moved_rows(subscriptions: Subscriptions, ids: Int64s, places: Sequence[Place], reader: Reader) -> tuple[Rows, Rows]:
    """The rows of these subscriptions as they are, and with their conditions on the place moved there. O(entries).

    Raises `ExpressionError` if one cannot be moved, `ValueTypeError` if a place is none.
    """
    if len(ids) != len(places):
        raise SubscriptionError(f"expected a place for each of {len(ids)} subscriptions, got {len(places)}")
    before = subscriptions.rows_of_many(ids)
    if before.size == 1:
        point = point_of(places[0])
        moved = _moved_circle(before, point, reader)
        return before, reader.moved(before, point) if moved is None else moved
    lon, lat = _coordinates(places)
    if not before.size:
        return before, before
    owner = np.cumsum(np.concatenate([[True], before.ids[1:] != before.ids[:-1]])) - 1
    moved = _moved_circles(before, lon[owner], lat[owner], reader)
    if moved is not None:
        return before, moved
    parts = [pick_rows(before, np.flatnonzero(owner == i)) for i in range(len(ids))]
    here = list(zip(lon.tolist(), lat.tolist(), strict=True))
    return before, concatenate_rows([reader.moved(rows, place) for rows, place in zip(parts, here, strict=True)])


def _coordinates(places: Sequence[Place]) -> tuple[Float64s, Float64s]:
    try:
        pairs = np.array(places)
    except ValueError:  # of different lengths
        pairs = np.zeros(0)
    if pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "if":
        lon, lat = np.ascontiguousarray(pairs.T, np.float64)
        if ((np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)).all():
            return lon + 0.0, lat + 0.0
    points = [point_of(place) for place in places]
    return np.array([point.lon for point in points]), np.array([point.lat for point in points])


def _moved_circle(row: Rows, place: Point, reader: Reader) -> Rows | None:
    """As `_moved_circles` for one row."""
    attribute, kinds = reader.schema.get(PLACE), row.kinds.tolist()
    if attribute is None or kinds.count(CIRCLE) != 1:
        return None
    at = kinds.index(CIRCLE)
    if kinds[at - 2 : at] != [INTERVAL, JOINED] or row.dims[at] != attribute.dims[0]:
        return None
    radius, lon, lat = float(row.weight[at]), float(row.lo[at]), float(row.hi[at])
    old, new = _box(lon, lat, radius, math.sqrt), _box(place.lon, place.lat, radius, math.sqrt)
    if old is None or new is None or radius < 0:
        return None
    lo, hi = row.lo.copy(), row.hi.copy()
    if (lo[at - 2], hi[at - 2], lo[at - 1], hi[at - 1]) != old:
        return None
    lo[at - 2], hi[at - 2], lo[at - 1], hi[at - 1] = new
    lo[at], hi[at] = place
    return row._replace(lo=lo, hi=hi)


def _moved_circles(rows: Rows, lon: Float64s, lat: Float64s, reader: Reader) -> Rows | None:
    """The rows around these places, if each has one circle there and its box, in one piece; otherwise None.

    That is three entries: longitudes, latitudes, circle.
    """
    attribute = reader.schema.get(PLACE)
    at = np.flatnonzero(rows.kinds == CIRCLE)
    if attribute is None or len(at) != rows.size or at[0] < 2:
        return None
    radius = rows.weight[at]
    is_usual = (np.searchsorted(rows.offsets, at, "right") == np.arange(1, rows.size + 1)) & (radius > 0)
    is_usual &= (rows.kinds[at - 2] == INTERVAL) & (rows.kinds[at - 1] == JOINED) & (rows.dims[at] == attribute.dims[0])
    if not is_usual.all():
        return None
    old, new = _box(rows.lo[at], rows.hi[at], radius, np.sqrt), _box(lon, lat, radius, np.sqrt)
    if old is None or new is None:
        return None
    is_whole = (rows.lo[at - 2] == old[0]) & (rows.hi[at - 2] == old[1])
    is_whole &= (rows.lo[at - 1] == old[2]) & (rows.hi[at - 1] == old[3])
    if not is_whole.all():
        return None
    lo, hi = rows.lo.copy(), rows.hi.copy()
    lo[at - 2], hi[at - 2], lo[at - 1], hi[at - 1] = new
    lo[at], hi[at] = lon, lat
    return rows._replace(lo=lo, hi=hi)


def _box(lon: Any, lat: Any, radius: Any, sqrt: Any) -> tuple[Any, ...] | None:
    """West, east, south and north of the boxes around circles; None if one reaches a pole or the antimeridian."""
    reach = reach_of(radius)
    south, north = lat - reach, lat + reach
    if not _all((south > -90.0) & (north < 90.0)):
        return None
    width = width_of(lat, radius, sqrt)
    west, east = lon - width, lon + width
    return (west + 0.0, east + 0.0, south + 0.0, north + 0.0) if _all((west > -180.0) & (east < 180.0)) else None


def _all(truth: Any) -> bool:
    return truth if isinstance(truth, bool) else bool(truth.all())
