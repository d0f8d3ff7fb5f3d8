"""Normal form: an Expression as rows, each a conjunction with at most one predicate for each attribute.

    NOT   is pushed to the predicates: no value may meet what they ask for (an absent attribute still makes them false)
    AND   on one attribute intersects interval sets, unites what is excluded, and adds weights
          grades are kept, one by one
    OR    on one attribute of equal weight unites interval sets; otherwise it makes another row

Under an AND, the alternatives that name one and the same attribute only are merged first, then multiplied with the others: ten
times `(x != 1 OR x IS NULL)` are two rows, not 2^10.

The attributes of a row are in the order of their first condition. Rows that can never hold are dropped, in both modes of matching
(docs/decisions/contradictions.md); if none is left, the expression is refused with the reason. Interval sets contain the values
of the type of their attribute and nothing between them (`values_in`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from matchwood.errors import ExpressionError, NeverMatchesError, TooComplexError
from matchwood.lang.expression import And, Constant, Expression, Not, Or, Predicate
from matchwood.lang.grade import Grade, largest_gain
from matchwood.lang.intervals import EVERYTHING, IntervalSet
from matchwood.lang.leaves import leaf_predicates, nested_predicates, settled, values_in
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.nested import Nested, size_of
from matchwood.lang.place_predicates import Spatial
from matchwood.lang.regions import Part, Region
from matchwood.lang.row import Absent, Counted, DraftPredicate, Holds, Placed, Row, RowPredicate, Tested, can_hold
from matchwood.lang.temporal import Temporal, rewritten
from matchwood.lang.text_tests import together
from matchwood.patterns import Test
from matchwood.schema import Schema, Type

__all__ = ["Absent", "Holds", "Placed", "Row", "RowPredicate", "conjunction", "normalise"]

_LAZY_ALTERNATIVES = 32
"""Up to so many alternatives on one attribute are merged without looking whether they can hold."""


def normalise(expression: Expression, schema: Schema, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Row, ...]:
    """The rows of an expression, at least one. Cost grows with the product of the ORs under an AND, bounded by `limits`.

    Names, types and strings are looked up in the schema (and learnt, if it learns). Raises `TooComplexError` past a
    limit, `NeverMatchesError` if no event can match, `SchemaError` for a value of the wrong type.

    >>> from matchwood.lang.parser import parse
    >>> [len(row.predicates) for row in normalise(parse("a > 1 AND a <= 5 AND (b = 1 OR c = 2)"), Schema())]
    [2, 2]
    """
    normaliser = _Normaliser(schema, limits)
    try:
        rows = normaliser.settled_rows(expression)
    except RecursionError:
        raise TooComplexError("the expression is nested too deeply") from None
    if not rows:
        raise NeverMatchesError(f"no event can match: {normaliser.reason or 'it is always false'}")
    if normaliser.may_exceed(len(rows)):
        limits.check_entries(sum(map(_draft_entries, rows)))
    return tuple([_row(row) for row in rows])


def conjunction(predicates: Iterable[RowPredicate]) -> Row:
    """One row from predicates that may name an attribute several times: those are intersected and their weights added, as by AND.

    Raises `NeverMatchesError` if no event can match.
    """
    found = list(predicates)
    never = next((predicate.attribute for predicate in found if not can_hold(predicate)), None)
    merged = never or _merged([{predicate.attribute: predicate} for predicate in found], None)
    if isinstance(merged, str):
        raise NeverMatchesError(f"no event can match: {_exclusion(merged)}")
    return _row(merged)


_Draft = dict[str, DraftPredicate]
"""A row under construction: attribute -> predicate, in order of appearance."""


class _Normaliser:
    """One expression on its way to rows. `reason` is why the first row that can never hold cannot."""

    def __init__(self, schema: Schema, limits: Limits) -> None:
        self.schema = schema
        self.limits = limits
        self.reason: str | None = None
        self._named = 0  # values and conditions of the leaves
        self._work = 0  # entries that were merged on the way
        self._counts_values = False  # has a predicate counts, or tests?

    def settled_rows(self, expression: Expression) -> list[_Draft]:
        """The rows of the expression, each predicate as rows keep it."""
        found = self.rows(expression, negated=False)
        if not self._counts_values:
            return found
        rows: list[_Draft] = []
        for row in found:
            drafts = {name: settled(predicate, self.schema) for name, predicate in row.items()}
            never = next((name for name, predicate in drafts.items() if predicate is None), None)
            if never is None:
                rows.append({held.attribute: held for held in drafts.values() if held is not None})
            else:
                self.reason = self.reason or _exclusion(never)
        return self._disjunction([rows])

    def rows(self, expression: Expression, *, negated: bool) -> list[_Draft]:
        if isinstance(expression, Predicate):
            return self._leaf(expression, negated)
        if isinstance(expression, Not):
            return self.rows(expression.child, negated=not negated)
        if isinstance(expression, Constant):
            return [{}] if expression.value is not negated else []
        if isinstance(expression, Temporal):
            for name in expression.attributes:
                self.schema.attribute_for(name, Type.TIMESTAMP)
            return self.rows(rewritten(expression, negated=negated), negated=False)
        assert isinstance(expression, (And, Or))
        parts = [self.rows(child, negated=negated) for child in expression.children]
        return self._conjunction(parts) if isinstance(expression, And) is not negated else self._disjunction(parts)

    def _leaf(self, predicate: Predicate, negated: bool) -> list[_Draft]:
        if isinstance(predicate, Spatial):
            self.limits.check_vertices(predicate.geometry.size)
            self._named += predicate.geometry.size
        elif isinstance(predicate, Nested):
            self._named += size_of(predicate.condition)
        else:
            self._named += len(getattr(predicate, "values", "1"))
        self.limits.check_entries(self._named)
        drafts: list[_Draft] = []
        if isinstance(predicate, Nested):
            alternatives = nested_predicates(predicate, self.schema, negated, self.limits)
        else:
            alternatives = leaf_predicates(predicate, self.schema, negated)
        for found in alternatives:
            if can_hold(found):
                drafts.append({found.attribute: found})
                self._counts_values |= isinstance(found, Tested) or (isinstance(found, Holds) and bool(found.counts))
        if not drafts:
            self.reason = self.reason or f"{predicate} leaves no value"
        return drafts

    def _conjunction(self, parts: list[list[_Draft]]) -> list[_Draft]:
        if all(parts) and any(len(part) > 1 for part in parts):
            parts = self._merged_by_attribute(parts)
            size = math.prod(map(len, parts))
            self.limits.check_rows(size)
            if size:
                self._spend(sum(size // len(part) * sum(map(_draft_entries, part)) for part in parts))
        rows: list[_Draft] = []
        for choice in product(*parts):
            row = _merged(choice, self.schema)
            if isinstance(row, str):
                self.reason = self.reason or _exclusion(row)
            else:
                rows.append(row)
        return _distinct(rows)

    def _merged_by_attribute(self, parts: list[list[_Draft]]) -> list[list[_Draft]]:
        """The same conjunction with fewer parts: those that name one and the same attribute only become one.

        The merged part takes the position of the first of them, so every row names its attributes in the same order as before.
        An attribute that other parts name as well is left alone: the weights of a row are added in the order of its conditions,
        to the bit.
        """
        shared = {name for part in parts if _only_attribute(part) is None for draft in part for name in draft}
        groups: dict[str | int, list[list[DraftPredicate]]] = {}
        for position, part in enumerate(parts):
            attribute = _only_attribute(part)
            if attribute is None or attribute in shared:
                groups[position] = []
            else:
                groups.setdefault(attribute, []).append([next(iter(draft.values())) for draft in part])
        merged: list[list[_Draft]] = []
        for key, group in groups.items():
            if isinstance(key, int):
                merged.append(parts[key])
            else:
                merged.append(self._alternatives(key, group))
        return merged

    def _alternatives(self, attribute: str, group: list[list[DraftPredicate]]) -> list[_Draft]:
        """The conjunction of several disjunctions on one attribute.

        A chain (rest, predicate) is a conjunction that is not computed yet: one after the other, the sets of many `!=` would take
        quadratic time. Chains that mix absence with values are dropped at once, so the usual ones stay few.
        """
        if len(group) == 1:
            return [{attribute: predicate} for predicate in group[0]]
        chains: list[_Chain] = [(None, predicate) for predicate in group[0]]
        lazy = _LAZY_ALTERNATIVES
        for part in group[1:]:
            chains = [
                (chain, predicate)
                for chain in chains
                for predicate in part
                if isinstance(predicate, Absent) is isinstance(chain[1], Absent)
            ]
            self._spend(len(chains))
            if len(chains) > lazy:
                chains = [(None, draft[attribute]) for draft in self._settled(attribute, chains)]
                lazy = max(_LAZY_ALTERNATIVES, 2 * len(chains))
        return self._settled(attribute, chains)

    def _settled(self, attribute: str, chains: list[_Chain]) -> list[_Draft]:
        """The chains that can hold as predicates; values of equal weight are united."""
        drafts: list[_Draft] = []
        for chain in chains:
            predicates = _unchained(chain)
            self._spend(sum(map(_entries, predicates)))
            together = _together(predicates, self.schema) if len(predicates) > 1 else predicates[0]
            if together is not None and can_hold(together):
                drafts.append({attribute: together})
        if len(drafts) < len(chains) or not chains:
            self.reason = self.reason or _exclusion(attribute)
        return self._disjunction([drafts])

    def _disjunction(self, parts: list[list[_Draft]]) -> list[_Draft]:
        rows: list[_Draft] = []
        # The rows that unite: (attribute, weight, is it ANY?) -> position in `rows`, intervals.
        alike: dict[tuple[str, float, bool], tuple[int, list[tuple[float, float]]]] = {}
        for draft in _with_tests_united(draft for part in parts for draft in part):
            (predicate,) = draft.values() if len(draft) == 1 else (None,)
            keys = _only_set(predicate) if isinstance(predicate, Holds) else None
            if keys is not None:
                assert isinstance(predicate, Holds)
                kind = predicate.attribute, predicate.weight, not predicate.is_plain
                row, intervals = alike.setdefault(kind, (len(rows), []))
                intervals.extend(keys.parts)
                if row < len(rows):
                    continue
            rows.append(draft)
        for (attribute, weight, is_any), (row, intervals) in alike.items():
            keys = values_in(IntervalSet.of(intervals), self.schema.find(attribute).type)
            united = Holds(attribute, weight, EVERYTHING, counts=(Counted(keys, 1),))
            rows[row] = {attribute: united if is_any else Holds(attribute, weight, keys)}
        rows = _distinct(rows)
        self.limits.check_rows(len(rows))
        return rows

    def may_exceed(self, rows: int) -> bool:
        """May so many rows have more entries than allowed? A condition or value takes at most four in a row."""
        return 4 * self._named * rows > self.limits.max_entries

    def _spend(self, entries: int) -> None:
        self._work += entries
        self.limits.check_work(self._work)


_Chain = tuple["_Chain | None", DraftPredicate]
"""A conjunction of predicates on one attribute, the last one first."""


def _row(draft: _Draft) -> Row:
    predicates = [predicate for predicate in draft.values() if not isinstance(predicate, Tested)]
    assert len(predicates) == len(draft)
    return Row(tuple(predicates))


def _unchained(chain: _Chain) -> list[DraftPredicate]:
    predicates: list[DraftPredicate] = []
    rest: _Chain | None = chain
    while rest is not None:
        rest, predicate = rest
        predicates.append(predicate)
    predicates.reverse()
    return predicates


def _only_attribute(part: list[_Draft]) -> str | None:
    """The attribute that all alternatives name, if each of them names just that one."""
    names = {name for draft in part for name in draft}
    return names.pop() if len(names) == 1 and all(part) else None


def _merged(drafts: Iterable[_Draft], schema: Schema | None) -> _Draft | str:
    """The conjunction of drafts; if it can never hold, the name of the attribute on which they exclude each other."""
    groups: dict[str, list[DraftPredicate]] = {}
    for draft in drafts:
        for attribute, predicate in draft.items():
            groups.setdefault(attribute, []).append(predicate)
    merged: _Draft = {}
    for attribute, predicates in groups.items():
        if len(predicates) == 1:  # which can hold, or it would not be here
            merged[attribute] = predicates[0]
            continue
        together = _together(predicates, schema)
        if together is None or not can_hold(together):
            return attribute
        merged[attribute] = together
    return merged


def _with_tests_united(drafts: Iterable[_Draft]) -> list[_Draft]:
    """The drafts; of those that ask one value of one attribute for a test, with equal weights, one that asks for any of them."""
    found: list[_Draft] = []
    alike: dict[tuple[str, float], tuple[int, list[Test]]] = {}
    for draft in drafts:
        (predicate,) = draft.values() if len(draft) == 1 else (None,)
        if (
            isinstance(predicate, Tested)
            and predicate.clauses
            and predicate == Tested(predicate.attribute, predicate.weight, predicate.clauses[:1])
        ):
            at, tests = alike.setdefault((predicate.attribute, predicate.weight), (len(found), []))
            tests += predicate.clauses[0]
            if at < len(found):
                continue
        found.append(draft)
    for (name, weight), (at, tests) in alike.items():
        found[at] = {name: Tested(name, weight, (tuple(dict.fromkeys(tests)),))}
    return found


def _only_set(predicate: Holds) -> IntervalSet | None:
    """The set that the value has to meet, if the predicate asks for nothing else and is not graded."""
    if predicate.is_plain:
        return predicate.keys
    if (
        predicate.keys == EVERYTHING
        and not predicate.none
        and not predicate.grades
        and len(predicate.counts) == 1
        and predicate.counts[0].is_any
    ):
        return predicate.counts[0].keys
    return None


def _exclusion(attribute: str) -> str:
    return f"the conditions on {attribute!r} exclude each other; for several values of a list use A_CONTAINS or ANY"


def _together(predicates: Sequence[DraftPredicate], schema: Schema | None) -> DraftPredicate | None:
    """The conjunction of several predicates on one attribute; None if they exclude each other. O(n log n) in their parts.

    Predicates that exclude values need the schema.
    """
    weight = 0.0
    for predicate in predicates:  # not `sum`, whose rounding depends on the version of Python
        weight += predicate.weight
    name = predicates[0].attribute
    grades = grades_of(predicates)
    if largest_gain(weight, grades) == math.inf:
        raise ExpressionError(f"attribute {name!r}: the sum of its weights exceeds float64; use smaller weights")
    absent = [isinstance(predicate, Absent) for predicate in predicates]
    if any(absent):
        return Absent(name, weight) if all(absent) else None
    placed = [predicate for predicate in predicates if isinstance(predicate, Placed)]
    tests = [predicate for predicate in predicates if isinstance(predicate, Tested)]
    if tests:
        held = [p if isinstance(p, Holds) else p.held for p in predicates if isinstance(p, (Holds, Tested))]
        beside = [p for p in held if p is not None]
        return together(name, weight, tests, _held_together(name, 0.0, beside, schema) if beside else None)
    if not placed:
        merged = _held_together(name, weight, [p for p in predicates if isinstance(p, Holds)], schema)
        return replace(merged, grades=grades) if grades else merged
    # A `Holds` here is an IS NOT NULL that was read before the type of the attribute was known: it adds only its weight.
    circles = tuple(dict.fromkeys(circle for predicate in placed for circle in predicate.circles))
    lon, lat = _intersection([p.lon for p in placed]), _intersection([p.lat for p in placed])
    return Placed(name, weight, lon, lat, circles, _regions_together(placed), grades)


def _regions_together(placed: list[Placed]) -> tuple[Region, ...]:
    """The regions of several predicates; of those with the same parts, what all of them accept."""
    accepted: dict[tuple[Part, ...], int] = {}
    for region in (region for predicate in placed for region in predicate.regions):
        accepted[region.parts] = accepted.get(region.parts, region.accepts) & region.accepts
    return tuple([Region(parts, accepts) for parts, accepts in accepted.items()])


def grades_of(predicates: Iterable[DraftPredicate]) -> tuple[Grade, ...]:
    """The grades of all of these predicates, in order."""
    return tuple(
        [grade for predicate in predicates if isinstance(predicate, (Holds, Placed)) for grade in predicate.grades]
    )


def _held_together(name: str, weight: float, predicates: list[Holds], schema: Schema | None) -> Holds:
    keys = _intersection([predicate.keys for predicate in predicates])
    excluded = [predicate.none for predicate in predicates if predicate.none]
    none = excluded[0] if len(excluded) == 1 else IntervalSet.of([part for set_ in excluded for part in set_.parts])
    if len(excluded) > 1 and schema is not None:
        none = values_in(none, schema.find(name).type)
    return Holds(name, weight, keys, none, tuple([count for predicate in predicates for count in predicate.counts]))


def _intersection(sets: Sequence[IntervalSet]) -> IntervalSet:
    """By halves: one after the other would be quadratic for many `!=`."""
    if len(sets) == 1:
        return sets[0]
    half = len(sets) // 2
    return _intersection(sets[:half]) & _intersection(sets[half:])


def _distinct(rows: list[_Draft]) -> list[_Draft]:
    if len(rows) < 2:
        return rows
    return list({tuple(row.items()): row for row in rows}.values())


def _entries(predicate: DraftPredicate) -> int:
    """The number of entries that the predicate takes in a row."""
    if isinstance(predicate, Holds):
        # What it excludes is counted by the gaps between `keys`.
        return predicate.keys.count + sum(count.keys.count for count in predicate.counts)
    if isinstance(predicate, Absent):
        return 1
    if isinstance(predicate, Tested):
        held = 0 if predicate.held is None else _entries(predicate.held)
        return held + len(predicate.none) + sum(map(len, (*predicate.clauses, *predicate.some)))
    vertices = sum(len(part.vertices) for region in predicate.regions for part in region.parts)
    return predicate.lon.count + predicate.lat.count + len(predicate.circles) + vertices


def _draft_entries(draft: _Draft) -> int:
    return sum(map(_entries, draft.values()))
