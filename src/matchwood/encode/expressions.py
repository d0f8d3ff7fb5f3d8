"""The expression of a record, from text or JSON, as rows."""

from __future__ import annotations

import json

from matchwood.errors import ExpressionError
from matchwood.lang.expression import Expression, all_of
from matchwood.lang.json_form import from_json
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.rows import Row, normalise
from matchwood.schema import Schema


def subscription_rows(
    expression: object, circle: DWithin | None, schema: Schema, limits: Limits = DEFAULT_LIMITS
) -> tuple[Row, ...]:
    """The rows of an expression (text, JSON text or a JSON value) and a circle around a place."""
    tree = read_expression(expression, limits)
    return normalise(tree if circle is None else all_of(tree, circle), schema, limits=limits)


def read_expression(expression: object, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """An expression from text, JSON text (which begins with a brace) or a JSON value."""
    if expression is None:
        raise ExpressionError("the expression is null; use TRUE to match every event")
    if not isinstance(expression, str):
        return from_json(expression)
    if not expression.lstrip().startswith("{"):
        return parse(expression, limits=limits)
    limits.check_length(len(expression))
    try:
        return from_json(json.loads(expression))
    except (ValueError, RecursionError) as error:
        raise ExpressionError(f"the expression is not JSON: {error}") from None
