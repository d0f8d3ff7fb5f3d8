"""What the wide forms of subscriptions and of events share: a column as the keys of an attribute."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchwood.encode import heads
from matchwood.encode.arrays import Float64s, Int64s
from matchwood.encode.arrow_keys import Cells, arrow_type, cells, learnt
from matchwood.encode.flat import Entries, IntervalSets, entries_of
from matchwood.encode.rejects import Faults
from matchwood.errors import SchemaError, UnknownAttributeError, ValueTypeError
from matchwood.schema import Attribute, Schema, Type

Found = tuple[Attribute, IntervalSets] | None
"""The attribute of a column and an interval set for each of its values; None if it has none."""


def known_or_learnable(attribute: str, column: str, schema: Schema) -> None:
    if not schema.learn and attribute not in schema:
        raise UnknownAttributeError(
            f"column {column!r}: attribute {attribute!r} is not in the schema; declare it first"
        )


def check_ordered(array: Any, column: str, name: str, schema: Schema) -> None:
    """Refuse ends that are strings, unless the attribute is a declared timestamp, and those of ids: they have no order."""
    known = schema.get(name)
    if known is not None and known.type is Type.ID:
        raise SchemaError(f"column {column!r}: attribute {name!r} is an id; ids have no order, use equality or a list")
    if heads.scalar_type(array, column) is Type.STRING and (known is None or known.type is not Type.TIMESTAMP):
        raise SchemaError(
            f"column {column!r}: strings have no order and cannot be ends of an interval; got the Arrow type {array.type}"
        )


def read_cells(
    name: str, column: str, array: Any, schema: Schema, faults: Faults, *, register: bool
) -> tuple[Attribute, Cells] | None:
    """The keys of a column; None if it has no values, from which the schema learns nothing."""
    try:
        type_ = arrow_type(array.type)
    except SchemaError as error:
        raise error.about(f"column {column!r}") from None
    known = schema.get(name)
    if type_ is None or (array.null_count == len(array) and (known is None or known.type is None)):
        return None
    attribute = learnt(schema, name, type_, column, array.type)
    read = cells(array, attribute, register=register)
    heads.note_bad(read.bad, name, faults)
    return attribute, read


def refuse_nan(name: str, records: Int64s, faults: Faults) -> None:
    faults.add_each(records, lambda _: ValueTypeError(f"attribute {name!r}: expected a number, got NaN"))


def one_attribute(attribute: Attribute, sets: IntervalSets, weight: Float64s, *, events: bool) -> Entries:
    n = len(weight)
    return entries_of(sets, np.arange(n), np.full(n, attribute.dims[0], np.uint16), weight, events=events)
