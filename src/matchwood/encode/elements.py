"""Which conditions on the elements of a list hold, among many (`lang.nested`).

Every condition is a subscription of its own, whose id is the code of its symbol, and every element an event. They are matched by
a `Matcher`. `Judge` asks the oracle, condition by condition; `planner.elements` provides one that uses an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from json import loads
from threading import Lock
from typing import Any, Protocol

import numpy as np

from matchwood.encode.arrays import Int64s, Rows
from matchwood.encode.checks import check_rows
from matchwood.encode.objects import RowsBuilder
from matchwood.lang.bad_values import BadValues
from matchwood.lang.evaluate import judge
from matchwood.lang.event import EventKeys, element_keys
from matchwood.lang.intervals import IntervalSet, points
from matchwood.lang.json_values import of_json
from matchwood.lang.nested import Conditions, as_object, conditions_with, rows_of_condition
from matchwood.lang.row import Row
from matchwood.patterns import Elements, read_test
from matchwood.schema import UNKNOWN_SYMBOL, Attribute, Schema, Type
from matchwood.schema.functions import element_prefix, is_hidden, root_of

Element = Mapping[str, object]


class Matcher(Protocol):
    """Conditions by their codes, and elements that are asked for them. One thread at a time."""

    def add(self, conditions: Mapping[int, tuple[Row, ...]]) -> None:
        """Add conditions, of which none is known."""

    def remove(self, codes: Sequence[int]) -> None:
        """Remove conditions, all of which are known."""

    def rows(self) -> Rows:
        """All conditions as arrays."""

    def restore(self, rows: Rows) -> bool:
        """Take all conditions from such arrays, into an empty matcher; False if it cannot."""

    def read(self, elements: Sequence[Element], bad: BadValues | None, *, register: bool = False) -> Any:
        """The elements in the form that `match` takes; with `register` their strings are registered."""

    def match(self, read: Any) -> tuple[Int64s, Int64s]:
        """The number of an element and the code of a condition for each condition that an element meets, each pair once."""


class Judge:
    """The definition: every condition is asked of every element."""

    def __init__(self, schema: Schema, source: str) -> None:
        self._schema, self._source = schema, source
        self._conditions: dict[int, tuple[Row, ...]] = {}

    def add(self, conditions: Mapping[int, tuple[Row, ...]]) -> None:
        """See `Matcher`."""
        self._conditions.update(conditions)

    def remove(self, codes: Sequence[int]) -> None:
        """See `Matcher`."""
        for code in codes:
            del self._conditions[code]

    def rows(self) -> Rows:
        """See `Matcher`."""
        return condition_rows(self._conditions, self._schema)

    def restore(self, rows: Rows) -> bool:
        """See `Matcher`. The definition has no use for arrays."""
        return False

    def read(self, elements: Sequence[Element], bad: BadValues | None, *, register: bool = False) -> list[EventKeys]:
        """See `Matcher`."""
        return [element_keys(element, self._source, self._schema, bad, register=register) for element in elements]

    def match(self, read: list[EventKeys]) -> tuple[Int64s, Int64s]:
        """See `Matcher`."""
        pairs = [
            (at, code)
            for at, element in enumerate(read)
            for code, rows in self._conditions.items()
            if judge(rows, element).matched
        ]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]


def condition_rows(conditions: Mapping[int, tuple[Row, ...]], schema: Schema) -> Rows:
    """Conditions as the rows of subscriptions."""
    builder = RowsBuilder(schema)
    for code, rows in conditions.items():
        builder.add(code, 0.0, rows)
    return builder.build()


MATCHERS: list[Callable[[Schema, str], Matcher]] = [Judge]
"""What makes a matcher: the last one. This layer knows no index; `planner.elements` puts one here."""


class ElementConditions:
    """The conditions on the elements of one attribute. They follow the symbols of its hidden attribute. Any number of threads."""

    def __init__(self, schema: Schema, source: Attribute, hidden: Attribute, conditions: Conditions) -> None:
        self._schema, self._source, self._hidden = schema, source.name, hidden
        self._conditions = conditions
        self._lock = Lock()
        self.make = MATCHERS[-1]
        self._begin()

    def _begin(self) -> None:
        self._matcher = self.make(self._schema, self._source)
        self._seen = 0
        self._forgotten = 0
        self._schema_forgotten = self._schema.forgotten
        self._held: dict[int, bool] = {}
        """The codes that the matcher has, and whether every element has to meet the condition."""
        self._left: list[int] = []
        """Codes of conditions that name attributes which the schema has forgotten, with the subscription that named them."""
        self._mark = self._schema.mark()
        self._registered = Registered(self._schema, self._source)

    def codes(self, elements: Sequence[Element], bad: BadValues | None) -> list[float]:
        """The codes of the conditions that hold for a list of elements, ascending, after `UNKNOWN_SYMBOL`."""
        found = self.codes_of_many(elements, np.zeros(len(elements), np.int64), 1, bad)[1]
        return [UNKNOWN_SYMBOL, *found.tolist()]

    def codes_of_many(
        self, elements: Sequence[Element], owner: Int64s, lists: int, bad: BadValues | None
    ) -> tuple[Int64s, Int64s]:
        """The same for many lists at once: owner[i], ascending, is the list of element i. Pairs of a list and a code, ascending.

        `UNKNOWN_SYMBOL` is not among them.
        """
        at, code = self.met(elements, bad)
        size = np.bincount(owner, minlength=lists)
        codes = int(code.max(initial=0)) + 1
        key: Int64s = owner[at] * codes + code
        key, count = np.unique(key, return_counts=True)
        of, code = key // codes, key % codes
        needs_all = np.fromiter((self._held.get(c, False) for c in code.tolist()), np.bool_, len(code))
        holds = ~needs_all | (count == size[of])
        return of[holds], code[holds]

    def met(self, elements: Sequence[Element], bad: BadValues | None) -> tuple[Int64s, Int64s]:
        """The number of an element and the code of a condition for each condition that an element meets."""
        with self._lock:
            self._follow()
            return self._matcher.match(self._matcher.read(elements, bad))

    def rows(self) -> Rows:
        """All conditions as arrays."""
        with self._lock:
            self._follow()
            return self._matcher.rows()

    def follow(self) -> None:
        """Take in the conditions that have come, so that the next event need not wait for it. O(these)."""
        with self._lock:
            self._follow()

    def arrays(self) -> dict[str, np.ndarray]:
        """What `restore` takes, for the same schema. O(conditions)."""
        with self._lock:
            self._follow()
            codes = np.fromiter(self._held, np.int64, len(self._held))
            needs_all = np.fromiter(self._held.values(), np.bool_, len(self._held))
            rows = self._matcher.rows()._asdict()
            return {**rows, "codes": codes, "needs_all": needs_all, "left": np.array(self._left, np.int64)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the conditions from arrays instead of reading their texts, before any other call. O(conditions)."""
        rows = Rows(*(arrays[name] for name in Rows._fields))
        check_rows(rows, self._schema.dimensions)
        if self._matcher.restore(rows):
            assert self._hidden.symbols is not None
            self._seen = len(self._hidden.symbols)
            self._forgotten = self._hidden.symbols.forgotten
            self._held = dict(zip(arrays["codes"].tolist(), arrays["needs_all"].tolist(), strict=True))
            self._left = arrays["left"].tolist()

    def passing(self, code: int) -> tuple[bool, IntervalSet, IntervalSet]:
        """Whether every element has to meet a condition; the codes of the registered elements that do, and of those that do not.

        O(elements that were registered since the last call, and those that meet the condition).
        """
        with self._lock:
            self._follow()
            written = self._hidden.symbols.text(code)  # type: ignore[union-attr]
            assert written is not None
            test = read_test(written)
            assert isinstance(test, Elements)
            rows = rows_of_condition(self._source, test.condition, self._schema)
            matcher = self.make(self._schema, self._source)
            matcher.add({code: rows})
            met, others = self._registered.met(matcher)
            return test.quantifier == "all", points(met), points(others)

    def _follow(self) -> None:
        symbols, schema = self._hidden.symbols, self._schema
        assert symbols is not None
        if self._schema_forgotten != schema.forgotten:  # rows may name dimensions that mean something else by now
            self._begin()
        if self._forgotten != symbols.forgotten:
            self._forgotten = symbols.forgotten
            gone = [code for code in self._held if symbols.text(code) is None]
            self._left = [code for code in self._left if symbols.text(code) is not None]
            self._matcher.remove(gone)
            for code in gone:
                del self._held[code]
        size = len(symbols)
        new = [code for code, _ in symbols.known(self._seen, size)]
        if self._left and self._mark != schema.mark():
            new, self._left = self._left + new, []
        if new:
            self._add(new)
            self._mark = schema.mark()
        self._seen = size

    def _add(self, codes: Sequence[int]) -> None:
        symbols, schema = self._hidden.symbols, self._schema
        assert symbols is not None
        found: dict[int, tuple[Row, ...]] = {}
        all_: dict[int, bool] = {}
        for code in codes:
            test = read_test(symbols.text(code) or "")
            assert isinstance(test, Elements)
            mark = schema.mark()
            rows = self._conditions.take(self._source, test.condition, schema)
            if schema.mark() != mark:
                schema.forget_since(mark)
                self._schema_forgotten = schema.forgotten
                rows = ()
            elif all(schema.get(predicate.attribute) is not None for row in rows for predicate in row.predicates):
                if rows:
                    found[code], all_[code] = rows, test.quantifier == "all"
                continue
            self._left.append(code)
        self._matcher.add(found)
        self._held.update(all_)


