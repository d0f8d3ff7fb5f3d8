"""Alternatives on one attribute are merged before they are multiplied out: fewer rows, the same matches and scores.

The plain normal form is made here by multiplying out everything, and both are judged by the oracle. Weights are sums of powers of
two, so that every order of adding them gives the same bits.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood.errors import NeverMatchesError, TooComplexError
from matchwood.lang.evaluate import Mode, judge
from matchwood.lang.event import Event, event_keys
from matchwood.lang.expression import And, Constant, Expression, Not, Or, Predicate, all_of, any_of
from matchwood.lang.leaves import leaf_predicates, settled
from matchwood.lang.limits import Limits
from matchwood.lang.parser import parse
from matchwood.lang.row import can_hold
from matchwood.lang.rows import Absent, Holds, Row, RowPredicate, conjunction, normalise
from matchwood.schema import Schema
from tests.worlds import TYPES, Dice, a_predicate, an_event, seeded_dice

NAMES = ("age", "age", "age", "plan", "vip", "place")


def multiplied_out(expression: Expression, schema: Schema, *, negated: bool = False) -> list[tuple[RowPredicate, ...]]:
    if isinstance(expression, Not):
        return multiplied_out(expression.child, schema, negated=not negated)
    if isinstance(expression, Constant):
        return [()] if expression.value is not negated else []
    if isinstance(expression, And | Or):
        parts = [multiplied_out(child, schema, negated=negated) for child in expression.children]
        if isinstance(expression, Or) is not negated:
            return [row for part in parts for row in part]
        return [tuple(p for row in choice for p in row) for choice in product(*parts)]
    assert isinstance(expression, Predicate)
    return [(found,) for found in leaf_predicates(expression, schema, negated)]


def plain_rows(expression: Expression, schema: Schema) -> list[Row]:
    rows = []
    for predicates in multiplied_out(expression, schema):
        try:
            rows.append(conjunction(predicates))
        except NeverMatchesError:
            continue
    return [row for row in rows if all(settled(p, schema) is not None and can_hold(p) for p in row.predicates)]


def dyadic(dice: Dice, predicate: Predicate) -> Predicate:
    return predicate ^ dice.one([0.0, 0.25, 0.5, 1.0, 1.0, 2.0])


def conjunction_of_alternatives(dice: Dice) -> Expression:
    """ANDs of ORs, most of them on one attribute."""
    parts: list[Expression] = []
    for _ in range(2 + dice.below(4)):
        name = dice.one(NAMES)
        names = NAMES if dice.chance(4) else (name,)
        children: list[Expression] = [dyadic(dice, a_predicate(dice, names)) for _ in range(2 + dice.below(2))]
        if dice.chance(3):
            children.append(parse(f"{name} IS NULL ^0.5"))
        part = any_of(*children)
        parts.append(Not(part) if dice.chance(5) else part)
    return all_of(*parts)


def assert_same_judgements(expression: Expression, events: list[Event]) -> None:
    schema = Schema(TYPES)
    plain = plain_rows(expression, schema)
    try:
        merged = normalise(expression, schema, limits=Limits(max_rows=100_000, max_entries=10**7))
    except NeverMatchesError:
        merged = ()
    assert len(merged) <= len(plain)
    for event in events:
        keys = event_keys(event, schema)
        for mode in Mode:
            found, expected = judge(merged, keys, mode=mode), judge(plain, keys, mode=mode)
            assert (found.matched, found.score) == (expected.matched, expected.score), (str(expression), event, mode)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_merging_changes_neither_matches_nor_scores(data: st.DataObject) -> None:
    dice = Dice(lambda n: data.draw(st.integers(0, n - 1)))
    events = [an_event(dice) for _ in range(2)]
    assert_same_judgements(
        conjunction_of_alternatives(dice), [Event(e.values, dict.fromkeys(e.weights, 0.5)) for e in events]
    )


@pytest.mark.parametrize("seed", range(150))
def test_merging_changes_neither_matches_nor_scores_on_many_events(seed: int) -> None:
    dice = seeded_dice(seed)
    events = [an_event(dice) for _ in range(10)]
    assert_same_judgements(
        conjunction_of_alternatives(dice), [Event(e.values, dict.fromkeys(e.weights, 2.0)) for e in events]
    )


@pytest.mark.parametrize("count", [2, 10, 3000])
def test_unequal_or_absent_many_times_is_two_rows(count: int) -> None:
    text = " AND ".join(f"(x != {i} OR x IS NULL)" for i in range(count))
    present, absent = (row.predicates for row in normalise(parse(text), Schema()))
    assert absent == (Absent("x", float(count)),)
    (held,) = present
    assert isinstance(held, Holds)
    assert held.weight == count
    assert len(held.keys.parts) == count + 1


def test_attributes_are_merged_each_on_its_own_and_then_multiplied() -> None:
    text = " AND ".join(f"({name} != {i} OR {name} IS NULL)" for i in range(50) for name in ("x", "y", "z"))
    rows = normalise(parse(text), Schema())
    assert len(rows) == 8
    assert [[p.attribute for p in row.predicates] for row in rows] == [["x", "y", "z"]] * 8


def test_alternatives_of_equal_total_weight_unite() -> None:
    found = normalise(parse("(x = 1 ^1 OR x = 2 ^2) AND (x < 5 ^2 OR x < 6 ^1)"), Schema())
    assert {(p.weight, len(p.keys.parts)) for row in found for p in row.predicates if isinstance(p, Holds)} == {
        (3.0, 2),
        (2.0, 1),
        (4.0, 1),
    }


def test_a_row_names_its_attributes_in_the_same_order_as_without_merging() -> None:
    text = "(x != 1 OR x IS NULL) AND y = 1 AND (a = 1 OR b = 1) AND (x != 2 OR x IS NULL)"
    orders = [[p.attribute for p in row.predicates] for row in normalise(parse(text), Schema())]
    assert orders == [["x", "y", "a"], ["x", "y", "b"]] * 2


def test_alternatives_that_exclude_each_other_on_one_attribute_are_refused_with_the_reason() -> None:
    with pytest.raises(NeverMatchesError, match="the conditions on 'x' exclude each other"):
        normalise(parse("(x = 1 OR x = 2 ^2) AND (x = 3 OR x IS NULL) AND (y = 1 OR z = 1)"), Schema())


def test_alternatives_on_one_attribute_whose_weights_all_differ_are_refused_past_the_limit() -> None:
    text = " AND ".join(f"(x != {i} ^{2**i} OR x != {-i} ^{3**i})" for i in range(1, 30))
    with pytest.raises(TooComplexError, match=r"the limit is 1000 \(max_rows\)"):
        normalise(parse(text), Schema())
