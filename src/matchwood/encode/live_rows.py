"""Rows for live events, whose strings are registered: a condition on tests of strings as one on the strings themselves.

Live events do not have the lists of the tests that hold for their strings: a test that is registered later would have to be added
to those that pass. A test is asked instead, of each registered string, when a subscription is matched with live events.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Events, Rows, make_events
from matchwood.encode.objects import RowsBuilder, decode_rows
from matchwood.lang.intervals import EVERYTHING, NOTHING, IntervalSet, points
from matchwood.lang.row import Counted, Holds, Row
from matchwood.patterns import Test, read_test
from matchwood.schema import UNKNOWN_SYMBOL, Attribute, Schema
from matchwood.schema.functions import is_hidden, source_of

_NO_STRING = -2.0
"""A key that no string has."""


def rows_for_live(rows: Rows, schema: Schema) -> Rows:
    """The rows with conditions on tests replaced by conditions on strings. O(1) if there are none; else O(strings x tests)."""
    hidden = schema.hidden_dimensions()
    if not hidden or not np.isin(rows.dims, np.array(hidden, np.uint16)).any():
        return rows
    builder = RowsBuilder(schema)
    for at, row in enumerate(decode_rows(rows, schema)):
        predicates = [_of_strings(p, schema) if isinstance(p, Holds) else p for p in row.predicates]
        until = np.inf if rows.until is None else float(rows.until[at])
        builder.add(int(rows.ids[at]), float(rows.priority[at]), [Row(tuple(predicates))], until=until)
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


def _of_strings(predicate: Holds, schema: Schema) -> Holds:
    if not is_hidden(predicate.attribute):
        return predicate
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
        written = known.symbols.texts[int(lo)]
        tests += [] if written is None else [read_test(written)]
    texts = enumerate(source.symbols.texts)
    return points([float(code) for code, text in texts if text is not None and any(t.holds(text) for t in tests)])
