"""Matching in SQL: table functions over a lake.

    SELECT * FROM matchwood_top_k(TABLE(events), index => '/data/lake', k => 10)
    SELECT * FROM matchwood_match(TABLE(SELECT * FROM offers), index => '/data/lake', id => 'offer_id')

`events` has a column for each attribute, as for `match`. `index` is the path or URI of a lake; its newest index answers, or that
of `version`. `scoring => 'priority'` scores otherwise than by the sum. The result has event_id, subscription_id, score and rank.
`register` makes the functions known to a session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from matchwood.errors import QueryError
from matchwood.lang.evaluate import mode_of
from matchwood.spark import columns
from matchwood.spark.direct import BY_NUMBER, result_columns, used_columns
from matchwood.spark.direct_worker import DirectMatching
from matchwood.spark.index_stage import open_index
from matchwood.spark.lake import Lake
from matchwood.spark.match_worker import Matching, named_scoring
from matchwood.structures.base import check_k

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 10_000
"""Events that are matched at a time."""


@dataclass
class Plan(AnalyzeResult):  # type: ignore[misc]
    """The columns of the result, and how to make them. Sent to the workers."""

    matching: DirectMatching | None = None
    input: Any = None
    used: tuple[int, ...] = ()


class MatchFunction:
    """All matches of each event of a table."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rows: list[Any] = []

    @staticmethod
    def analyze(
        row: AnalyzeArgument,
        index: AnalyzeArgument,
        id: AnalyzeArgument | None = None,
        mode: AnalyzeArgument | None = None,
        version: AnalyzeArgument | None = None,
        scoring: AnalyzeArgument | None = None,
    ) -> Plan:
        """The plan of a call: reads the manifest of the index, and checks the columns."""
        return planned(row, index, None, id, mode, version, scoring)

    def eval(self, row: Any, *options: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
        """Take an event; the matches of many are found together."""
        self._rows.append(row)
        if len(self._rows) == BATCH:
            yield from self._flush()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """The matches of the last events."""
        yield from self._flush()

    def _flush(self) -> Iterator[tuple[Any, ...]]:
        plan, rows = self._plan, self._rows
        self._rows = []
        if not rows or plan.matching is None:
            return
        arrays = [
            pa.array([_plain(row[at]) if pa.types.is_nested(field.type) else row[at] for row in rows], field.type)
            for at, field in zip(plan.used, plan.input, strict=True)
        ]
        for batch in plan.matching([pa.RecordBatch.from_arrays(arrays, schema=plan.input)]):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class TopKFunction(MatchFunction):
    """The k best matches of each event of a table."""

    @staticmethod
    def analyze(  # type: ignore[override]
        row: AnalyzeArgument,
        index: AnalyzeArgument,
        k: AnalyzeArgument,
        id: AnalyzeArgument | None = None,
        mode: AnalyzeArgument | None = None,
        version: AnalyzeArgument | None = None,
        scoring: AnalyzeArgument | None = None,
    ) -> Plan:
        """The plan of a call: reads the manifest of the index, and checks the columns."""
        return planned(row, index, k, id, mode, version, scoring)


def planned(
    row: AnalyzeArgument,
    index: AnalyzeArgument,
    k: AnalyzeArgument | None,
    id: AnalyzeArgument | None,
    mode: AnalyzeArgument | None,
    version: AnalyzeArgument | None,
    scoring: AnalyzeArgument | None,
) -> Plan:
    """The plan of a call with these arguments."""
    if not row.isTable:
        raise QueryError("expected a table of events as first argument: TABLE(events)")
    opened = open_index(Lake(str(_constant(index, "index"))), _constant(version, "version"))
    name = _constant(id, "id") or "id"
    best = _constant(k, "k")
    if best is not None:
        check_k(best)
    table: StructType = row.dataType
    used = used_columns(table, opened.codebook, name, ())
    chosen = columns.arrow_schema(StructType([table[column] for column in used]))
    result = result_columns(table, BY_NUMBER, name, ())
    chosen_mode = str(mode_of(_constant(mode, "mode") or "all"))
    chosen_scoring = named_scoring(_constant(scoring, "scoring") or "sum")
    matching = Matching(opened.paths(), opened.sharding, best, chosen_mode, scoring=chosen_scoring)
    direct = DirectMatching(matching, opened.codebook.content, name, (), None, columns.arrow_schema(result))
    return Plan(result, matching=direct, input=chosen, used=tuple(table.names.index(column) for column in used))


def _plain(value: Any) -> Any:
    """A value with its structs as dicts, as Arrow takes them."""
    if isinstance(value, Row):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _constant(argument: AnalyzeArgument | None, name: str) -> Any:
    if argument is None:
        return None
    if argument.isTable or not getattr(argument, "isConstantExpression", True):
        raise QueryError(f"{name}: expected a constant")
    return argument.value


def register(spark: SparkSession) -> None:
    """Register `matchwood_match` and `matchwood_top_k` with a session, and the format "matchwood" for reading lakes."""
    from matchwood.spark.source import LakeSource

    spark.udtf.register("matchwood_match", udtf(MatchFunction))
    spark.udtf.register("matchwood_top_k", udtf(TopKFunction))
    spark.dataSource.register(LakeSource)
