"""The operations of JSON: what each is called, how many arguments it has, and what is said of an operation that is none."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

from matchwood.errors import ExpressionError
from matchwood.lang import temporal_json
from matchwood.lang.operators import ListOperator, Operator, Quantifier, SpatialOperator
from matchwood.lang.text_tests import TextOperator
from matchwood.schema import describe

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 60, 60

LIST_OPERATORS = {operator.value: operator for operator in ListOperator}
QUANTIFIERS = {quantifier.value: quantifier for quantifier in Quantifier}
SPATIAL = {operator.value: operator for operator in SpatialOperator}
COMPARISONS = {"!=": Operator.NE, **{("<>" if o is Operator.NE else o.value): o for o in Operator}}
NEGATABLE = ("between", "in", "isNull", "like")
QUANTIFIABLE = (*COMPARISONS, "between", "in", "like", *map(str, TextOperator))
OPERATIONS: dict[str, tuple[int | None, tuple[str, ...]]] = {
    "and": (None, ()),
    "or": (None, ()),
    "not": (1, ("prefix",)),
    **dict.fromkeys(COMPARISONS, (2, ("weight", "decay"))),
    "between": (3, ("weight", "decay")),
    "in": (2, ("weight", "decay")),
    "isNull": (1, ("weight", "decay")),
    **dict.fromkeys(map(str, ListOperator), (2, ("weight",))),
    "like": (2, ("weight",)),
    **dict.fromkeys(map(str, TextOperator), (2, ("weight",))),
    "s_dwithin": (3, ("weight", "decay", "shape")),
    **dict.fromkeys(map(str, SpatialOperator), (2, ("weight", "decay"))),
    **dict.fromkeys(temporal_json.FUNCTIONS, (2, ("weight",))),
    **dict.fromkeys(QUANTIFIERS, (2, ("weight",))),
}
"""Each op, the number of its arguments (None: any number), and its keys besides "op" and "args"."""


def described(value: object) -> str:
    """A value and its class. Unlike `schema.describe`, shows the outer levels of a deeply nested list."""
    try:
        return f"{_SHORT.repr(value)} ({type(value).__name__})"
    except Exception:  # an integer of more than 4300 digits, which Python does not write, or a `repr` of the user's own
        return describe(value)


def error_at(path: str, message: str) -> ExpressionError:
    """An error whose message begins with the place in the JSON."""
    return ExpressionError(message).about(path)


def unsupported(op: object) -> str:
    """What to say about an op that is not supported, by the kind of construct."""
    if not isinstance(op, str):
        return ""
    if op in ("+", "-", "*", "/", "%", "^", "div"):
        return f"; arithmetic is not supported, got {op!r}"
    if op in ("casei", "accenti"):
        return f"; {op!r} is used in place of a property or of a string"
    if op.startswith("s_"):
        return f"; this spatial function is not supported, got {op!r}"
    return "" if op in OPERATIONS else f"; functions are not supported, got {op!r}"


def unsupported_call(value: object) -> str:
    """What to say about an operand that is a construct of CQL2 without a counterpart here."""
    if not isinstance(value, Mapping):
        return ""
    interval = "; an interval is an argument of a temporal function such as t_during"
    return interval if "interval" in value else unsupported(value.get("op"))
