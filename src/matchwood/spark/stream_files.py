"""The files that workers of a stream read and write."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from matchwood.schema import Schema
from matchwood.spark.codebook import Codebook
from matchwood.spark.event_schemas import prepare_conditions
from matchwood.spark.places import Place

MAX_NEW_DIMENSIONS = 1_000
"""A cached schema is read again when events have added this many dimensions that no subscription uses."""

_schemas: dict[str, tuple[Schema, int]] = {}


def cached_schema(codebook: Place) -> Schema:
    """The schema of a stored codebook, cached by this worker; events may have added attributes."""
    path = str(codebook)
    known = _schemas.get(path)
    if known is None or known[0].dimensions > known[1] + MAX_NEW_DIMENSIONS:
        schema = Codebook.from_json(json.loads(codebook.text())).schema()
        schema.learn = True
        prepare_conditions(schema)
        known = _schemas[path] = (schema, schema.dimensions)
    return known[0]


def known_dimensions(codebook: Place) -> int:
    """The dimensions that a stored codebook has; further ones of `cached_schema` are known to this worker only."""
    cached_schema(codebook)
    return _schemas[str(codebook)][1]


def read_parquet(folder: Place) -> Any:
    """The table that Spark wrote to a folder."""
    files = [folder / name for name in folder.names() if name.endswith(".parquet")]
    return pa.concat_tables(pq.read_table(pa.BufferReader(file.read())) for file in files)


def write_parquet(file: Place, table: Any) -> None:
    """Write a table to one file; None removes the file of an earlier attempt."""
    if table is None:
        file.remove()
        return
    content = pa.BufferOutputStream()
    pq.write_table(table, content, compression="zstd")
    file.write(content.getvalue().to_pybytes())
