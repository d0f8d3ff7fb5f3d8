"""Profile: statistics of subscriptions and events, one record per dimension, in one pass over each table.

    subscriptions, predicates   the number of subscriptions that use the dimension, and of their intervals
    events, nulls               the number of events that have the dimension, and that lack it
    distinct_bounds, distinct_values
    value_quantiles             deciles of the values of events; meaningless for string attributes, whose values are codes
    width_quantiles             deciles of the widths of bounded intervals
    selectivity                 the share of values that hold for a predicate, among events that have the dimension

`weigh` uses it. The size of what partitions send is bounded (`sketch`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from matchwood.encode.arrays import ABSENT, CIRCLE, Float64s, Int64s
from matchwood.errors import UnsupportedError
from matchwood.schema import Schema
from matchwood.spark import columns
from matchwood.spark.batches import read_events, read_subscriptions
from matchwood.spark.codebook import Codebook
from matchwood.spark.sketch import Sketch, quantiles, selectivity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARES = np.linspace(0.0, 1.0, 11)
ALL_RECORDS = -1
"""The dimension of the sketch that counts the records of a side."""
SUBSCRIPTIONS, EVENTS = 0, 1
_SKETCHES = columns.arrow_schema(columns.SKETCHES)
_ATTRIBUTES = columns.arrow_schema(columns.ATTRIBUTES)


def profile(subscriptions: DataFrame, events: DataFrame | None, codebook: Codebook) -> DataFrame:
    """Statistics of every dimension (`columns.ATTRIBUTES`). Lazy; without events their figures are 0."""
    columns.check(subscriptions, columns.SUBSCRIPTIONS, "subscriptions")
    parts = subscriptions.select(*columns.SUBSCRIPTIONS.names).mapInArrow(Sketching(SUBSCRIPTIONS), columns.SKETCHES)
    if events is not None:
        columns.check(events, columns.EVENTS, "events")
        parts = parts.unionAll(events.select(*columns.EVENTS.names).mapInArrow(Sketching(EVENTS), columns.SKETCHES))
    return parts.repartition(1).mapInArrow(Summing(codebook.content), columns.ATTRIBUTES)


@dataclass(frozen=True)
class Profile:
    """A profile on the driver: one record for each dimension, as `profile` gives it.

    In a notebook it shows itself as a table; `plot` draws it.
    """

    records: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, table: DataFrame) -> Profile:
        """The profile of a table that `profile` has made, such as `lake.read(spark, "attributes")`. Runs a job."""
        return cls(tuple(row.asDict() for row in table.orderBy("dimension").collect()))

    def __str__(self) -> str:
        heads = ("attribute", "type", "subscriptions", "events", "distinct_values", "selectivity")
        rows = [heads, *(tuple(_shown(record[name]) for name in heads) for record in self.records)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)

    __repr__ = __str__

    def plot(self) -> Any:
        """A matplotlib figure: how often attributes are used, how selective their predicates are, and where values lie."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise UnsupportedError("plots need matplotlib: pip install 'matchwood[plots]'") from None
        names = [f"{record['attribute']} ({record['dimension']})" for record in self.records]
        figure = Figure(figsize=(11, 1.2 + 0.35 * len(names)), layout="constrained")
        used, selective, values = figure.subplots(1, 3, sharey=True)
        at = np.arange(len(names))
        used.barh(at - 0.2, [record["subscriptions"] for record in self.records], 0.4, label="subscriptions")
        used.barh(at + 0.2, [record["events"] for record in self.records], 0.4, label="events")
        used.set_yticks(at, names)
        used.invert_yaxis()
        used.set_title("records with the attribute")
        used.legend()
        selective.barh(at, [record["selectivity"] or 0.0 for record in self.records], 0.6)
        selective.set_xlim(0.0, 1.0)
        selective.set_title("share of values that hold for a predicate")
        for place, record in zip(at, self.records, strict=True):
            deciles = np.array(record["value_quantiles"], float)
            if record["type"] != "string" and len(deciles) and deciles[-1] > deciles[0]:
                values.plot((deciles - deciles[0]) / (deciles[-1] - deciles[0]), np.full(len(deciles), place), "|-")
        values.set_title("deciles of values, from least to largest")
        return figure


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Sketching:
    """The sketches of a partition of subscriptions or events."""

    side: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        sketches: dict[int, Sketch] = {ALL_RECORDS: Sketch()}
        for batch in batches:
            records, dims, lo, hi = (_intervals if self.side == SUBSCRIPTIONS else _values)(batch)
            sketches[ALL_RECORDS].count += batch.num_rows
            order = np.argsort(dims, kind="stable")
            found, starts = np.unique(dims[order], return_index=True)
            for dim, mine in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
                values = np.concatenate([lo[mine], hi[mine]]) if self.side == SUBSCRIPTIONS else lo[mine]
                part = Sketch.of(records[mine], dim, lo[mine], hi[mine], values)
                sketches[dim] = sketches[dim].merged(part) if dim in sketches else part
        yield _written(self.side, sketches)