class Registered:
    """The registered elements of a list, those of live events, in the form that a matcher reads."""

    def __init__(self, schema: Schema, source: str) -> None:
        self._schema, self._source = schema, source
        self._stamp: object = None
        self._parts: list[tuple[Int64s, Any]] = []  # codes and elements; each part larger than the next
        self._seen = 0

    def met(self, matcher: Matcher) -> tuple[list[float], list[float]]:
        """The codes of the elements that meet the one condition of a matcher, and of the others."""
        self._follow(matcher)
        met, others = [], []
        for codes, read in self._parts:
            holds = np.zeros(len(codes), np.bool_)
            holds[matcher.match(read)[0]] = True
            met.append(codes[holds])
            others.append(codes[~holds])
        none = np.zeros(0, np.float64)
        return np.concatenate([none, *met]).tolist(), np.concatenate([none, *others]).tolist()

    def _follow(self, matcher: Matcher) -> None:
        symbols = self._schema.find(self._source).symbols
        assert symbols is not None
        stamp = self._state()
        if stamp != self._stamp:
            self._parts, self._seen = [], 0
        size = len(symbols)
        new = [code for code, _ in symbols.known(self._seen, size)]
        self._seen = size
        while self._parts and len(self._parts[-1][0]) <= len(new):
            new = [*self._parts.pop()[0].tolist(), *new]
        if new:
            elements: list[Any] = [of_json(loads(symbols.text(code) or "null")) for code in new]
            read = matcher.read([as_object(element) or {} for element in elements], BadValues(), register=True)
            self._parts.append((np.array(new, np.int64), read))
        self._stamp = self._state()

    def _state(self) -> object:
        """Differs if elements would be read otherwise: attributes were learnt or strings forgotten, or there are more tests."""
        schema, prefix = self._schema, element_prefix(self._source)
        inner = [a for a in schema if root_of(a.name).startswith(prefix) and a.symbols is not None]
        tests = sum(len(a.symbols) for a in inner if is_hidden(a.name) and a.symbols is not None)
        source = schema.find(self._source).symbols
        forgotten = [a.symbols.forgotten for a in inner if a.symbols is not None]
        return schema.mark(), schema.forgotten, tests, forgotten, source.forgotten if source is not None else 0


