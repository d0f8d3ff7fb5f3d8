"""Types declared and learnt, and the way from a value to its key: exact, or refused with attribute, value and expected type."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.errors import InexactValueError, SchemaError, UnknownAttributeError, ValueTypeError
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import (
    UNKNOWN_SYMBOL,
    Point,
    Range,
    Schema,
    Type,
    describe,
    exact_key,
    instant_key,
    is_missing,
    point_of,
    type_of,
    unwrapped,
)
from matchwood.schema import schema as schema_module

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_KEY = 1_769_860_800_000_000.0


def key(type_: str, value: object, **options: bool) -> float:
    schema = Schema({"x": type_})
    return schema.key(schema.find("x"), value, **options)


# types


def test_a_declared_type_stays_and_a_second_different_declaration_is_refused() -> None:
    schema = Schema({"age": "number"})
    assert schema.declare("age", Type.NUMBER) is schema.find("age")
    with pytest.raises(ValueTypeError, match="'age' is of type number, but is used as string"):
        schema.declare("age", "string")


def test_a_type_that_there_is_not_is_refused_with_the_list_of_types() -> None:
    with pytest.raises(SchemaError, match=r"'age': expected one of the types number, string, .*, got 'integer'"):
        Schema({"age": "integer"})


def test_the_first_use_of_an_attribute_teaches_its_type() -> None:
    schema = Schema()
    schema.attribute_for("plan", Type.STRING)
    with pytest.raises(ValueTypeError, match="'plan' is of type string, but is used as number"):
        schema.attribute_for("plan", Type.NUMBER)


def test_a_closed_schema_knows_only_what_was_declared() -> None:
    schema = Schema({"age": "number", "city": "string"}, learn=False)
    assert schema.attribute_for("age", Type.NUMBER).dims == (0,)
    with pytest.raises(UnknownAttributeError, match=r"'height' is not in the schema \(known: age, city\)"):
        schema.find("height")
    assert schema.get("height") is None
    assert "height" not in schema


@pytest.mark.parametrize("name", ["", 5, None])
def test_an_attribute_needs_a_name(name: Any) -> None:
    with pytest.raises(SchemaError, match="expected an attribute name"):
        Schema().find(name)


def test_dimensions_are_handed_out_in_order_of_appearance_two_for_a_point() -> None:
    schema = Schema({"a": "number", "p": "point", "b": "bool"})
    assert [attribute.dims for attribute in schema] == [(0,), (1, 2), (3,)]
    assert schema.dimensions == 4
    assert [schema.of_dimension(dim).name for dim in range(4)] == ["a", "p", "p", "b"]


def test_a_point_learnt_after_is_null_keeps_its_first_dimension_and_gets_a_second() -> None:
    schema = Schema()
    normalise(parse("home IS NULL AND age > 3"), schema)
    assert schema.find("home").type is None
    normalise(parse("BBOX(home, 0, 0, 1, 1)"), schema)
    assert schema.find("home").dims == (0, 2)
    assert schema.of_dimension(2).name == "home"


def test_past_the_limit_of_dimensions_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_module, "MAX_DIMENSIONS", 2)
    schema = Schema({"a": "number"})
    schema.find("b")
    with pytest.raises(SchemaError, match="'c': a schema holds at most 2 dimensions"):
        schema.find("c")
    with pytest.raises(SchemaError, match="'b': a schema holds at most 2 dimensions"):
        schema.declare("b", "point")
    assert "c" not in schema
    assert schema.declare("b", "number").dims == (1,)


def test_what_is_learnt_tentatively_is_forgotten_if_it_fails() -> None:
    schema = Schema({"a": "number"})
    schema.find("open")
    before = schema.to_json()

    def learn(*, last: Type) -> None:
        with schema.tentatively():
            schema.attribute_for("open", Type.POINT)
            schema.attribute_for("new", Type.STRING)
            schema.find("other")
            schema.attribute_for("a", last)

    with pytest.raises(ValueTypeError):
        learn(last=Type.BOOL)
    assert schema.to_json() == before
    assert schema.dimensions == 2
    learn(last=Type.NUMBER)
    assert [attribute.dims for attribute in schema] == [(0,), (1, 2), (3,), (4,)]


# numbers


@given(st.integers(-(2**53), 2**53) | st.floats(allow_nan=False))
def test_a_number_is_its_own_key_and_comes_back(value: float) -> None:
    schema = Schema({"x": "number"})
    attribute = schema.find("x")
    assert schema.key(attribute, value) == value
    assert schema.value(attribute, schema.key(attribute, value)) == value


@given(st.integers())
def test_an_integer_is_held_exactly_or_refused(value: int) -> None:
    try:
        assert int(exact_key(value)) == value
    except InexactValueError:
        assert int(float(value)) != value


@pytest.mark.parametrize(
    "value", [2**53 + 1, -(2**53) - 1, 10**400, pytest.param(10**5000, id="huge"), Decimal(2**53 + 1), Decimal("1e400")]
)
def test_what_float64_would_round_is_refused(value: object) -> None:
    with pytest.raises(
        InexactValueError, match=r"attribute 'x': .* has no exact float64; declare the attribute as an id for = and IN"
    ):
        key("number", value)


def test_large_integers_that_float64_holds_are_taken() -> None:
    assert key("number", 2**60) == float(2**60)
    assert key("number", Decimal(2**60)) == float(2**60)


def test_a_decimal_fraction_becomes_the_nearest_float_as_the_same_text_would() -> None:
    assert key("number", Decimal("0.1")) == 0.1


def test_minus_zero_and_zero_have_one_key() -> None:
    assert math.copysign(1.0, key("number", -0.0)) == 1.0


@pytest.mark.parametrize("value", [True, np.True_, "31", None, [1], Point(1, 2), b"1"])
def test_a_number_is_no_bool_no_string_and_no_list(value: object) -> None:
    with pytest.raises(ValueTypeError, match="attribute 'x': expected a number, got "):
        key("number", value)


@pytest.mark.parametrize("value", [math.nan, Decimal("NaN"), Decimal("sNaN"), np.float32("nan")])
def test_nan_is_no_number(value: object) -> None:
    with pytest.raises(ValueTypeError, match="NaN"):
        key("number", value)


@pytest.mark.parametrize("value", [1, 0, "true", np.int64(1), None])
def test_a_bool_is_no_number(value: object) -> None:
    with pytest.raises(ValueTypeError, match="attribute 'x': expected true or false, got "):
        key("bool", value)


def test_bools_are_zero_and_one() -> None:
    assert [key("bool", value) for value in (False, True, np.False_, np.True_)] == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int8(3), 3.0),
        (np.uint64(2**63), 2.0**63),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.array(7), 7.0),
    ],
)
def test_numpy_scalars_are_numbers_declared_or_learnt(value: Any, expected: float) -> None:
    assert type_of(value) is Type.NUMBER
    assert key("number", value) == expected


def test_an_array_is_no_scalar() -> None:
    with pytest.raises(ValueTypeError, match="expected a number"):
        key("number", np.array([1, 2]))
    assert unwrapped(array := np.array([1])) is array


# timestamps


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
        "2026-01-31T12:00:00Z",
        "2026-01-31T14:00:00+02:00",
        "2026-01-31 12:00:00.000000",
        "2026-01-31T12:00:00.0000000Z",
        np.datetime64("2026-01-31T12:00:00"),
        np.datetime64("2026-01-31T12:00:00.000000000"),
    ],
)
def test_one_instant_has_one_key_however_it_is_written(value: object) -> None:
    assert instant_key(value) == NOON_KEY
    assert key("timestamp", value) == NOON_KEY


def test_a_date_is_its_midnight_in_utc() -> None:
    assert instant_key(date(2026, 1, 31)) == instant_key("2026-01-31") == instant_key("2026-01-31T00:00:00Z")


def test_infinities_are_timestamps_before_and_after_all_others() -> None:
    assert (key("timestamp", -math.inf), key("timestamp", math.inf)) == (-math.inf, math.inf)


@given(st.datetimes(datetime(1700, 1, 1), datetime(2255, 1, 1)))
def test_every_microsecond_of_our_age_has_a_key_and_comes_back(moment: datetime) -> None:
    schema = Schema({"t": "timestamp"})
    attribute = schema.find("t")
    found = schema.value(attribute, schema.key(attribute, moment))
    assert found == moment.replace(tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_keys_of_timestamps_keep_their_order_or_are_refused(a: datetime, b: datetime) -> None:
    try:
        keys = instant_key(a), instant_key(b)
    except InexactValueError:
        assert max(abs(a.year - 1970), abs(b.year - 1970)) > 284
    else:
        assert (keys[0] < keys[1]) == (a < b)


@pytest.mark.parametrize(
    "value",
    ["2026-01-31T12:00:00.1234567Z", "2026-01-31T12:00:00.0000000001", np.datetime64("2026-01-31T12:00:00.000000001")],
)
def test_an_instant_between_two_microseconds_is_refused_not_cut_off(value: object) -> None:
    with pytest.raises(InexactValueError, match=r"attribute 'x': .*finer than a microsecond"):
        key("timestamp", value)


def test_a_far_instant_that_float64_would_round_is_refused_by_name() -> None:
    with pytest.raises(InexactValueError, match=r"9999-12-31T23:59:59.999999\+00:00 has no exact key: .*285 years"):
        instant_key(datetime.max)
    assert instant_key(datetime(9999, 12, 31, 23, 59, 59)) == 253_402_300_799e6


@pytest.mark.parametrize("value", ["yesterday", "", 5, 5.0, True, None])
def test_what_is_no_timestamp_is_refused(value: object) -> None:
    with pytest.raises(ValueTypeError, match="attribute 'x': expected a timestamp, got"):
        key("timestamp", value)


# strings


def test_strings_get_codes_in_order_of_appearance_and_keep_them() -> None:
    schema = Schema({"city": "string"})
    city = schema.find("city")
    assert [schema.key(city, text) for text in ("Oslo", "", "Oslo", "名")] == [0.0, 1.0, 0.0, 2.0]
    assert [schema.value(city, code) for code in (0.0, 1.0, 2.0)] == ["Oslo", "", "名"]


def test_an_unseen_string_is_registered_only_on_request() -> None:
    schema = Schema({"city": "string"})
    city = schema.find("city")
    assert schema.key(city, "Oslo", register=False) == UNKNOWN_SYMBOL
    assert city.symbols is not None
    assert len(city.symbols) == 0


@pytest.mark.parametrize("value", [5, None, b"x", True])
def test_a_string_is_nothing_else(value: object) -> None:
    with pytest.raises(ValueTypeError, match=r"attribute 'x': expected a string, got .* \(\w+\)"):
        key("string", value)


# points


@pytest.mark.parametrize(
    "value",
    [
        Point(-73.5, 40.25),
        (-73.5, 40.25),
        [np.float32(-73.5), np.float32(40.25)],
        np.array([-73.5, 40.25]),
        {"lon": -73.5, "lat": 40.25},
        {"type": "Point", "coordinates": [-73.5, 40.25]},
    ],
)
def test_a_point_may_be_written_in_any_of_these_ways(value: object) -> None:
    assert point_of(value) == Point(-73.5, 40.25)
    assert all(type(degrees) is float for degrees in point_of(value))


@pytest.mark.parametrize(
    "value",
    [
        (1,),
        (1, 2, 3),
        "12",
        (True, 1),
        {1, 2},
        Range(1, 2),
        {"lon": 1},
        {"x": 1},
        5,
        None,
        np.array(5),
        (math.nan, 1),
        (10**400, 0),
    ],
)
def test_what_is_no_point_is_refused(value: object) -> None:
    with pytest.raises(ValueTypeError, match=r"expected a (point|longitude)"):
        point_of(value)


@pytest.mark.parametrize("place", [(180.5, 0), (-181, 0), (0, 90.01), (0, -91)])
def test_a_place_off_the_earth_is_refused(place: tuple[float, float]) -> None:
    with pytest.raises(ValueTypeError, match=r"longitude in -180..180 and a latitude in -90..90"):
        point_of(place)


def test_a_point_has_no_single_key() -> None:
    with pytest.raises(ValueTypeError, match="attribute 'x': expected a point"):
        key("point", 5)
    schema = Schema()
    with pytest.raises(ValueTypeError, match="whose type is known"):
        schema.key(schema.find("x"), 5)


# absence and messages


@pytest.mark.parametrize(
    "value", [None, math.nan, np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), np.datetime64("NaT")]
)
def test_null_and_nan_of_every_kind_are_missing(value: object) -> None:
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", False, math.inf, NOON, [], [None], np.array([math.nan, 1]), np.int64(0)])
def test_everything_else_is_there(value: object) -> None:
    assert not is_missing(value)


@pytest.mark.parametrize("value", [object(), None, 1j, np.complex64(1), [1]])
def test_a_value_of_no_type_is_refused(value: object) -> None:
    with pytest.raises(ValueTypeError, match="expected a number, string, bool, datetime or Point, got"):
        type_of(value)


def test_long_values_are_cut_short_in_messages() -> None:
    assert describe("x" * 1000) == f"{'x' * 1000!r}"[:77] + "... (str)"
    assert describe(10**5000) == "a number of thousands of digits (int)"


# saving


def test_a_schema_survives_json_with_its_symbols_dimensions_and_open_types() -> None:
    schema = Schema({"age": "number", "city": "string", "place": "point", "seen": "timestamp", "vip": "bool"})
    schema.find("open")
    for text in ("Oslo", "", "名", "it's", "\ud800"):
        schema.key(schema.find("city"), text)
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again.to_json() == schema.to_json()
    assert again.dimensions == schema.dimensions
    assert [again.of_dimension(d).name for d in range(7)] == [schema.of_dimension(d).name for d in range(7)]
    assert again.key(again.find("city"), "名", register=False) == 2.0
    assert again.key(again.find("city"), "new") == 5.0
    assert again.find("open").type is None
    assert again.find("after").dims == (7,)
    assert not Schema.from_json(Schema(learn=False).to_json()).learn


@pytest.mark.parametrize(
    "attributes",
    [
        [{"name": "a", "type": "number", "dims": [1]}],
        [{"name": "a", "type": "number", "dims": [0]}, {"name": "b", "type": "number", "dims": [0]}],
        [{"name": "a", "type": "number", "dims": [0]}, {"name": "a", "type": "number", "dims": [1]}],
        [{"name": "a", "type": "point", "dims": [0]}],
        [{"name": "a", "type": "number", "dims": [0, 1]}],
        [{"name": "a", "type": "string", "dims": [0], "symbols": ["x", "x"]}],
    ],
)
def test_a_saved_schema_that_contradicts_itself_is_refused(attributes: list[dict[str, Any]]) -> None:
    with pytest.raises(SchemaError):
        Schema.from_json({"learn": True, "attributes": attributes})


def test_a_value_whose_repr_raises_is_described_all_the_same() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(ValueTypeError, match="whose repr raises RuntimeError"):
        type_of(Silent())


# one schema that goes on where another ended


def symbols(schema: Schema, *texts: str) -> Schema:
    for text in texts:
        schema.key(schema.attribute_for("s", Type.STRING), text)
    return schema


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (Schema({"a": "number"}), Schema(), None),
        (Schema({"a": "number", "b": "bool"}), Schema({"a": "number"}), None),
        (Schema({"a": "number"}), Schema({"a": "number", "b": "bool"}), "attribute 'b' is not known here"),
        (
            Schema({"b": "number", "a": "number"}),
            Schema({"a": "number"}),
            "attribute 'a': expected dimension 1 of type number, got dimension 0 of type number",
        ),
        (
            Schema({"a": "string"}),
            Schema({"a": "number"}),
            "attribute 'a': expected dimension 0 of type string, got dimension 0 of type number",
        ),
        (symbols(Schema(), "x", "y"), symbols(Schema(), "x"), None),
        (symbols(Schema(), "x"), symbols(Schema(), "x", "y"), "attribute 's': the string 'y' is not known here"),
        (
            symbols(Schema(), "x", "y"),
            symbols(Schema(), "y"),
            "attribute 's': expected the code 0 for 'x', got it for 'y'",
        ),
    ],
)
def test_a_schema_extends_those_whose_keys_mean_the_same_in_it(
    ours: Schema, theirs: Schema, difference: str | None
) -> None:
    assert ours.difference(theirs) == difference
    assert ours.extends(theirs) is (difference is None)
    assert ours.extends(ours)
    assert Schema.from_json(ours.to_json()).extends(ours)


def test_an_attribute_of_open_type_means_the_same_whatever_it_becomes() -> None:
    open_type = Schema()
    open_type.find("a")
    for type_ in Type:
        assert Schema({"a": type_}).extends(open_type)
        assert not open_type.extends(Schema({"a": type_}))


class Plan(Enum):
    PRO = "pro"
    LEVEL = 3


def test_members_of_enums_and_uuids_are_their_values_and_texts() -> None:
    schema = Schema({"plan": "string", "level": "number", "id": "string"})
    plan, level, id_ = schema.find("plan"), schema.find("level"), schema.find("id")
    assert schema.key(plan, Plan.PRO) == schema.key(plan, "pro")
    assert schema.key(level, Plan.LEVEL) == 3.0
    assert schema.key(id_, UUID(int=1)) == schema.key(id_, str(UUID(int=1)))
    assert [type_of(value) for value in (Plan.PRO, Plan.LEVEL, UUID(int=1))] == ["string", "number", "string"]


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_bytes_are_not_a_value(value: object) -> None:
    with pytest.raises(ValueTypeError, match="is not a value; decode bytes to a string"):
        type_of(value)
    schema = Schema({"plan": "string"})
    with pytest.raises(ValueTypeError, match=r"attribute 'plan': expected a string, got .*; decode bytes to a string"):
        schema.key(schema.find("plan"), value)


def test_the_na_of_pandas_is_missing() -> None:
    assert is_missing(pytest.importorskip("pandas").NA)
