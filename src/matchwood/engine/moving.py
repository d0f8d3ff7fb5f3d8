"""Moving subscribers: places as arrays, and the rows of subscriptions that the store cannot move in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Rows, concatenate_rows
from matchwood.engine.reading import Place, Reader
from matchwood.engine.subscriptions import Subscriptions
from matchwood.schema import point_of

FEW = 8
"""Places that are read one by one: for them it takes less time than to make an array of them all."""


def coordinates(places: Sequence[Place]) -> tuple[Float64s, Float64s]:
    """The longitudes and latitudes of places; `ValueTypeError` if one is none. O(places)."""
    if len(places) > FEW:
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


def moved_rows(
    subscriptions: Subscriptions, ids: Int64s, lon: Float64s, lat: Float64s, reader: Reader
) -> tuple[Rows, Rows]:
    """The rows of these subscriptions as they are, and with their conditions on the place moved there. O(entries).

    Raises `ExpressionError` if one cannot be moved.
    """
    before = [subscriptions.rows_of(id_) for id_ in ids.tolist()]
    here = zip(lon.tolist(), lat.tolist(), strict=True)
    moved = [reader.moved(rows, place) for rows, place in zip(before, here, strict=True)]
    return concatenate_rows(before), concatenate_rows(moved)
