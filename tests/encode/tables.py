"""Random subscriptions and events of `tests.worlds`, written as tables and as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from matchwood.encode.arrays import Events, Rows
from matchwood.lang.event import Event
from matchwood.lang.expression import Predicate
from matchwood.lang.operators import Operator
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.schema import Point, Range
from tests.worlds import TYPES, WEIGHTS, Dice, a_value

INSTANT = pa.timestamp("us", "UTC")
ARROW = {"number": pa.float64(), "string": pa.string(), "bool": pa.bool_(), "timestamp": INSTANT}
PREDICATE = pa.struct(
    [
        ("attribute", pa.string()),
        ("lo", pa.float64()),
        ("hi", pa.float64()),
        ("lo_time", INSTANT),
        ("hi_time", INSTANT),
        ("text", pa.string()),
        ("values", pa.list_(pa.string())),
        ("weight", pa.float64()),
    ]
)
SCALARS = [name for name, type_ in TYPES.items() if type_ != "point"]


def assert_same(found: Rows | Events, expected: Rows | Events) -> None:
    """Equal to the bit, NaN included."""
    for name, a, b in zip(found._fields, found, expected, strict=True):
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)


def a_conjunct(dice: Dice, name: str) -> Predicate:
    """A predicate that the list form and the wide form can state."""
    weight = dice.one(WEIGHTS)
    if TYPES[name] == "string":
        values = tuple(dice.some([a_value(dice, name) for _ in range(4)], 3))
        return In(name, weight, values=values)
    if TYPES[name] == "point" or dice.chance(8):
        return IsNull(name, weight, negated=True)
    kind = dice.below(3)
    lo, hi = sorted([a_value(dice, name), a_value(dice, name)])
    if dice.chance(12):
        lo, hi = hi, lo
    if kind == 0 and lo != -np.inf if TYPES[name] == "number" else kind == 0:
        return Compare(name, weight, operator=dice.one([Operator.GE, Operator.LE]), value=lo)
    return Between(name, weight, lo=lo, hi=hi)


def ends(predicate: Predicate) -> tuple[Any, Any]:
    """The ends of an interval, None where it is open."""
    match predicate:
        case Between(lo=lo, hi=hi):
            return lo, hi
        case Compare(operator=Operator.GE, value=value):
            return value, None
        case Compare(operator=Operator.LE, value=value):
            return None, value
    return None, None


def struct_of(predicate: Predicate) -> dict[str, Any]:
    """A predicate as a struct of the list form."""
    struct: dict[str, Any] = {"attribute": predicate.attribute, "weight": predicate.weight}
    if isinstance(predicate, In):
        struct |= {"values": list(predicate.values)} if len(predicate.values) > 1 else {"text": predicate.values[0]}
        return struct
    lo, hi = ends(predicate)
    if TYPES[predicate.attribute] == "timestamp":
        return struct | {"lo_time": lo, "hi_time": hi}
    return struct | {"lo": None if lo is None else float(lo), "hi": None if hi is None else float(hi)}


def wide_events(events: list[Event]) -> pa.Table:
    """Events as a wide table; each column takes the widest form that its values need."""
    columns: dict[str, Any] = {}
    for name, type_ in TYPES.items():
        values = [event.values.get(name) for event in events]
        if type_ == "point":
            point = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
            columns[name] = pa.array([v._asdict() if isinstance(v, Point) else None for v in values], point)
        elif any(isinstance(value, Range) for value in values):
            item = pa.struct([("lo", ARROW[type_]), ("hi", ARROW[type_])])
            columns[name] = pa.array(
                [None if v is None else [_ends(i) for i in _listed(v)] for v in values], pa.list_(item)
            )
        elif any(isinstance(value, list) for value in values):
            columns[name] = pa.array([None if v is None else _listed(v) for v in values], pa.list_(ARROW[type_]))
        else:
            columns[name] = pa.array(values, ARROW[type_])
    weights = [list(event.weights.items()) for event in events]
    columns["weights"] = pa.array(weights, pa.map_(pa.string(), pa.float64()))
    return pa.table(columns)


def listed_events(events: list[Event]) -> pa.Table:
    """Events in the list form; of points it takes `place` only."""
    rows = []
    for event in events:
        structs = []
        for name in SCALARS:
            weight = event.weights.get(name)
            for item in _listed(event.values.get(name)):
                struct: dict[str, Any] = {"attribute": name, "weight": weight}
                if TYPES[name] == "string":
                    struct["text"] = item
                else:
                    suffix = "_time" if TYPES[name] == "timestamp" else ""
                    convert = (lambda v: v) if suffix else float
                    struct |= {f"{end}{suffix}": convert(value) for end, value in _ends(item).items()}
                structs.append(struct)
        rows.append(structs)
    places = [event.values.get("place") for event in events]
    point = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
    return pa.table(
        {
            "values": pa.array(rows, pa.list_(PREDICATE)),
            "place": pa.array([None if p is None else p._asdict() for p in places], point),
        }
    )


def json_value(value: Any) -> Any:
    """An event's value as JSON lines have it."""
    if isinstance(value, Range):
        return {"min": json_value(value.lo), "max": json_value(value.hi)}
    if isinstance(value, Point):
        return {"type": "Point", "coordinates": list(value)}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat()}
    return value


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _ends(value: Any) -> dict[str, Any]:
    return {"lo": value.lo, "hi": value.hi} if isinstance(value, Range) else {"lo": value, "hi": value}
