"""Normal form: an Expression as rows, each a conjunction with at most one predicate for each attribute.

    NOT   is pushed to the predicates, which are complemented (an absent attribute still makes them false)
    AND   on one attribute intersects interval sets and adds weights
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
from itertools import product

from matchwood.errors import ExpressionError, NeverMatchesError, TooComplexError
from matchwood.lang.expression import And, Constant, Expression, In, Not, Or, Predicate
from matchwood.lang.intervals import IntervalSet
from matchwood.lang.leaves import leaf_predicates, values_in
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.row import Absent, Holds, Placed, Row, RowPredicate, can_hold
from matchwood.schema import Schema

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
        rows = normaliser.rows(expression, negated=False)
    except RecursionError:
        raise TooComplexError("the expression is nested too deeply") from None
    if not rows:
        raise NeverMatchesError(f"no event can match: {normaliser.reason or 'it is always false'}")
    if normaliser.may_exceed(len(rows)):
        limits.check_entries(sum(map(_draft_entries, rows)))
    return tuple([Row(tuple(row.values())) for row in rows])


def conjunction(predicates: Iterable[RowPredicate]) -> Row:
    """One row from predicates that may name an attribute several times: those are intersected and their weights added, as by AND.

    Raises `NeverMatchesError` if no event can match.
    """
    found = list(predicates)
    never = next((predicate.attribute for predicate in found if not can_hold(predicate)), None)
    merged = never or _merged([{predicate.attribute: predicate} for predicate in found])
    if isinstance(merged, str):
        raise NeverMatchesError(f"no event can match: {_exclusion(merged)}")
    return Row(tuple(merged.values()))


_Draft = dict[str, RowPredicate]
"""A row under construction: attribute -> predicate, in order of appearance."""


class _Normaliser:
    """One expression on its way to rows. `reason` is why the first row that can never hold cannot."""

    def __init__(self, schema: Schema, limits: Limits) -> None:
        self.schema = schema
        self.limits = limits
        self.reason: str | None = None
        self._named = 0  # values and conditions of the leaves
        self._work = 0  # entries that were merged on the way

    def rows(self, expression: Expression, *, negated: bool) -> list[_Draft]:
        if isinstance(expression, Predicate):
            return self._leaf(expression, negated)
        if isinstance(expression, Not):
            return self.rows(expression.child, negated=not negated)
        if isinstance(expression, Constant):
            return [{}] if expression.value is not negated else []
        assert isinstance(expression, (And, Or))
        parts = [self.rows(child, negated=negated) for child in expression.children]
        return self._conjunction(parts) if isinstance(expression, And) is not negated else self._disjunction(parts)

    def _leaf(self, predicate: Predicate, negated: bool) -> list[_Draft]:
        self._named += len(predicate.values) if isinstance(predicate, In) else 1
        self.limits.check_entries(self._named)
        drafts: list[_Draft] = []
        for found in leaf_predicates(predicate, self.schema, negated):
            if can_hold(found):
                drafts.append({found.attribute: found})
            else:
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
            row = _merged(choice)
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
        groups: dict[str | int, list[list[RowPredicate]]] = {}
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

    def _alternatives(self, attribute: str, group: list[list[RowPredicate]]) -> list[_Draft]:
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
            together = _together(predicates) if len(predicates) > 1 else predicates[0]
            if together is not None and can_hold(together):
                drafts.append({attribute: together})
        if len(drafts) < len(chains) or not chains:
            self.reason = self.reason or _exclusion(attribute)
        return self._disjunction([drafts])

    def _disjunction(self, parts: list[list[_Draft]]) -> list[_Draft]:
        rows: list[_Draft] = []
        # The rows that unite: (attribute, weight) -> position in `rows`, intervals.
        alike: dict[tuple[str, float], tuple[int, list[tuple[float, float]]]] = {}
        for draft in (draft for part in parts for draft in part):
            (predicate,) = draft.values() if len(draft) == 1 else (None,)
            if isinstance(predicate, Holds):
                row, intervals = alike.setdefault((predicate.attribute, predicate.weight), (len(rows), []))
                intervals.extend(predicate.keys.parts)
                if row < len(rows):
                    continue
            rows.append(draft)
        for (attribute, weight), (row, intervals) in alike.items():
            keys = values_in(IntervalSet.of(intervals), self.schema.find(attribute).type)
            rows[row] = {attribute: Holds(attribute, weight, keys)}
        rows = _distinct(rows)
        self.limits.check_rows(len(rows))
        return rows

    def may_exceed(self, rows: int) -> bool:
        """May so many rows have more entries than allowed? A condition or value takes at most four in a row."""
        return 4 * self._named * rows > self.limits.max_entries

    def _spend(self, entries: int) -> None:
        self._work += entries
        self.limits.check_work(self._work)


_Chain = tuple["_Chain | None", RowPredicate]
"""A conjunction of predicates on one attribute, the last one first."""


def _unchained(chain: _Chain) -> list[RowPredicate]:
    predicates: list[RowPredicate] = []
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


def _merged(drafts: Iterable[_Draft]) -> _Draft | str:
    """The conjunction of drafts; if it can never hold, the name of the attribute on which they exclude each other."""
    groups: dict[str, list[RowPredicate]] = {}
    for draft in drafts:
        for attribute, predicate in draft.items():
            groups.setdefault(attribute, []).append(predicate)
    merged: _Draft = {}
    for attribute, predicates in groups.items():
        if len(predicates) == 1:  # which can hold, or it would not be here
            merged[attribute] = predicates[0]
            continue
        together = _together(predicates)
        if together is None or not can_hold(together):
            return attribute
        merged[attribute] = together
    return merged


def _exclusion(attribute: str) -> str:
    return f"the conditions on {attribute!r} exclude each other"


def _together(predicates: Sequence[RowPredicate]) -> RowPredicate | None:
    """The conjunction of several predicates on one attribute; None if they exclude each other. O(n log n) in their parts."""
    weight = 0.0
    for predicate in predicates:  # not `sum`, whose rounding depends on the version of Python
        weight += predicate.weight
    name = predicates[0].attribute
    if weight == math.inf:
        raise ExpressionError(f"attribute {name!r}: the sum of its weights exceeds float64; use smaller weights")
    absent = [isinstance(predicate, Absent) for predicate in predicates]
    if any(absent):
        return Absent(name, weight) if all(absent) else None
    placed = [predicate for predicate in predicates if isinstance(predicate, Placed)]
    if not placed:
        return Holds(name, weight, _intersection([p.keys for p in predicates if isinstance(p, Holds)]))
    # A `Holds` here is an IS NOT NULL that was read before the type of the attribute was known: it adds only its weight.
    circles = tuple(dict.fromkeys(circle for predicate in placed for circle in predicate.circles))
    lon, lat = _intersection([p.lon for p in placed]), _intersection([p.lat for p in placed])
    return Placed(name, weight, lon, lat, circles)


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


def _entries(predicate: RowPredicate) -> int:
    """The number of entries that the predicate takes in a row."""
    if isinstance(predicate, Holds):
        return predicate.keys.count
    if isinstance(predicate, Absent):
        return 1
    return predicate.lon.count + predicate.lat.count + len(predicate.circles)


def _draft_entries(draft: _Draft) -> int:
    return sum(map(_entries, draft.values()))
