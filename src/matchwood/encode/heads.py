"""The columns that every table may have besides its conditions or values: `id`, `priority`, `until`, and a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import arrow_type, cell_error, cells, content, fits, plain_cells, valid
from matchwood.encode.circles import Circles
from matchwood.encode.rejects import NO_ID, Faults
from matchwood.errors import EventError, ExpressionError, MatchwoodError, SchemaError, SubscriptionError, ValueTypeError
from matchwood.schema import Attribute, Type

PLACE_COLUMNS = ("lon", "lat", "radius")


def column(batch: Any, name: str) -> Any:
    """A column of a batch, None if there is none; `SchemaError` if the name is not unique."""
    places = batch.schema.get_all_field_indices(name)
    if len(places) > 1:
        raise SchemaError(f"there are {len(places)} columns {name!r}; rename or drop all but one")
    return batch.column(places[0]) if places else None


def read_ids(batch: Any, faults: Faults, *, required: bool) -> Int64s:
    """The ids, NO_ID for none. Negative ids fail, and missing ones if ids are required."""
    array = column(batch, "id")
    if array is None:
        if required:
            raise SchemaError(f"there is no column 'id'; the columns are {', '.join(batch.schema.names) or 'none'}")
        return np.full(batch.num_rows, NO_ID)
    if not pa.types.is_integer(array.type) and not pa.types.is_null(array.type):
        raise SchemaError(f"column 'id': expected integers, got the Arrow type {array.type}")
    kind = SubscriptionError if required else EventError
    present = valid(array)
    if required:
        faults.add_each(np.flatnonzero(~present), lambda _: kind("the id is null"))
    if pa.types.is_null(array.type):
        return np.full(batch.num_rows, NO_ID)
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((values > 2**63 - 1) if values.dtype == np.uint64 else (values < 0))
    faults.add_each(wrong, lambda i: kind(f"expected an id from 0 to 2**63 - 1, got {values[wrong[i]]}"))
    ids: Int64s = values.astype(np.int64)
    ids[~present] = NO_ID
    ids[wrong] = NO_ID
    return ids


def read_numbers(
    batch: Any, name: str, faults: Faults, *, missing: float, error: type[MatchwoodError] = ValueTypeError
) -> Float64s:
    """A column of finite numbers, `missing` for null or if there is no such column."""
    array = column(batch, name)
    if array is None or pa.types.is_null(array.type):
        return np.full(batch.num_rows, missing)
    if scalar_type(array, name) is not Type.NUMBER:
        raise SchemaError(f"column {name!r}: expected numbers, got the Arrow type {array.type}")
    keys, present, bad = plain_cells(array)
    for i, cause in bad.items():
        faults.add(i, cell_error(cause, name))
    wrong = np.flatnonzero(present & ~np.isfinite(keys))
    faults.add_each(wrong, lambda i: error(f"{name}: expected a finite number, got {keys[wrong[i]]}"))
    return np.where(present, keys, missing)


def read_until(batch: Any, faults: Faults) -> Float64s:
    """The column `until` in microseconds, inf for null or if there is no such column."""
    array = column(batch, "until")
    if array is None or pa.types.is_null(array.type):
        return np.full(batch.num_rows, np.inf)
    if not fits(Type.TIMESTAMP, scalar_type(array, "until")):
        raise SchemaError(f"column 'until': expected timestamps, got the Arrow type {array.type}")
    keys, present, bad = cells(array, Attribute("until", Type.TIMESTAMP, ()), register=False)
    for i, cause in bad.items():
        faults.add(i, cell_error(cause, "until"))
    return np.where(present, keys, np.inf)


def read_circles(batch: Any, faults: Faults) -> Circles | None:
    """The circles of the columns lon, lat and radius; a record has none if all three are null. O(records) vectorised."""
    arrays = [column(batch, name) for name in PLACE_COLUMNS]
    if all(array is None for array in arrays):
        return None
    for name, array in zip(PLACE_COLUMNS, arrays, strict=True):
        if array is None:
            raise SchemaError(f"there is no column {name!r}; a place needs lon, lat and radius")
    given = [valid(array) for array in arrays]
    lon, lat, radius = (
        read_numbers(batch, name, faults, missing=np.nan, error=ExpressionError) for name in PLACE_COLUMNS
    )
    whole = np.all(given, axis=0)
    partly = np.flatnonzero(np.any(given, axis=0) & ~whole)
    faults.add_each(partly, lambda _: ExpressionError("a place needs lon, lat and radius; one of them is null"))
    inside = (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)
    wrong = np.flatnonzero(whole & ~inside)
    faults.add_each(wrong, lambda i: ExpressionError(f"place: {off_the_map(lon[wrong[i]], lat[wrong[i]])}"))
    small = np.flatnonzero(whole & ~(radius > 0.0))
    faults.add_each(small, lambda i: ExpressionError(f"place: expected a radius > 0, got {radius[small[i]]}"))
    good = np.flatnonzero(whole & inside & (radius > 0.0))
    return Circles(good, lon[good], lat[good], radius[good])


def off_the_map(lon: float, lat: float) -> str:
    return f"expected a longitude in -180..180 and a latitude in -90..90, got ({lon}, {lat})"


def scalar_type(array: Any, name: str) -> Type | None:
    """The type of a column's scalars; an error names the column."""
    try:
        return arrow_type(array.type)
    except SchemaError as error:
        raise error.about(f"column {name!r}") from None


def note_bad(bad: dict[int, MatchwoodError], name: str, faults: Faults) -> None:
    """Record the errors of a column that has one cell for each record."""
    for i, error in bad.items():
        faults.add(i, cell_error(error, f"attribute {name!r}"))


def record_content(batch: Any) -> Callable[[int], dict[str, object]]:
    """A function that returns a record of the batch as it was read."""
    return lambda i: {name: content(array, i) for name, array in zip(batch.schema.names, batch.columns, strict=True)}
