"""A table as events: every column an attribute, every row an event, nulls absent, lists as adjacent ascending keys.

number, timestamp, bool   their keys (timestamps in microseconds)
string                    codes of the schema's symbols, in the order the texts first appear
list of strings           the codes of its texts, each once
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matchwood.encode.arrays import INTERVAL, MORE, Events, Float64s, Int64s, Rows, make_events, make_rows
from matchwood.schema import Schema, Type
from matchwood.workloads.draw import Uint16s, offsets_of


@dataclass(frozen=True)
class Table:
    """Rows as CSR, ordered by (row, dimension, key)."""

    schema: Schema
    offsets: Int64s
    dims: Uint16s
    keys: Float64s

    @property
    def size(self) -> int:
        return len(self.offsets) - 1

    def events(self, chosen: Int64s) -> Events:
        """The chosen rows as events. O(entries chosen)."""
        starts, sizes = self.offsets[chosen], np.diff(self.offsets)[chosen]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        entries = np.repeat(starts, sizes) + within
        return make_events(offsets_of(sizes), self.dims[entries], self.keys[entries], self.keys[entries])

    def dense(self) -> Float64s:
        """A matrix rows x dimensions; NaN if absent, the greatest key of a list. O(cells)."""
        cells = np.full((self.size, self.schema.dimensions), np.nan)
        cells[np.repeat(np.arange(self.size), np.diff(self.offsets)), self.dims] = self.keys
        return cells

    def column(self, name: str) -> Float64s:
        """One key for each row; NaN if absent, the smallest key of a list. O(entries)."""
        values = np.full(self.size, np.nan)
        here = np.flatnonzero(self.dims == self.schema.find(name).dims[0])[::-1]
        values[np.searchsorted(self.offsets, here, side="right") - 1] = self.keys[here]
        return values

    def drawn(self, rng: np.random.Generator, name: str, chosen: Int64s) -> Float64s:
        """A random key of each chosen row in a column; NaN if absent. O(entries of the column)."""
        here = np.flatnonzero(self.dims == self.schema.find(name).dims[0])
        uses = np.bincount(np.searchsorted(self.offsets, here, side="right") - 1, minlength=self.size)
        starts = offsets_of(uses)[:-1]
        place = starts[chosen] + np.floor(rng.random(len(chosen)) * uses[chosen]).astype(np.int64)
        values = self.keys[here[np.minimum(place, len(here) - 1)]] if len(here) else np.full(len(chosen), np.nan)
        return np.where(uses[chosen] > 0, values, np.nan)


def encode(table: Any, columns: Sequence[str] | None = None) -> Table:
    """A pyarrow table as keys; without `columns`, all but `id`. O(cells log cells)."""
    schema = Schema(learn=False)
    parts = []
    for name in columns or [name for name in table.column_names if name != "id"]:
        rows, keys = _column_keys(schema, name, table[name].combine_chunks())
        known = ~np.isnan(keys)
        dim = schema.find(name).dims[0]
        parts.append((rows[known], np.full(int(known.sum()), dim, dtype=np.uint16), keys[known]))
    rows, dims, keys = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((keys, dims, rows))
    rows, dims, keys = rows[order], dims[order], keys[order]
    repeated = np.zeros(len(rows), dtype=bool)
    repeated[1:] = (rows[1:] == rows[:-1]) & (dims[1:] == dims[:-1]) & (keys[1:] == keys[:-1])
    rows, dims, keys = rows[~repeated], dims[~repeated], keys[~repeated]
    return Table(schema, offsets_of(np.bincount(rows, minlength=table.num_rows)), dims, keys)


def rows_from_entries(ids: Int64s, row: Int64s, dims: Int64s, lo: Float64s, hi: Float64s, weight: Float64s) -> Rows:
    """Rows from entries in any order; the intervals of one dimension of a row are one predicate.

    They must be disjoint or equal; equal ones are stored once. Entries whose `lo` is NaN are left out.
    """
    known = np.flatnonzero(~np.isnan(lo))
    order = known[np.lexsort((lo[known], dims[known], row[known]))]
    row, dims, lo, hi, weight = row[order], dims[order], lo[order], hi[order], weight[order]
    more = np.zeros(len(row), dtype=bool)
    more[1:] = (row[1:] == row[:-1]) & (dims[1:] == dims[:-1])
    repeated = np.zeros(len(row), dtype=bool)
    repeated[1:] = more[1:] & (lo[1:] == lo[:-1])
    unique = ~repeated
    offsets = offsets_of(np.bincount(row[unique], minlength=len(ids)))
    kinds, weight = np.where(more, MORE, INTERVAL), np.where(more, 0.0, weight)
    return make_rows(
        ids, np.zeros(len(ids)), offsets, dims[unique], kinds[unique], lo[unique], hi[unique], weight[unique]
    )


def _column_keys(schema: Schema, name: str, values: Any) -> tuple[Int64s, Float64s]:
    """Row numbers and keys of a column's values; an absent value is NaN."""
    import pyarrow as pa

    rows = np.arange(len(values))
    if pa.types.is_list(values.type):
        rows = values.value_parent_indices().to_numpy().astype(np.int64)
        values = values.flatten()
    if pa.types.is_dictionary(values.type) or pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        symbols = schema.declare(name, Type.STRING).symbols
        assert symbols is not None
        coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        codes = np.array([symbols.code(str(text)) for text in coded.dictionary.to_pylist()], dtype=np.float64)
        index = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return rows, np.where(index < 0, np.nan, np.append(codes, np.nan)[index])
    if pa.types.is_timestamp(values.type):
        schema.declare(name, Type.TIMESTAMP)
        values = values.cast(pa.timestamp("us")).cast(pa.int64())
    else:
        schema.declare(name, Type.BOOL if pa.types.is_boolean(values.type) else Type.NUMBER)
    return rows, values.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
