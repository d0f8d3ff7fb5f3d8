"""The columns of every table that stages exchange: names, types, nullability.

    subscriptions   one record per subscription; the entry lists hold its rows one after the other, `row_sizes` entries each
    events          one record per event; `hi` is empty if no value is a range, `weight` if all weights are 1. They are empty, not
                    null, because Spark 4.3 takes time quadratic in the size of a batch for null lists
    rejects         records that ingest rejected, with reason and content
    matches         one record per match; `rank` counts from 1 by descending score, then ascending subscription id
    ranked          matches as lists, one record per event, between shards and the merge

`check` compares names and types before a stage is planned. Parquet does not store nullability, so `required` checks for nulls
when batches are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from matchwood.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DOUBLES = ArrayType(DoubleType(), containsNull=False)
_INTS = ArrayType(IntegerType(), containsNull=False)
_LONGS = ArrayType(LongType(), containsNull=False)


def _table(*fields: tuple[str, DataType, bool]) -> StructType:
    return StructType([StructField(name, type_, nullable) for name, type_, nullable in fields])


def _optional(table: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType, True) for field in table]


SUBSCRIPTIONS = _table(
    ("id", LongType(), False),
    ("priority", DoubleType(), False),
    ("until", TimestampType(), True),
    ("row_sizes", _INTS, False),
    ("dims", _INTS, False),
    ("kinds", ArrayType(ByteType(), containsNull=False), False),
    ("lo", _DOUBLES, False),
    ("hi", _DOUBLES, False),
    ("weight", _DOUBLES, False),
)
EVENTS = _table(
    ("id", LongType(), False),
    ("until", TimestampType(), True),
    ("dims", _INTS, False),
    ("lo", _DOUBLES, False),
    ("hi", _DOUBLES, False),
    ("weight", _DOUBLES, False),
)
SHARDED_SUBSCRIPTIONS = StructType([StructField("shard", IntegerType(), False), *SUBSCRIPTIONS])
ROUTED_EVENTS = StructType([StructField("shard", IntegerType(), False), *EVENTS])
CENTRES = _table(("lon", DoubleType(), False), ("lat", DoubleType(), False))
_REFUSAL = [
    StructField("position", LongType(), False),
    StructField("where", StringType(), True),
    StructField("reason", StringType(), True),
    StructField("content", StringType(), True),
]
ENCODED_SUBSCRIPTIONS = StructType([*_optional(SUBSCRIPTIONS), *_REFUSAL])
"""The output of encoding, before the split: a record is good if `reason` is null."""
ENCODED_EVENTS = StructType([*_optional(EVENTS), *_REFUSAL])
REJECTS = _table(
    ("source", StringType(), False),
    ("where", StringType(), False),
    ("id", LongType(), True),
    ("reason", StringType(), False),
    ("content", StringType(), False),
)
REFUSED = StructType([StructField("id", LongType(), True), *_REFUSAL])
"""Bad records, as workers write them."""
MATCHES = _table(
    ("event_id", LongType(), False),
    ("subscription_id", LongType(), False),
    ("score", DoubleType(), False),
    ("rank", IntegerType(), False),
)
RANKED = _table(("event_id", LongType(), False), ("subscription_ids", _LONGS, False), ("scores", _DOUBLES, False))
LEARNT = _table(("partition", IntegerType(), False), ("schema", StringType(), False))
"""The schema, as JSON, that each partition of a learning pass found."""
SHARDS = _table(
    ("shard", IntegerType(), False),
    ("folder", StringType(), False),
    ("structure", StringType(), False),
    ("subscriptions", LongType(), False),
    ("rows", LongType(), False),
    ("bytes", LongType(), False),
    ("seconds", DoubleType(), False),
)
SKETCHES = _table(
    ("dimension", IntegerType(), False),
    ("side", IntegerType(), False),
    ("count", LongType(), False),
    ("parts", LongType(), False),
    ("sample_key", _LONGS, False),
    ("sample_lo", _DOUBLES, False),
    ("sample_hi", _DOUBLES, False),
    ("distinct", _LONGS, False),
)
"""Statistics of a dimension in a partition; dimension -1 counts the records of a side (0: subscriptions, 1: events)."""
LINES = _table(("kind", StringType(), False), ("value", StringType(), True))
"""The input of a stream: a line of JSON, of kind "event" or "change"."""
CHANGES = _table(
    ("op", StringType(), True),
    ("seq", LongType(), True),
    ("id", LongType(), True),
    ("expression", StringType(), True),
    ("priority", DoubleType(), True),
    ("until", StringType(), True),
    ("lon", DoubleType(), True),
    ("lat", DoubleType(), True),
    ("radius", DoubleType(), True),
)
"""A change of a subscription as JSON: op is subscribe, update or unsubscribe; of several for one id the highest seq wins."""
DELTA = StructType([StructField("op", StringType(), False), *SUBSCRIPTIONS, StructField("seq", LongType(), True)])
"""The changes of a micro-batch."""
LIVE = StructType([*EVENTS, StructField("line", StringType(), True), StructField("codebook", IntegerType(), False)])
"""Live events of a stream: encoded by a version of the codebook, with their line if it does not know all of the event."""
ATTRIBUTES = _table(
    ("dimension", IntegerType(), False),
    ("attribute", StringType(), False),
    ("type", StringType(), True),
    ("subscriptions", LongType(), False),
    ("predicates", LongType(), False),
    ("events", LongType(), False),
    ("nulls", LongType(), False),
    ("distinct_bounds", DoubleType(), False),
    ("distinct_values", DoubleType(), False),
    ("value_quantiles", _DOUBLES, False),
    ("width_quantiles", _DOUBLES, False),
    ("selectivity", DoubleType(), True),
)
"""Statistics of each dimension; see `profile`."""
COVERS = _table(("id", LongType(), False), ("cover", LongType(), False))
"""A covered subscription, and one that covers it and is not covered itself."""
VERDICTS = _table(
    ("event_id", LongType(), False),
    ("subscription_id", LongType(), False),
    ("fault", StringType(), False),
    ("expected", DoubleType(), True),
    ("found", DoubleType(), True),
)
"""Differences between the matches and the oracle."""
PAIRS = _table(("event_id", LongType(), False), ("subscription_id", LongType(), False), ("score", DoubleType(), False))
WORK = _table(("events", LongType(), False), ("matches", LongType(), False), ("candidates", LongType(), False))
GROUPED = StructType(
    [StructField("group", IntegerType(), False), StructField("is_query", BooleanType(), False), *SUBSCRIPTIONS]
)
"""Subscriptions in a group that is searched for covers; see `cover`."""


def check(table: DataFrame, expected: StructType, what: str) -> DataFrame:
    """`table`. Raises `SchemaError` unless it has the expected columns; further columns are allowed."""
    found = {field.name: field.dataType for field in table.schema}
    for field in expected:
        if field.name not in found:
            raise SchemaError(f"{what}: column {field.name!r} is missing; found {', '.join(found) or 'no columns'}")
        if not same_type(found[field.name], field.dataType):
            raise SchemaError(
                f"{what}: column {field.name!r}: expected {field.dataType.simpleString()}, "
                f"got {found[field.name].simpleString()}"
            )
    return table


def same_type(found: DataType, expected: DataType) -> bool:
    """Are these the same types, nullability aside?"""
    return bool(found.simpleString() == expected.simpleString())


def required(batch: Any, expected: StructType, what: str) -> None:
    """Raise `SchemaError` if a required column of an Arrow batch contains a null. O(columns)."""
    for field in expected:
        if not field.nullable and batch.column(batch.schema.get_field_index(field.name)).null_count:
            raise SchemaError(f"{what}: column {field.name!r} contains a null; it must have a value in every record")


def arrow_schema(table: StructType) -> Any:
    """The Arrow schema of batches that a worker returns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(table, timezone="UTC")
