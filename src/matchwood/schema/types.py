"""Attributes and their types.

An attribute has one *dimension* (a column of keys), a point attribute has two. Dimensions are assigned in order of appearance and
never change, so arrays that were encoded earlier stay valid while a schema learns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from matchwood.schema.symbols import Symbols

MAX_DIMENSIONS = 65_000


class Type(StrEnum):
    """The type of an attribute."""

    NUMBER = "number"
    STRING = "string"
    ID = "id"
    """Integers of any size that are only compared for equality: hashes, snowflake ids."""
    BOOL = "bool"
    TIMESTAMP = "timestamp"
    POINT = "point"
    OBJECTS = "objects"
    """A list of JSON objects, its *elements*, which `ANY(items, ...)` and `ALL(items, ...)` ask about (`lang.nested`)."""


CODED = frozenset((Type.STRING, Type.ID, Type.OBJECTS))
"""The types whose keys are codes of a dictionary: they have no order. The code of an object is that of its JSON text."""


ORDERS = {"ordered string": "text", "version": "version"}
"""The types of strings that are declared to have an order, and the orders (`patterns.orders`)."""


class Point(NamedTuple):
    """A place: longitude and latitude in degrees."""

    lon: float
    lat: float


class Range(NamedTuple):
    """A closed range as the value of an event: `Range(20, 30)`. None or an infinity is an open end."""

    lo: Any
    hi: Any


Scalar = int | float | str | bool | datetime


@dataclass(slots=True)
class Attribute:
    """A name, a type (None until it is learnt), dimensions, and symbols if the values are strings or ids."""

    name: str
    type: Type | None
    dims: tuple[int, ...]
    symbols: Symbols | None = None
    derived: tuple[Attribute, ...] = field(default=(), compare=False, repr=False)
    """The attributes that are computed from this one (`schema.functions`)."""
    order: str | None = None
    """Of a string that is declared to have one: how its values are ordered (`patterns.orders`)."""
    tester: Any = field(default=None, compare=False, repr=False)
    """Of a hidden attribute: what finds the tests that hold (`schema.testing`)."""

    @property
    def declared(self) -> str | None:
        """The type as it is declared; None if it is not known."""
        if self.order is not None:
            return next(name for name, order in ORDERS.items() if order == self.order)
        return None if self.type is None else self.type.value
