"""Arrow tables and Parquet files, damaged: columns of wrong types, nulls, nesting, other physical forms of the same data."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from matchwood.encode.arrow_keys import is_text
from matchwood.encode.checks import check_events, check_rows
from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.parquet import read_events, read_subscriptions
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.errors import MatchwoodError
from matchwood.lang.limits import Limits
from matchwood.schema import Schema
from tests.encode.tables import ARROW, PREDICATE, SCALARS, a_conjunct, ends, listed_events, struct_of, wide_events
from tests.fuzz.mutation import mutated_bytes
from tests.worlds import TYPES, WORDS, an_event, an_expression, seeded_dice

ROWS = 12

Encode = Callable[[Any, Schema], Any]


def _list_subscriptions(seed: int) -> pa.Table:
    dice = seeded_dice(seed)
    predicates = [[struct_of(a_conjunct(dice, dice.one(SCALARS))) for _ in range(dice.below(4))] for _ in range(ROWS)]
    columns = {"id": np.arange(ROWS), "predicates": pa.array(predicates, pa.list_(PREDICATE))}
    return pa.table({**columns, "priority": np.linspace(0, 1, ROWS)})


def _wide_subscriptions(seed: int) -> pa.Table:
    dice = seeded_dice(seed)
    columns: dict[str, Any] = {"id": pa.array(range(ROWS))}
    for name in SCALARS:
        if TYPES[name] == "string":
            columns[name] = pa.array([dice.one([None, *WORDS]) for _ in range(ROWS)])
            continue
        if TYPES[name] == "bool":
            columns[name] = pa.array([dice.one([None, True, False]) for _ in range(ROWS)])
            continue
        pairs = [ends(a_conjunct(dice, name)) for _ in range(ROWS)]
        for role, side in (("lo", 0), ("hi", 1)):
            columns[f"{name}_{role}"] = pa.array([pair[side] for pair in pairs], ARROW[TYPES[name]])
        columns[f"{name}_weight"] = pa.array([dice.one([None, 0.5, 2.0]) for _ in range(ROWS)], pa.float64())
    columns |= {"lon": np.full(ROWS, 1.0), "lat": np.full(ROWS, 2.0), "radius": np.full(ROWS, 500.0)}
    return pa.table(columns)


def _text_subscriptions(seed: int) -> pa.Table:
    dice = seeded_dice(seed)
    columns: dict[str, Any] = {"id": np.arange(ROWS), "expression": [str(an_expression(dice)) for _ in range(ROWS)]}
    return pa.table(
        {**columns, "until": pa.array([dice.one([None, 10**15]) for _ in range(ROWS)], pa.timestamp("us", "UTC"))}
    )


def _events(seed: int, form: Callable[[Any], pa.Table]) -> pa.Table:
    dice = seeded_dice(seed)
    return form([an_event(dice) for _ in range(ROWS)]).append_column("id", pa.array(range(ROWS)))


@cache
def tables() -> tuple[tuple[pa.Table, bool], ...]:
    """(table, does it hold events?), some of each form."""
    found: list[tuple[pa.Table, bool]] = []
    for seed in range(12):
        found += [(make(seed), False) for make in (_list_subscriptions, _wide_subscriptions, _text_subscriptions)]
        found += [(_events(seed, form), True) for form in (wide_events, listed_events)]
    return tuple(found)


def a_damaged_table(random: Random) -> int:
    """A table with damaged columns: refused by name, or each record accepted or told; other layouts give the same."""
    table, holds_events = random.choice(tables())
    for _ in range(random.randrange(3)):
        table = _damaged_column(random, table)
    form = random.choice((None, None, None, "list", "wide", *(() if holds_events else ("text",))))
    declared = random.random() < 0.7
    first = _encoded(table, holds_events, form, declared)
    second = _encoded(_laid_out_anew(random, table, chunks=declared), holds_events, form, declared)
    assert (first is None) == (second is None), "only one layout of the table is refused"
    if first is not None and second is not None:
        _assert_alike(first, second)
    return 2


def _encoded(table: pa.Table, holds_events: bool, form: str | None, declared: bool) -> Any:
    # A plain column of wide subscriptions must be known; all else may be learnt.
    plain = {name: TYPES[name] for name in SCALARS if name in table.column_names and not holds_events}
    schema = _declared() if declared else Schema(plain)
    try:
        encoded: Any = (
            encode_event_table(table, schema, form=form)
            if holds_events
            else encode_subscription_table(table, schema, form=form, limits=Limits(max_rows=50))
        )
    except MatchwoodError:
        return None
    _judge(encoded, schema, table.num_rows, holds_events)
    return encoded


def _declared() -> Schema:
    """Closed, strings registered: chunks may name what is new in another order, and its dimensions and codes would differ."""
    schema = Schema(TYPES, learn=False)
    for name in ("plan", "city"):
        for values, type_ in _odd_types():
            for value in (*values, *WORDS) if is_text(type_) else ():
                schema.key(schema.find(name), value)
    return schema


def _judge(encoded: Any, schema: Schema, records: int, holds_events: bool) -> None:
    if holds_events:
        check_events(encoded.events)
        assert encoded.events.size == len(encoded.positions)
    else:
        check_rows(encoded.rows, schema.dimensions)
        assert set(encoded.rows.ids.tolist()) == set(encoded.ids.tolist())
    told = sorted([*encoded.positions.tolist(), *(reject.position for reject in encoded.rejects)])
    assert told == list(range(records))


def _assert_alike(first: Any, second: Any) -> None:
    assert first.positions.tolist() == second.positions.tolist()
    assert [(r.position, r.reason) for r in first.rejects] == [(r.position, r.reason) for r in second.rejects]
    for a, b in zip(_arrays(first), _arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)


def _arrays(encoded: Any) -> Any:
    return encoded.rows if hasattr(encoded, "rows") else encoded.events


def _damaged_column(random: Random, table: pa.Table) -> pa.Table:
    at = random.randrange(table.num_columns)
    name = table.schema.names[at]
    kind = random.randrange(8)
    if kind == 0:
        return table.remove_column(at) if table.num_columns > 1 else table
    if kind == 1:
        return table.append_column(
            random.choice((name, f"{name}_lo", "lon", "predicates", "values", "weights", "")), table.column(at)
        )
    if kind == 2:
        return table.rename_columns(
            [
                *table.schema.names[:at],
                random.choice(("id", "age", "x", "until", "plan_hi")),
                *table.schema.names[at + 1 :],
            ]
        )
    return table.set_column(at, name, _odd_column(random, table.column(at).combine_chunks(), table.num_rows))


def _odd_column(random: Random, column: Any, n: int) -> Any:
    """A column of another type, with nulls or with values at the edge."""
    kind = random.randrange(4)
    if kind == 0:
        return pa.nulls(n, column.type)
    if kind == 1:
        keep = pa.array([random.random() < 0.5 for _ in range(n)])
        try:
            return pa.compute.if_else(keep, column, pa.scalar(None, column.type))
        except pa.ArrowException:
            return pa.nulls(n, column.type)
    values, type_ = random.choice(_odd_types())
    return pa.array([random.choice((*values, None)) for _ in range(n)], type_)


@cache
def _odd_types() -> tuple[tuple[tuple[Any, ...], Any], ...]:
    point = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
    pair = pa.struct([("lo", pa.int64()), ("hi", pa.int64())])
    return (
        ((0, 1, -1, 2**62 + 1, 2**63 - 1, -(2**63)), pa.int64()),
        ((0, 2**64 - 1), pa.uint64()),
        ((1, -1), pa.int8()),
        ((0.5, np.nan, np.inf, -np.inf, 1e308, -0.0, 5e-324), pa.float64()),
        ((0.1, np.nan), pa.float32()),
        ((1.5, 65504.0), pa.float16()),
        ((Decimal("1.5"), Decimal("12345678901234567890.5"), Decimal("0.1")), pa.decimal128(38, 10)),
        ((Decimal("1.5"),), pa.decimal256(60, 3)),
        ((True, False), pa.bool_()),
        (
            ("free", "", "x" * 100_000, "2026-03-01", "2026-03-01T00:00:00.1234567Z", '{"op": 5}', "age > 3", "名"),
            pa.string(),
        ),
        (("free", "age ="), pa.large_string()),
        (("free", "pro"), pa.dictionary(pa.int8(), pa.string())),
        (("free", "pro"), pa.string_view()),
        ((1, 2), pa.dictionary(pa.int32(), pa.int64())),
        ((b"x", b"\xff"), pa.binary()),
        ((b"ab",), pa.binary(2)),
        ((date(2026, 3, 1), date(1, 1, 1), date(9999, 12, 31)), pa.date32()),
        ((date(2026, 3, 1),), pa.date64()),
        ((datetime(2026, 3, 1), datetime(1677, 9, 22)), pa.timestamp("ns")),
        ((datetime(1, 1, 1), datetime(9999, 12, 31)), pa.timestamp("s", "Europe/Oslo")),
        ((datetime(2026, 3, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)), pa.timestamp("ms")),
        ((timedelta(1),), pa.duration("us")),
        (([1, 2], [], [None], [2**60 + 1]), pa.list_(pa.int64())),
        (([0.5, np.nan],), pa.list_(pa.float64(), 2)),
        ((["free", None], []), pa.large_list(pa.string())),
        (([[1], []], [None]), pa.list_(pa.list_(pa.int64()))),
        (
            (
                {"lon": 1.0, "lat": 2.0},
                {"lon": None, "lat": 2.0},
                {"lon": 181.0, "lat": 0.0},
                {"lon": np.nan, "lat": np.nan},
            ),
            point,
        ),
        (({"lo": 3, "hi": 1}, {"lo": None, "hi": 5}, {"lo": 1, "hi": 2**60 + 1}), pair),
        (([{"lo": 3, "hi": 4}, None], []), pa.list_(pair)),
        (({"a": {"b": 1}},), pa.struct([("a", pa.struct([("b", pa.int64())]))])),
        (([("age", 0.5)], [("age", -1.0)], [("", None)], []), pa.map_(pa.string(), pa.float64())),
        (([(1, "x")],), pa.map_(pa.int64(), pa.string())),
        (
            ([{"attribute": "age", "value": 3}], [{"attribute": None, "value": 3}], [None]),
            pa.list_(pa.struct([("attribute", pa.string()), ("value", pa.int64())])),
        ),
        (
            ([{"attribute": "plan", "values": ["a", None]}], []),
            pa.list_(pa.struct([("attribute", pa.string()), ("values", pa.list_(pa.string()))])),
        ),
        (([{"attribute": 5, "lo": "x"}],), pa.list_(pa.struct([("attribute", pa.int64()), ("lo", pa.string())]))),
        ((None,), pa.null()),
    )


def _laid_out_anew(random: Random, table: pa.Table, *, chunks: bool) -> pa.Table:
    """The same data, laid out in another way: sliced out of a larger table, in chunks, with strings in a dictionary.

    In chunks only if types are declared: they are learnt batch by batch.
    """
    kind = random.choice((0, 1, 2) if chunks else (0, 2))
    try:
        if kind == 0:
            before, after = random.randrange(3), random.randrange(3)
            pieces = [table.slice(0, min(before, table.num_rows)), table, table.slice(0, min(after, table.num_rows))]
            whole = pa.concat_tables(pieces).combine_chunks()
            return whole.slice(pieces[0].num_rows, table.num_rows)
        if kind == 1:
            cut = random.randrange(table.num_rows + 1)
            return pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        for at, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                table = table.set_column(at, field.name, table.column(at).combine_chunks().dictionary_encode())
        return table
    except pa.ArrowException:  # Arrow cannot lay out every type anew
        return table


@cache
def _parquet_files() -> tuple[tuple[bytes, bool, int], ...]:
    files = []
    for table, holds_events in tables()[:20]:
        for options in ({}, {"compression": "none", "use_dictionary": False, "row_group_size": 5}):
            sink = io.BytesIO()
            pq.write_table(table, sink, **options)
            files.append((sink.getvalue(), holds_events, table.num_rows))
    return tuple(files)


def a_damaged_parquet_file(random: Random) -> int:
    """Bytes of a Parquet file changed: refused, or records that are well formed (Parquet has no checksums to tell more)."""
    from tests.fuzz.folders import home

    content, holds_events, _ = random.choice(_parquet_files())
    path: Path = home() / "damaged.parquet"
    path.write_bytes(mutated_bytes(random, content))
    schema = Schema(TYPES)
    try:
        if holds_events:
            check_events(read_events(path, schema).events)
        else:
            check_rows(read_subscriptions(path, schema, limits=Limits(max_rows=50)).rows, schema.dimensions)
    except MatchwoodError:
        pass
    return 1
