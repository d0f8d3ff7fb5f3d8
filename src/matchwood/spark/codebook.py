"""Codebook: the schema that numbers attributes and strings, with a lineage and a version, so that tables know who encoded them.

    names and strings become numbers once, in ingest; an index and a table of events agree on them only if

        they are of one lineage, and the events' version is not older than the index's

A new version only appends: attributes keep their dimensions and strings their codes. An event encoded earlier than
the subscription that first names a string has that string as unknown, hence the order. Versions ride on the metadata of the
column `dims`, which Spark keeps through filters, joins and Parquet.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from matchwood.errors import SchemaError, StorageError
from matchwood.schema import Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = "matchwood"
_OTHER = "{}: column 'dims' was encoded by codebook {}, expected {}; ingest subscriptions and events with one codebook"


@dataclass(frozen=True)
class Codebook:
    """A schema as of one version. Immutable: `schema()` gives a copy.

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
        return cls(json.dumps(first.to_json()), uuid.uuid4().hex[:12], 1)

    def schema(self) -> Schema:
        """The schema. O(attributes and strings)."""
        return Schema.from_json(json.loads(self.content))

    @property
    def stamp(self) -> dict[str, Any]:
        """What a table remembers of the codebook that encoded it."""
        return {"lineage": self.lineage, "version": self.version}

    def extended(self, learnt: Iterable[Schema]) -> Codebook:
        """A version that also knows what these schemas, which began as this one, have learnt; the earlier one decides types.

        Itself if there is nothing new. O(attributes and strings).
        """
        schema = self.schema()
        for other in learnt:
            _append(schema, other)
        return self._with(schema)

    def declaring(self, schema: Schema | Mapping[str, str] | None) -> Codebook:
        """A version that also knows these attributes; itself if it does already. Another type for a known one is an error."""
        own, given = self.schema(), schema if isinstance(schema, Schema) else Schema(schema)
        for attribute in given:
            if attribute.type is not None:
                own.declare(attribute.name, attribute.type)
        return self._with(own)

    def merged(self, other: Codebook) -> Codebook:
        """A version that also knows the attributes and strings of another codebook; a closed one only its strings.

        Numbers are not taken over, so tables must be encoded by the result. O(attributes and strings).

        >>> ours, theirs = Codebook.declare({"age": "number"}), Codebook.declare({"plan": "string", "age": "bool"})
        >>> [(attribute.name, str(attribute.type)) for attribute in ours.merged(theirs).schema()]
        [('age', 'number'), ('plan', 'string')]
        """
        return self.extended([other.schema()])

    def _with(self, schema: Schema) -> Codebook:
        content = json.dumps(schema.to_json())
        return self if content == self.content else replace(self, content=content, version=self.version + 1)

    def mark(self, table: DataFrame) -> DataFrame:
        """The table with this codebook's stamp on its column `dims`."""
        return table.withMetadata("dims", {_KEY: self.stamp})

    def reads(self, stamp: Mapping[str, Any]) -> bool:
        """May events stamped so be matched with what this codebook has encoded?"""
        return bool(stamp.get("lineage") == self.lineage and int(stamp.get("version", 0)) >= self.version)

    def check_subscriptions(self, table: DataFrame) -> None:
        """Raise if subscriptions are stamped by another codebook, or by a later version of this one."""
        stamp = stamp_of(table)
        if stamp is None:
            return
        if stamp.get("lineage") != self.lineage:
            raise SchemaError(_OTHER.format("subscriptions", stamp.get("lineage"), self.lineage))
        if int(stamp.get("version", 0)) > self.version:
            raise SchemaError(
                f"subscriptions: column 'dims' was encoded by version {stamp['version']} of the codebook, later than "
                f"the version {self.version} that is given; give the later one"
            )

    def check_events(self, table: DataFrame) -> None:
        """Raise if events are stamped by a codebook that an index of this one cannot read. Without a stamp they are trusted."""
        stamp = stamp_of(table)
        if stamp is None or self.reads(stamp):
            return
        if stamp.get("lineage") != self.lineage:
            raise SchemaError(_OTHER.format("events", stamp.get("lineage"), self.lineage))
        raise SchemaError(
            f"events: column 'dims' was encoded by version {stamp.get('version')} of the codebook, the index by version "
            f"{self.version}, which knows strings or attributes that were unknown then; ingest the events again"
        )

    def to_json(self) -> dict[str, Any]:
        """For a manifest."""
        return {**self.stamp, "schema": json.loads(self.content)}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Codebook:
        """The codebook that `to_json` described."""
        try:
            return cls(json.dumps(saved["schema"]), str(saved["lineage"]), int(saved["version"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"the saved codebook is damaged: {error!r}") from None


def stamp_of(table: DataFrame) -> dict[str, Any] | None:
    """The stamp of the codebook that encoded a table, None if it bears none."""
    metadata = table.schema["dims"].metadata if "dims" in table.columns else {}
    found = metadata.get(_KEY)
    return dict(found) if isinstance(found, Mapping) else None


def _append(schema: Schema, other: Schema) -> None:
    """Attributes and strings that `schema` lacks, in the order of `other`; of two types the one known first stays.

    A closed schema learns strings of its attributes, and no attribute.
    """
    for theirs in other:
        if theirs.name not in schema and not schema.learn:
            continue
        ours = schema.find(theirs.name)
        if ours.type is None and theirs.type is not None:
            ours = schema.attribute_for(theirs.name, theirs.type)
        if ours.type is Type.STRING and theirs.type is Type.STRING:
            assert ours.symbols is not None
            assert theirs.symbols is not None
            for text in theirs.symbols.texts:
                ours.symbols.code(text)
