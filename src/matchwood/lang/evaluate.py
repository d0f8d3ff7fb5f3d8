"""The oracle: the definition of matching, scoring and order in plain Python. Every fast path must agree with it.

    holds     one predicate and one event
    closeness how close the event's value is to the best one, for graded predicates
    judge     one subscription (its rows) and one event: does it match, with which score, and why
    rank      many subscriptions and one event, best first

A judgement is also the explanation: it has the verdict on every predicate. There is no second implementation for explaining.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from matchwood.errors import QueryError
from matchwood.lang.event import EventKeys
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.row import Absent, Holds, Row, RowPredicate
from matchwood.schema import Point

Combine = Callable[[float, float], float]
"""(score so far, weight of a predicate that holds) -> score. Must be monotone in both and never lower the score."""


class Mode(StrEnum):
    """`all`: every predicate of a row holds. `any`: at least one does (relaxed matching)."""

    ALL = "all"
    ANY = "any"


def add(score: float, weight: float) -> float:
    """The default: the weighted sum."""
    return score + weight


@dataclass(frozen=True, slots=True)
class PredicateVerdict:
    """One predicate, the event's value (None if absent), whether it held, what it added, and the closeness of its grades."""

    predicate: RowPredicate
    value: IntervalSet | Point | None
    held: bool
    weight: float
    closeness: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """One row: every predicate's verdict, whether the row matched, and its score (of the predicates that held)."""

    predicates: tuple[PredicateVerdict, ...]
    matched: bool
    score: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """One subscription: matched if a row did; the score is the best matching row's, None if none matched."""

    rows: tuple[RowVerdict, ...]
    matched: bool
    score: float | None


def holds(predicate: RowPredicate, event: EventKeys) -> bool:
    """Does the predicate hold for the event? For an absent attribute only a test for absence holds."""
    value = event.values.get(predicate.attribute)
    if isinstance(predicate, Absent):
        return value is None
    if value is None:
        return False
    if isinstance(predicate, Holds):
        if isinstance(value, Point):  # IS NOT NULL on a point attribute
            return True
        return (
            predicate.keys.meets(value)
            and not predicate.none.meets(value)
            and all(count.holds(value) for count in predicate.counts)
        )
    assert isinstance(value, Point)
    return (
        value.lon in predicate.lon
        and value.lat in predicate.lat
        and all(circle.holds(value) for circle in predicate.circles)
        and all(region.holds(value) for region in predicate.regions)
    )


def closeness(predicate: RowPredicate, event: EventKeys) -> tuple[float, ...]:
    """The closeness of each grade of a predicate that holds: that of the best value for which it holds."""
    if isinstance(predicate, Absent) or not predicate.grades:
        return ()
    value = event.values[predicate.attribute]
    if isinstance(predicate, Holds):
        assert isinstance(value, IntervalSet)
        return tuple(grade.of_keys(predicate.keys & value) for grade in predicate.grades)
    assert isinstance(value, Point)
    return tuple(grade.of_place(value) for grade in predicate.grades)


def gain(predicate: RowPredicate, close: tuple[float, ...]) -> float:
    """The weight of a predicate that holds, and of its grades by their closeness."""
    weight = predicate.weight
    if not isinstance(predicate, Absent):
        for grade, closeness in zip(predicate.grades, close, strict=True):
            weight += grade.weight * closeness
    return weight


def judge(
    rows: Sequence[Row], event: EventKeys, *, priority: float = 0.0, mode: Mode | str = Mode.ALL, combine: Combine = add
) -> Judgement:
    """Judge one subscription, given by its rows, against one event."""
    verdicts = tuple(_judge_row(row, event, priority, mode_of(mode), combine) for row in rows)
    scores = [verdict.score for verdict in verdicts if verdict.matched]
    return Judgement(verdicts, bool(scores), max(scores, default=None))


def rank(
    subscriptions: Iterable[tuple[int, float, Sequence[Row]]],
    event: EventKeys,
    *,
    k: int | None = None,
    mode: Mode | str = Mode.ALL,
    combine: Combine = add,
) -> list[tuple[int, float]]:
    """(id, score) of the matching subscriptions among (id, priority, rows), best score first, then smallest id; the first k."""
    judged = [
        (id_, judge(rows, event, priority=priority, mode=mode, combine=combine).score)
        for id_, priority, rows in subscriptions
    ]
    found = [(id_, score) for id_, score in judged if score is not None]
    found.sort(key=lambda match: (-match[1], match[0]))
    return found if k is None else found[:k]


def mode_of(mode: Mode | str) -> Mode:
    """The mode of that name; `QueryError` if there is none."""
    if type(mode) is Mode:
        return mode
    try:
        return Mode(mode)
    except ValueError:
        raise QueryError(f"expected mode 'all' or 'any', got {mode!r}") from None


def _judge_row(row: Row, event: EventKeys, priority: float, mode: Mode, combine: Combine) -> RowVerdict:
    score = priority
    verdicts = []
    for predicate in row.predicates:
        held = holds(predicate, event)
        close = closeness(predicate, event) if held else ()
        weight = gain(predicate, close) * event.weight(predicate.attribute) if held else 0.0
        if held:
            score = combine(score, weight)
        verdicts.append(PredicateVerdict(predicate, event.values.get(predicate.attribute), held, weight, close))
    matched = (all if mode is Mode.ALL else any)(verdict.held for verdict in verdicts)
    return RowVerdict(tuple(verdicts), matched, score)