@dataclass(frozen=True)
class Summing:
    """Merges all sketches into one record per dimension of the schema."""

    schema: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        sides: dict[int, dict[int, Sketch]] = {SUBSCRIPTIONS: {}, EVENTS: {}}
        for batch in batches:
            for side, dim, sketch in _read(batch):
                known = sides[side].get(dim)
                sides[side][dim] = sketch if known is None else known.merged(sketch)
        schema = Schema.from_json(json.loads(self.schema))
        rows = [summary(schema, dim, sides[SUBSCRIPTIONS], sides[EVENTS]) for dim in range(schema.dimensions)]
        yield pa.RecordBatch.from_pylist(rows, schema=_ATTRIBUTES)


def summary(schema: Schema, dim: int, of_rows: dict[int, Sketch], of_events: dict[int, Sketch]) -> dict[str, Any]:
    """The record of one dimension."""
    attribute = schema.of_dimension(dim)
    intervals, values = of_rows.get(dim, Sketch()), of_events.get(dim, Sketch())
    return {
        "dimension": dim,
        "attribute": attribute.name,
        "type": attribute.type,
        "subscriptions": intervals.count,
        "predicates": intervals.parts,
        "events": values.count,
        "nulls": of_events.get(ALL_RECORDS, Sketch()).count - values.count,
        "distinct_bounds": intervals.different,
        "distinct_values": values.different,
        "value_quantiles": quantiles(values.lo, SHARES),
        "width_quantiles": quantiles(_widths(intervals), SHARES),
        "selectivity": selectivity(intervals, values),
    }


def _widths(intervals: Sketch) -> Float64s:
    bounded = np.isfinite(intervals.lo) & np.isfinite(intervals.hi)
    with np.errstate(over="ignore"):  # from the lowest float to the highest
        return intervals.hi[bounded] - intervals.lo[bounded]


def _intervals(batch: Any) -> tuple[Int64s, Any, Float64s, Float64s]:
    rows = read_subscriptions(batch).rows
    chosen = (rows.kinds < CIRCLE) & (rows.kinds != ABSENT)
    records = np.repeat(rows.ids, np.diff(rows.offsets))
    return records[chosen], rows.dims[chosen], rows.lo[chosen], rows.hi[chosen]


def _values(batch: Any) -> tuple[Int64s, Any, Float64s, Float64s]:
    ids, _, events = read_events(batch)
    return np.repeat(ids, np.diff(events.offsets)), events.dims, events.lo, events.hi


def _written(side: int, sketches: dict[int, Sketch]) -> Any:
    rows = [
        {
            "dimension": dim,
            "side": side,
            "count": sketch.count,
            "parts": sketch.parts,
            "sample_key": sketch.key.view(np.int64),
            "sample_lo": sketch.lo,
            "sample_hi": sketch.hi,
            "distinct": sketch.distinct.view(np.int64),
        }
        for dim, sketch in sketches.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_SKETCHES)


def _read(batch: Any) -> Iterator[tuple[int, int, Sketch]]:
    for row in batch.to_pylist():
        hashes = [np.array(row[name], np.int64).view(np.uint64) for name in ("sample_key", "distinct")]
        lo, hi = (np.array(row[name], np.float64) for name in ("sample_lo", "sample_hi"))
        yield row["side"], row["dimension"], Sketch(row["count"], row["parts"], hashes[0], lo, hi, hashes[1])
