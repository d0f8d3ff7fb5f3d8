"""Ingest: raw tables to typed ones. Every record ends in one of two tables: encoded, or rejected with its reason and content.

    learn      collect attributes, types and strings; one pass, skipped if the codebook is closed or the columns say everything
    encode     one encoded record, good or bad, for each raw one
    split      good records with distinct ids, and bad records
    separate   the good records of `encode`, while the bad ones are written to files
    located    stored good records as `split` takes them

Ids are unique in the whole table: of records with the same id the first (by partition, then position) is good.
Everything is lazy except `learn`, which brings the distinct names and strings to the driver, because every worker needs them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as fn

from matchwood.encode.element_columns import is_list_of_structs
from matchwood.encode.event_tables import EventEncoder
from matchwood.encode.wide_events import is_list_of_objects
from matchwood.errors import QueryError, SchemaError
from matchwood.schema import Schema, Type
from matchwood.spark import columns
from matchwood.spark.codebook import Codebook
from matchwood.spark.ingest_worker import CORRUPT, LINES, Encoding, Kind, Separating, encode_batches
from matchwood.spark.learn_worker import Learning
from matchwood.spark.paths import raw_input
from matchwood.spark.places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("csv", "jsonl", "parquet")


class Split(NamedTuple):
    """The two results of ingesting a raw table."""

    good: DataFrame
    rejects: DataFrame


def read_raw(
    spark: SparkSession, path: str | Path, *, format: str | None = None, schema: Schema | None = None
) -> tuple[DataFrame, str | None]:
    """(raw records, their form) of files. The format is told by the ending unless given: csv, jsonl (one record a line), parquet.

    CSV columns take the types of `schema` where it knows them, and Spark's guess otherwise; JSON lines are read by the worker.
    `path` is a file or a folder; if nothing has exactly this name, a pattern, or a URI of any file system that Spark knows.
    """
    place = raw_input(path)
    ending = Path(str(path)).suffix.lstrip(".")
    chosen = format or {"json": "jsonl", "ndjson": "jsonl"}.get(ending, ending)
    if chosen not in FORMATS:
        raise QueryError(
            f"{path}: expected one of the formats {', '.join(FORMATS)}, got {chosen or 'no ending'}; give the format"
        )
    if chosen == "jsonl":
        return spark.read.text(place).filter(fn.trim("value") != ""), LINES
    if chosen == "parquet":
        return spark.read.parquet(place), None
    return _read_csv(spark, place, schema), None


_TAUGHT = (Type.STRING, Type.TIMESTAMP, Type.OBJECTS)
"""The types whose attributes subscriptions may teach a closed codebook something about: strings, functions and conditions."""


def learn(raw: DataFrame, codebook: Codebook, kind: Kind, *, form: str | None = None) -> Codebook:
    """The codebook, extended by the attributes and (of subscriptions) the strings of a raw table. One pass; runs a job.

    Of two types for one attribute, that of the earlier partition stays, and ingest rejects the others. A closed codebook learns
    strings and functions of its attributes, and no attribute. A column that cannot be used at all is an error now, before any job
    runs.
    """
    schema = codebook.schema()
    if not schema.learn and (kind == "events" or not any(attribute.type in _TAUGHT for attribute in schema)):
        return codebook
    if form != LINES:
        _check_columns(raw, Encoding(kind, codebook.content, form))
    wide = _declared_by_columns(raw, codebook, kind, form)
    if wide is not None:
        return wide
    if form is None and kind == "subscriptions" and "expression" in raw.columns and "predicates" not in raw.columns:
        form = "text"
    learning = Learning(Encoding(kind, codebook.content, form))
    # Sorted on the driver: to sort by ranges Spark would run the pass twice, the first time to sample.
    found = sorted(raw.mapInArrow(learning, columns.LEARNT).collect(), key=lambda row: int(row["partition"]))
    return codebook.extended(Schema.from_json(json.loads(row["schema"])) for row in found)


def encode(raw: DataFrame, codebook: Codebook, kind: Kind, *, form: str | None = None) -> DataFrame:
    """Encoded records of a raw table, good and bad (`reason` says which). Lazy.

    A column that cannot be used at all is an error now, before any job runs.
    """
    raw, encoding = _encoding(raw, codebook, kind, form)
    expected = columns.ENCODED_EVENTS if kind == "events" else columns.ENCODED_SUBSCRIPTIONS
    return codebook.mark(raw.mapInArrow(encoding, expected))


def separate(raw: DataFrame, codebook: Codebook, kind: Kind, rejects: Place, *, form: str | None = None) -> DataFrame:
    """Good encoded records of a raw table. Lazy; computing it writes the bad ones to files in the folder `rejects`.

    Ids are unique within a partition only.
    """
    raw, encoding = _encoding(raw, codebook, kind, form)
    table = columns.EVENTS if kind == "events" else columns.SUBSCRIPTIONS
    return codebook.mark(raw.mapInArrow(Separating(encoding, rejects), table))


def separated_rejects(spark: SparkSession, rejects: Place, source: str) -> DataFrame:
    """The bad records that `separate` has written. Lazy."""
    files = [(rejects / name).read_by_spark for name in rejects.names() if name.endswith(".parquet")]
    found = spark.read.parquet(*files) if files else spark.createDataFrame([], columns.REFUSED)
    return found.select(fn.lit(source).alias("source"), "where", "id", "reason", "content")


def located(stored: DataFrame) -> DataFrame:
    """Good records that `separate` made and Spark wrote as Parquet, with their positions there: the order they were read in."""
    file = fn.col("_metadata.file_name")
    partition = fn.regexp_extract(file, r"part-(\d+)", 1).cast("long")
    nothing = fn.lit(None).cast("string")
    return stored.select(
        "*",
        fn.struct(partition, file, fn.col("_metadata.row_index")).alias("position"),
        *(nothing.alias(name) for name in ("where", "reason", "content")),
    )


def has_repeated_ids(table: DataFrame) -> bool:
    """Do two records have the same id? Runs a job over the column of ids."""
    return not table.groupBy("id").count().filter("count > 1").isEmpty()


def _encoding(raw: DataFrame, codebook: Codebook, kind: Kind, form: str | None) -> tuple[DataFrame, Encoding]:
    """The columns that are encoded, and how. A column that cannot be used raises."""
    schema = codebook.schema()
    schema.learn = schema.learn and kind == "events"  # events may hold attributes that no subscription names
    encoding = Encoding(kind, json.dumps(schema.to_json()), form)
    if form == LINES:
        return raw.select("value"), encoding
    _check_columns(raw, encoding)
    return raw, encoding


def split(encoded: DataFrame, kind: Kind, source: str) -> Split:
    """The good and the bad of encoded records; repeated ids are bad. Lazy; reads `encoded` up to three times: store it before."""
    table = columns.EVENTS if kind == "events" else columns.SUBSCRIPTIONS
    good = encoded.filter(fn.col("reason").isNull())
    repeated = (
        good.groupBy(fn.col("id").alias("_id"))
        .agg(fn.min("position").alias("_first"), fn.count("*").alias("_times"))
        .filter("_times > 1")
    )
    is_first = good.join(fn.broadcast(repeated), fn.col("id") == fn.col("_id"), "left")
    kept = is_first.filter("_first IS NULL OR position = _first").select(*table.names)
    reason = fn.format_string("an earlier record has the same id %s", fn.col("id"))
    again = is_first.filter("position > _first").select(
        fn.col("id"),
        fn.lit("another partition").alias("where"),
        reason.alias("reason"),
        _as_text(table).alias("content"),
    )
    bad = encoded.filter(fn.col("reason").isNotNull()).select("id", "where", "reason", "content").unionByName(again)
    return Split(kept, bad.select(fn.lit(source).alias("source"), "where", "id", "reason", "content"))


def _as_text(table: Any) -> Any:
    return fn.to_json(fn.struct(*(name for name in table.names)))


def _read_csv(spark: SparkSession, path: str, schema: Schema | None) -> DataFrame:
    guessed = spark.read.csv(path, header=True, inferSchema=True, enforceSchema=False)
    types = {
        "id": "bigint",
        "priority": "double",
        "lon": "double",
        "lat": "double",
        "radius": "double",
        "until": "string",
    }
    names = {Type.NUMBER: "double", Type.STRING: "string", Type.BOOL: "boolean", Type.TIMESTAMP: "timestamp"}
    for attribute in schema or ():
        if attribute.type in names:
            name = names[attribute.type]
            types |= {attribute.name: name, f"{attribute.name}_lo": name, f"{attribute.name}_hi": name}
    fields = [f"`{field.name}` {types.get(field.name, field.dataType.simpleString())}" for field in guessed.schema]
    wanted = ", ".join([*fields, f"{CORRUPT} string"])
    return spark.read.csv(path, header=True, schema=wanted, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT)


def _declared_by_columns(raw: DataFrame, codebook: Codebook, kind: Kind, form: str | None) -> Codebook | None:
    """The codebook of a wide table of events: its columns tell everything, since strings of events are not registered."""
    if kind != "events" or form not in (None, "wide"):
        return None
    schema = codebook.schema()
    for field in _arrow_fields(raw):
        if form is None and field.name == "values" and is_list_of_structs(field.type):
            return None  # perhaps the list form
        type_ = _attribute_type(field.type)
        if field.name not in ("id", "until", "weights", CORRUPT) and type_ is not None and field.name not in schema:
            schema.attribute_for(field.name, type_)
    return codebook.extended([schema])


def _attribute_type(type_: Any) -> Type | None:
    from matchwood.encode.arrow_keys import arrow_type, is_list

    if is_list_of_objects(type_):
        return Type.OBJECTS
    if is_list(type_):
        return _attribute_type(type_.value_type)
    if pa.types.is_struct(type_):
        names = {field.name for field in type_}
        return (
            Type.POINT
            if names == {"lon", "lat"}
            else _attribute_type(type_.field("lo").type)
            if "lo" in names
            else None
        )
    try:
        return arrow_type(type_)
    except SchemaError:
        return None


def _arrow_fields(raw: DataFrame) -> list[Any]:
    return list(columns.arrow_schema(raw.schema))


def check_event_columns(events: StructType, codebook: Codebook) -> None:
    """Raise `SchemaError` for a column of a wide table of events that its attribute cannot be read from."""
    EventEncoder(codebook.schema(), form="wide", learn=False).encode(_no_records(events))


def _no_records(table: StructType) -> Any:
    schema = columns.arrow_schema(table)
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _check_columns(raw: DataFrame, encoding: Encoding) -> None:
    """Encode no records with these columns, here, so that a column that cannot be used is named before a job starts."""
    nothing = _no_records(raw.schema)
    if "id" not in raw.columns:
        raise SchemaError(f"{encoding.kind}: column 'id' is missing; found {', '.join(raw.columns) or 'no columns'}")
    for _ in encode_batches(encoding, [nothing]):
        pass
