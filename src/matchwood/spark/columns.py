"""The columns at every border between stages: names, types, nullability. Nothing else in the pipeline declares any.

    subscriptions   one record a subscription; its rows lie one after the other in the entry lists, `row_sizes` entries each
    events          one record an event; `hi` is empty where no value is a range, `weight` where all weights are 1. Empty and not
                    null: Spark 4.3 takes time quadratic in the batch for lists that are null (200,000 events: 10 s, not 0.6 s)
    rejects         what ingest refused, with reason and content
    matches         one record a match; `rank` counts from 1 in the order score descending, subscription id ascending
    ranked          the same as lists, one record an event: what travels between shards and the merge

Types and names are checked before a stage is planned. Parquet forgets nullability, so nulls are looked for where batches
are read, by `required`.
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
"""Between the encoding and the split into good and bad: a record is good if `reason` is null."""
ENCODED_EVENTS = StructType([*_optional(EVENTS), *_REFUSAL])
REJECTS = _table(
    ("source", StringType(), False),
    ("where", StringType(), False),
    ("id", LongType(), True),
    ("reason", StringType(), False),
    ("content", StringType(), False),
)
MATCHES = _table(
    ("event_id", LongType(), False),
    ("subscription_id", LongType(), False),
    ("score", DoubleType(), False),
    ("rank", IntegerType(), False),
)
RANKED = _table(("event_id", LongType(), False), ("subscription_ids", _LONGS, False), ("scores", _DOUBLES, False))
LEARNT = _table(("partition", IntegerType(), False), ("schema", StringType(), False))
"""What each partition of a learning pass found: a schema as JSON."""
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
"""What a partition knows of a dimension; dimension -1 counts the records of a side (0: subscriptions, 1: events)."""
LINES = _table(("kind", StringType(), False), ("value", StringType(), True))
"""What a stream brings: a line of JSON, of kind "event" or "change"."""
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
"""A change of subscriptions as JSON: op is subscribe, update or unsubscribe; of several for one id the highest seq counts."""
DELTA = StructType([StructField("op", StringType(), False), *SUBSCRIPTIONS])
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
"""A covered subscription, and one that covers it and is covered by none."""
VERDICTS = _table(
    ("event_id", LongType(), False),
    ("subscription_id", LongType(), False),
    ("fault", StringType(), False),
    ("expected", DoubleType(), True),
    ("found", DoubleType(), True),
)
"""Where the output differs from the oracle."""
PAIRS = _table(("event_id", LongType(), False), ("subscription_id", LongType(), False), ("score", DoubleType(), False))
WORK = _table(("events", LongType(), False), ("matches", LongType(), False), ("candidates", LongType(), False))
GROUPED = StructType(
    [StructField("group", IntegerType(), False), StructField("asks", BooleanType(), False), *SUBSCRIPTIONS]
)
"""Subscriptions in a group that looks for covers; one asks where it stands first, elsewhere it only answers."""


def check(table: DataFrame, expected: StructType, what: str) -> DataFrame:
    """`table`, once it is sure to have the expected columns of the expected types; further columns may be there."""
    found = {field.name: field.dataType for field in table.schema}
    for field in expected:
        if field.name not in found:
            raise SchemaError(f"{what}: column {field.name!r} is missing; there are {', '.join(found) or 'none'}")
        if not same_type(found[field.name], field.dataType):
            raise SchemaError(
                f"{what}: column {field.name!r}: expected {field.dataType.simpleString()}, "
                f"got {found[field.name].simpleString()}"
            )
    return table


def same_type(found: DataType, expected: DataType) -> bool:
    """Are these the same types, whatever they say of nulls?"""
    return bool(found.simpleString() == expected.simpleString())


def required(batch: Any, expected: StructType, what: str) -> None:
    """Raise if a column of an Arrow batch that may hold no null holds one. O(columns)."""
    for field in expected:
        if not field.nullable and batch.column(batch.schema.get_field_index(field.name)).null_count:
            raise SchemaError(f"{what}: column {field.name!r} holds a null and may not")


def arrow_schema(table: StructType) -> Any:
    """The Arrow schema of batches that a worker hands back."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(table, timezone="UTC")
