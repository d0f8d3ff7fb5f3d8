"""Change data capture: subscriptions that are kept in a table of a database, as changes for a stream.

Debezium and its relatives send a record for each change of a row:

    {"op": "u", "before": {...}, "after": {"id": 7, "expression": "price < 30"}, "source": {"lsn": 123, ...}, "ts_ms": 17000000}

possibly inside {"schema": ..., "payload": ...}. `op` is c (create), r (read, of a snapshot), u (update) or d (delete); `before`
and `after` hold the columns of the row. A tombstone (an empty value after a delete) is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from matchwood.spark import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORD = {
    "op": "string",
    "before": "map<string,string>",
    "after": "map<string,string>",
    "source": "struct<lsn: bigint, ts_ms: bigint>",
    "ts_ms": "bigint",
}
_OPS = {"c": "subscribe", "r": "subscribe", "u": "update", "d": "unsubscribe"}
_COLUMNS = ("id", "expression", "priority", "until", "lon", "lat", "radius")


def captured_changes(
    records: DataFrame, *, names: Mapping[str, str] | None = None, seq: str | None = None
) -> DataFrame:
    """Lines of changes for `MatchStream.start(changes=...)` from records of change data capture in a column `value`. Lazy.

    `names` maps columns of changes (id, expression, priority, until, lon, lat, radius) to columns of the database that are called
    otherwise. Changes are ordered by the log sequence number of the source or, without one, by time; `seq` is the JSON path of
    another number that grows with each change, such as "$.source.scn". A record that is none is passed on, and rejected.
    """
    text = fn.col("value").cast("string")
    fields = ", ".join(f"{name}: {type_}" for name, type_ in _RECORD.items())
    plain, wrapped = fn.from_json(text, f"struct<{fields}>"), fn.from_json(text, f"struct<payload: struct<{fields}>>")
    parsed = records.select(text.alias("value"), fn.coalesce(wrapped["payload"], plain).alias("r"))
    parsed = parsed.filter("value IS NOT NULL AND trim(value) != ''")
    row = fn.when(fn.col("r.op") == "d", fn.col("r.before")).otherwise(fn.col("r.after"))
    number = fn.coalesce("r.source.lsn", "r.source.ts_ms", "r.ts_ms")
    if seq is not None:
        inner = seq.replace("$.", "$.payload.", 1)
        number = fn.coalesce(fn.get_json_object("value", seq), fn.get_json_object("value", inner)).try_cast("bigint")
    op = fn.create_map(*(fn.lit(part) for pair in _OPS.items() for part in pair))[fn.col("r.op")]
    types = {field.name: field.dataType for field in columns.CHANGES}
    cells = [
        fn.try_element_at(row, fn.lit((names or {}).get(name, name))).try_cast(types[name]).alias(name)
        for name in _COLUMNS
    ]
    change = fn.to_json(fn.struct(op.alias("op"), number.alias("seq"), *cells))
    return parsed.select(fn.when(op.isNotNull(), change).otherwise(fn.col("value")).alias("value"))