def element_conditions(schema: Schema, source: Attribute) -> tuple[Attribute, ElementConditions] | None:
    """The hidden attribute of a list of objects, and its conditions; None if there are none."""
    if not source.derived:
        return None
    (hidden,) = source.derived
    conditions = conditions_with(hidden)
    found: ElementConditions | None = conditions.index
    if found is None or found.make is not MATCHERS[-1]:
        found = conditions.index = ElementConditions(schema, source, hidden, conditions)
    return hidden, found


MANY = 16
"""Rows at once that are worth a look at all attributes."""


def all_conditions(schema: Schema) -> Iterator[tuple[Attribute, ElementConditions]]:
    """The conditions on the elements of each list of objects, with their hidden attribute."""
    for attribute in list(schema):
        if attribute.type is Type.OBJECTS and (found := element_conditions(schema, attribute)) is not None:
            yield found


def follow_conditions(schema: Schema, rows: int) -> None:
    """After so many rows at once: index their conditions, which the next event would wait for otherwise. A few may wait."""
    if rows >= MANY:
        for _, conditions in all_conditions(schema):
            conditions.follow()


def condition_arrays(schema: Schema) -> dict[str, np.ndarray]:
    """The indexed conditions of all lists as arrays. O(conditions)."""
    return {
        f"{_saved(hidden)}{name}": array
        for hidden, conditions in all_conditions(schema)
        for name, array in conditions.arrays().items()
    }


def restore_conditions(schema: Schema, arrays: Mapping[str, np.ndarray]) -> None:
    """Index the conditions of a schema that was saved with these arrays; without them, from their texts. O(conditions)."""
    for hidden, conditions in all_conditions(schema):
        prefix = _saved(hidden)
        mine = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if mine:
            conditions.restore(mine)
        conditions.follow()


def _saved(hidden: Attribute) -> str:
    """What the names of the arrays of its conditions begin with."""
    return f"elements-{hidden.dims[0]}-"
