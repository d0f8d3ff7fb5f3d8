"""Learning, inside a worker: the attributes, types and strings of a partition of raw records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from matchwood.encode import heads
from matchwood.encode.expressions import read_expression
from matchwood.encode.rejects import Faults
from matchwood.errors import MatchwoodError
from matchwood.lang.event import PLACE
from matchwood.lang.expression import And, Expression, Not, Or, Predicate
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.nested import Nested
from matchwood.lang.parser import without_numbers
from matchwood.lang.place_predicates import BBox, DWithin, Spatial
from matchwood.lang.predicates import Between, Compare, In
from matchwood.lang.rows import normalise
from matchwood.lang.temporal import Temporal
from matchwood.lang.text_tests import Like, TextTest
from matchwood.schema import Schema, Type, type_of
from matchwood.spark import columns, task
from matchwood.spark.ingest_worker import LINES, Encoding, encoded_parts, split_corrupt

MAX_SKELETONS = 100_000
"""Texts without their numbers that a partition remembers; beyond this every text is parsed."""
_PLACE_EXPRESSION = f"DWITHIN({PLACE}, POINT(0 0), 1 m)"  # teaches the attribute that a record with a place uses


@dataclass(frozen=True)
class Learning:
    """Reads a partition as `Encoding` does and returns one record: the schema extended by what the partition contains."""

    encoding: Encoding

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Learn from the batches of a partition."""
        schema = self.encoding.opened()
        if self.encoding.kind == "subscriptions" and self.encoding.form == LINES:
            learn_expressions(_expressions_of_lines(batches), schema)
        elif self.encoding.kind == "subscriptions" and self.encoding.form == "text":
            learn_expressions(_expressions_of_tables(batches), schema)
        else:
            for _ in encoded_parts(self.encoding, schema, batches):
                pass
        content = [json.dumps(schema.to_json())]
        yield pa.RecordBatch.from_arrays(
            [pa.array([task.partition()], pa.int32()), pa.array(content)], schema=columns.arrow_schema(columns.LEARNT)
        )


def learn_expressions(texts: Iterable[object], schema: Schema) -> None:
    """Extend a schema by the attributes, types and strings of expressions. Invalid ones are skipped: encoding rejects them.

    Numbers are not recorded in a schema, except in conditions on lists of objects, so of other texts that differ only in numbers
    one is parsed.
    """
    known: set[str] = set()
    for text in texts:
        skeleton = without_numbers(text) if isinstance(text, str) and not text.lstrip().startswith("{") else None
        if skeleton in known:
            continue
        if learn_expression(text, schema) and skeleton is not None and len(known) < MAX_SKELETONS:
            known.add(skeleton)


def learn_expression(text: object, schema: Schema) -> bool:
    """Extend a schema by an expression. False if texts that differ in numbers only must be read as well, or it is invalid."""
    try:
        expression = read_expression(text)
        for name in times_of(expression):
            schema.attribute_for(name, Type.TIMESTAMP)
        for predicate in predicates_of(expression):
            _learn_predicate(predicate, schema)
        if any(_has_tests(predicate, schema) for predicate in predicates_of(expression)):
            normalise(expression, schema)  # which registers the tests: several on one attribute are one
        return not any(
            isinstance(predicate, Nested) for predicate in predicates_of(expression)
        )  # a test with its numbers
    except (MatchwoodError, RecursionError):
        return False


def _learn_predicate(predicate: Predicate, schema: Schema) -> None:
    if isinstance(predicate, DWithin | BBox | Spatial):
        schema.attribute_for(predicate.attribute, Type.POINT)
        return
    attribute = schema.find(predicate.attribute)
    for value in constants_of(predicate):
        type_ = type_of(value)
        if attribute.type is None:
            attribute = schema.attribute_for(predicate.attribute, type_)
        if attribute.type is Type.STRING and type_ is Type.STRING:
            schema.key(attribute, value)


def _has_tests(predicate: Predicate, schema: Schema) -> bool:
    return isinstance(predicate, Like | TextTest | Nested) or schema.find(predicate.attribute).order is not None


def predicates_of(expression: Expression) -> Iterator[Predicate]:
    """The leaves of an expression, in order."""
    if isinstance(expression, Not):
        yield from predicates_of(expression.child)
    elif isinstance(expression, And | Or):
        for child in expression.children:
            yield from predicates_of(child)
    elif isinstance(expression, Predicate):
        yield expression


def times_of(expression: Expression) -> Iterator[str]:
    """The attributes of the temporal functions in an expression: timestamps, whatever they are compared with."""
    if isinstance(expression, Temporal):
        yield from expression.attributes
    for child in getattr(expression, "children", (expression.child,) if isinstance(expression, Not) else ()):
        yield from times_of(child)


def constants_of(predicate: Predicate) -> tuple[Any, ...]:
    """The constants that a predicate compares with."""
    if isinstance(predicate, Compare):
        return (predicate.value,)
    if isinstance(predicate, Between):
        return (predicate.lo, predicate.hi)
    return predicate.values if isinstance(predicate, In | Lists | ListCount) else ()


def _expressions_of_tables(batches: Iterable[Any]) -> Iterator[object]:
    for batch in batches:
        whole, _ = split_corrupt(batch)
        circles = heads.read_circles(whole, Faults())
        placed = circles.record[:1].tolist() if circles is not None else []  # one is enough
        for i, text in enumerate(heads.column(whole, "expression").to_pylist()):
            yield text
            if i in placed:
                yield _PLACE_EXPRESSION


def _expressions_of_lines(batches: Iterable[Any]) -> Iterator[object]:
    for batch in batches:
        for line in batch.column(0).to_pylist():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record.get("expression")
                if record.get("place") is not None:
                    yield _PLACE_EXPRESSION
