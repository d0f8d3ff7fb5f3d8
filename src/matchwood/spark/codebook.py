"""Codebook: the schema that assigns numbers to attributes and strings, with a lineage and a version.

Ingest replaces names and strings by numbers. An index and a table of events can be matched only if both have the same lineage and
the version of the events is at least that of the index: a new version only appends, so attributes keep their dimensions and
strings their codes, but a string that was added later is unknown in events that were encoded earlier.

The *stamp* of a table, lineage and version, is stored in the metadata of its column `dims`, which Spark preserves through
filters, joins and Parquet.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from matchwood.errors import MatchwoodError, SchemaError, StorageError, ValueTypeError
from matchwood.lang.nested import rows_of_condition
from matchwood.patterns import Elements, read_test
from matchwood.schema import Schema, Type
from matchwood.schema.functions import has_conditions, is_derived, source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = "matchwood"
_OTHER = (
    "{}: column 'dims' was encoded by codebook {}, expected {}; ingest subscriptions and events with the same codebook"
)


@dataclass(frozen=True)
class Codebook:
    """One version of a schema. Immutable: `schema()` returns a copy.

    >>> book = Codebook.declare({"age": "number"})
    >>> later = book.extended([Schema({"plan": "string"})])
    >>> later.version, [attribute.name for attribute in later.schema()]
    (2, ['age', 'plan'])
    >>> later.reads(book.stamp)
    False
    >>> book.reads(later.stamp)
    True
    """

    content: str
    lineage: str
    version: int

    @classmethod
    def declare(cls, schema: Schema | Mapping[str, str] | None = None) -> Codebook:
        """The first version of a new lineage: a `Schema`, or names and types."""
        first = schema if isinstance(schema, Schema) else Schema(schema)
        _check_types(first)
        return cls(json.dumps(first.to_json()), uuid.uuid4().hex[:12], 1)

    def schema(self) -> Schema:
        """The schema. O(attributes and strings)."""
        return Schema.from_json(json.loads(self.content))

    @property
    def stamp(self) -> dict[str, Any]:
        """The lineage and version, as stored with a table."""
        return {"lineage": self.lineage, "version": self.version}

    def extended(self, learnt: Iterable[Schema]) -> Codebook:
        """A version with the attributes and strings of these schemas appended; of conflicting types the first wins.

        Returns itself if there is nothing new. O(attributes and strings).
        """
        schema = self.schema()
        for other in learnt:
            _append(schema, other)
        return self._with(schema)

    def declaring(self, schema: Schema | Mapping[str, str] | None) -> Codebook:
        """A version that also has these attributes, or itself. Raises `SchemaError` if a known attribute has another type."""
        own, given = self.schema(), schema if isinstance(schema, Schema) else Schema(schema)
        for attribute in given:
            if attribute.declared is not None:
                own.declare(attribute.name, attribute.declared)
        return self._with(own)

    def merged(self, other: Codebook) -> Codebook:
        """A version with the attributes and strings of another codebook appended; a closed schema gets strings only.

        Their numbers differ from those of the other codebook: encode tables with the result. O(attributes and strings).

        >>> ours, theirs = Codebook.declare({"age": "number"}), Codebook.declare({"plan": "string", "age": "bool"})
        >>> [(attribute.name, str(attribute.type)) for attribute in ours.merged(theirs).schema()]
        [('age', 'number'), ('plan', 'string')]
        """
        return self.extended([other.schema()])

    def _with(self, schema: Schema) -> Codebook:
        _check_types(schema)
        content = json.dumps(schema.to_json())
        return self if content == self.content else replace(self, content=content, version=self.version + 1)

    def mark(self, table: DataFrame) -> DataFrame:
        """The table with this codebook's stamp on its column `dims`."""
        return table.withMetadata("dims", {_KEY: self.stamp})

    def reads(self, stamp: Mapping[str, Any]) -> bool:
        """Can events with this stamp be matched with an index that this codebook encoded?"""
        return bool(stamp.get("lineage") == self.lineage and int(stamp.get("version", 0)) >= self.version)

    def check_subscriptions(self, table: DataFrame) -> None:
        """Raise `SchemaError` if subscriptions were encoded by another codebook, or by a later version of this one."""
        stamp = stamp_of(table)
        if stamp is None:
            return
        if stamp.get("lineage") != self.lineage:
            raise SchemaError(_OTHER.format("subscriptions", stamp.get("lineage"), self.lineage))
        if int(stamp.get("version", 0)) > self.version:
            raise SchemaError(
                f"subscriptions: column 'dims' was encoded by version {stamp['version']} of the codebook, later than "
                f"version {self.version}; pass the later version"
            )

    def check_events(self, table: DataFrame) -> None:
        """Raise `SchemaError` if events were encoded by a codebook that this index cannot read. Without a stamp nothing is
        checked."""
        stamp = stamp_of(table)
        if stamp is None or self.reads(stamp):
            return
        if stamp.get("lineage") != self.lineage:
            raise SchemaError(_OTHER.format("events", stamp.get("lineage"), self.lineage))
        raise SchemaError(
            f"events: column 'dims' was encoded by version {stamp.get('version')} of the codebook, the index by version "
            f"{self.version}, which has strings or attributes that were unknown then; ingest the events again"
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON, for a manifest."""
        return {**self.stamp, "schema": json.loads(self.content)}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Codebook:
        """The codebook that `to_json` described."""
        try:
            return cls(json.dumps(saved["schema"]), str(saved["lineage"]), int(saved["version"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"the saved codebook is damaged: {error!r}") from None


def stamp_of(table: DataFrame) -> dict[str, Any] | None:
    """The stamp of the codebook that encoded a table, or None."""
    metadata = table.schema["dims"].metadata if "dims" in table.columns else {}
    found = metadata.get(_KEY)
    return dict(found) if isinstance(found, Mapping) else None


def _check_types(schema: Schema) -> None:
    """Refuse ids: the workers that learn a codebook skip texts that differ in numbers only, and would miss their codes."""
    for attribute in schema:
        if attribute.type is Type.ID:
            raise SchemaError(f"attribute {attribute.name!r}: Spark does not support ids; declare it as a string")


def _append(schema: Schema, other: Schema) -> None:
    """Append the attributes and strings of `other` that `schema` lacks; known attributes keep their type.

    A closed schema gets new strings and functions of its attributes, but no new attributes. What `other` has computed from an
    attribute of another type is left out, and so are conditions on lists of objects that the types of the schema contradict.
    """
    has_conflicts = False
    for theirs in other:
        if theirs.name not in schema and not schema.learn and not is_derived(theirs.name):
            continue
        try:
            with schema.tentatively():
                ours = schema.find(theirs.name)
        except ValueTypeError:
            continue
        if ours.type is None and theirs.type is not None:
            ours = schema.attribute_for(theirs.name, theirs.type)
            ours.order = theirs.order
        has_conflicts |= theirs.type not in (None, ours.type)
        if ours.type is Type.STRING and theirs.type is Type.STRING:
            assert ours.symbols is not None
            assert theirs.symbols is not None
            checked = has_conflicts and has_conditions(theirs.name)
            for text in theirs.symbols.codes:
                if not (checked and _contradicts(schema, source_of(theirs.name), text)):
                    ours.symbols.code(text)


def _contradicts(schema: Schema, source: str, written: str) -> bool:
    """Does a condition on the elements of an attribute use names otherwise than the schema does?"""
    test = read_test(written)
    assert isinstance(test, Elements)
    try:
        with schema.tentatively():
            rows_of_condition(source, test.condition, schema)
    except MatchwoodError:
        return True
    return False
