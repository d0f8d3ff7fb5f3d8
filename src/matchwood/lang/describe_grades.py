"""Grades of rows as the DECAY of conditions, for `describe`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from matchwood.lang.decay import Decay
from matchwood.lang.expression import Expression, Not, Predicate
from matchwood.lang.grade import Grade, decay_of
from matchwood.lang.leaves import direction
from matchwood.lang.operators import Operator
from matchwood.lang.place_predicates import DWithin
from matchwood.lang.predicates import Compare, IsNull
from matchwood.lang.row import Absent, RowPredicate
from matchwood.schema import Attribute, Schema


def with_grades(conditions: Sequence[Expression], predicate: RowPredicate, schema: Schema) -> list[Expression]:
    """The conditions of a predicate and its grades.

    The first grade goes to the first condition, if that has no weight of its own and the same open end. The others go to
    conditions that every value meets.
    """
    found = list(conditions)
    if isinstance(predicate, Absent) or not predicate.grades:
        return found
    known = schema.find(predicate.attribute)
    grades = list(predicate.grades)
    if predicate.weight == 0.0:
        first = _graded(found[0], grades[0], known, schema)
        if first is not None:
            found[0] = first
            del grades[0]
    return found + [_alone(grade, known, schema) for grade in grades]


def _graded(condition: Expression, grade: Grade, known: Attribute, schema: Schema) -> Expression | None:
    """The condition with the grade; None if it cannot have that one."""
    if isinstance(condition, Not):
        inner = _graded(condition.child, grade, known, schema)
        return None if inner is None else Not(inner)
    decay, towards = decay_of(grade, known, schema)
    if not isinstance(condition, Predicate) or not condition.takes_decay or direction(condition) != towards:
        return None
    if isinstance(condition, DWithin):
        decay = _shortened(decay, grade, condition)
    return replace(condition, weight=grade.weight, grade=decay)


def _shortened(decay: Decay, grade: Grade, circle: DWithin) -> Decay:
    """Without what the circle implies."""
    if grade.best != (circle.centre.lon, circle.centre.lat):
        return decay
    implied = grade.scale == circle.radius - grade.offset
    return replace(decay, origin=None, scale=None if implied else decay.scale)


def _alone(grade: Grade, known: Attribute, schema: Schema) -> Expression:
    """A condition that every value meets, with the grade."""
    decay, towards = decay_of(grade, known, schema)
    if towards == 0:
        return IsNull(known.name, grade.weight, negated=True, grade=decay)
    operator, end = (Operator.LE, math.inf) if towards < 0 else (Operator.GE, -math.inf)
    return Compare(known.name, grade.weight, operator=operator, value=end, grade=decay)
