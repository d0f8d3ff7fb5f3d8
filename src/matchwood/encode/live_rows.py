"""Rows for live events, whose strings are registered: a condition on tests of strings as one on the strings themselves.

Live events do not have the lists of the tests that hold for their strings: a test that is registered later would have to be added
to those that pass. A test is asked instead, of each registered string, when a subscription is matched with live events.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, Rows, make_events
from matchwood.encode.elements import element_conditions
from matchwood.encode.objects import RowsBuilder, decode_rows
from matchwood.lang.intervals import EVERYTHING, NOTHING, IntervalSet, points
from matchwood.lang.row import Counted, Holds, Row
from matchwood.patterns import Test, read_test
from matchwood.schema import UNKNOWN_SYMBOL, Attribute, Schema
from matchwood.schema.functions import has_conditions, is_hidden, source_of

_NO_STRING = -2.0
"""A key that no string has."""


def rows_for_live(rows: Rows, schema: Schema) -> Rows:
    """The rows with conditions on tests replaced by conditions on strings. O(1) if there are none; else O(strings x tests)."""
    hidden = schema.hidden_dimensions()
    if not hidden or not np.isin(rows.dims, np.array(hidden, np.uint16)).any():
        return rows
    builder = RowsBuilder(schema)
    for at, row in enumerate(decode_rows(rows, schema)):
        parts = [_for_live(p, schema) if isinstance(p, Holds) else [p] for p in row.predicates]
        until = np.inf if rows.until is None else float(rows.until[at])
        alternatives = [Row(choice) for choice in product(*parts)]
        builder.add(int(rows.ids[at]), float(rows.priority[at]), alternatives, until=until)
    return builder.build()


def without_tests(events: Events, schema: Schema) -> Events:
    """The events without the codes of tests. O(1) if no attribute has tests."""
    hidden = schema.hidden_dimensions()
    if not hidden:
        return events
    keep = ~np.isin(events.dims, np.array(hidden, np.uint16))
    if keep.all():
        return events
    before = np.concatenate([[0], np.cumsum(keep)])
    return make_events(before[events.offsets], *(column[keep] for column in events[1:])).stamped(events.schema)


def _for_live(predicate: Holds, schema: Schema) -> list[Holds]:
    """The predicate as alternatives about values themselves."""
    if has_conditions(predicate.attribute):
        return _of_elements(predicate, schema)
    return [_of_strings(predicate, schema) if is_hidden(predicate.attribute) else predicate]


def _of_elements(predicate: Holds, schema: Schema) -> list[Holds]:
    """Conditions on elements as conditions on the registered elements: one of those that meet it is there, or none of the others.

    "This condition or that one" is one set of codes; where one of them is about every element, these are alternatives.
    """
    source = schema.find(source_of(predicate.attribute))
    asked = element_conditions(schema, source)
    assert asked is not None
    ways: list[list[_Way]] = []
    sets = [predicate.keys] * (UNKNOWN_SYMBOL not in predicate.keys) + [count.keys for count in predicate.counts]
    for keys in sets:
        found = [asked[1].passing(int(lo)) for lo, _ in keys.parts]
        met = [part for is_all, passing, _ in found if not is_all for part in passing.parts]
        about_all = [_Way(NOTHING, failing) for is_all, _, failing in found if is_all]
        ways.append(
            ([_Way(IntervalSet.of(met), NOTHING)] if met else []) + about_all or [_Way(points([_NO_STRING]), NOTHING)]
        )
    for lo, _ in predicate.none.parts:
        is_all, met_by, failing = asked[1].passing(int(lo))
        ways.append([_Way(failing or points([_NO_STRING]), NOTHING) if is_all else _Way(NOTHING, met_by)])
    alternatives = []
    for choice in product(*ways):
        none = IntervalSet.of([part for way in choice for part in way.none.parts])
        counts = tuple([Counted(way.some, 1) for way in choice if way.some])
        alternatives.append(Holds(source.name, predicate.weight, EVERYTHING - none, none, counts))
    return alternatives


class _Way(NamedTuple):
    """A value is in `some`, if that is not empty, and no value is in `none`."""

    some: IntervalSet
    none: IntervalSet


def _of_strings(predicate: Holds, schema: Schema) -> Holds:
    source, known = schema.find(source_of(predicate.attribute)), schema.find(predicate.attribute)
    keys = _passing(predicate.keys, source, known)
    none = _passing(predicate.none, source, known) if predicate.none else NOTHING
    counts = []
    for count in predicate.counts:
        if count.is_any:
            counts.append(Counted(_passing(count.keys, source, known) or points([_NO_STRING]), 1))
            continue
        # Each of these tests asks for one string; one that is not registered no event has.
        parts = [part for lo in count.keys.parts for part in _passing(IntervalSet((lo,)), source, known).parts]
        missing = [(_NO_STRING - at, _NO_STRING - at) for at in range(count.keys.count - len(parts))]
        counts.append(Counted(IntervalSet(tuple(sorted(parts + missing))), count.least, count.most))
    return Holds(source.name, predicate.weight, keys or points([_NO_STRING]), none, tuple(counts))


def _passing(keys: IntervalSet, source: Attribute, known: Attribute) -> IntervalSet:
    """The codes of the strings that pass one of the tests; every string if the keys ask for no test."""
    if UNKNOWN_SYMBOL in keys:
        return EVERYTHING
    assert source.symbols is not None
    assert known.symbols is not None
    tests: list[Test] = []
    for lo, _ in keys.parts:
        written = known.symbols.text(int(lo))
        tests += [] if written is None else [read_test(written)]
    texts = source.symbols.known(0, len(source.symbols))
    return points([float(code) for code, text in texts if any(t.holds(text) for t in tests)])
