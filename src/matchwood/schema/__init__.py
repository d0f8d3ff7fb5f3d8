"""Attributes, their types, and the float64 keys that stand for their values."""

from matchwood.schema.keys import UNKNOWN_SYMBOL, check_microseconds, exact_key, instant_key
from matchwood.schema.schema import Schema
from matchwood.schema.symbols import Symbols
from matchwood.schema.types import CODED, MAX_DIMENSIONS, Attribute, Point, Range, Scalar, Type
from matchwood.schema.values import describe, is_missing, point_of, type_of, unwrapped

__all__ = [
    "CODED",
    "MAX_DIMENSIONS",
    "UNKNOWN_SYMBOL",
    "Attribute",
    "Point",
    "Range",
    "Scalar",
    "Schema",
    "Symbols",
    "Type",
    "check_microseconds",
    "describe",
    "exact_key",
    "instant_key",
    "is_missing",
    "point_of",
    "type_of",
    "unwrapped",
]
