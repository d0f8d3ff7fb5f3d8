"""Text -> Expression: what each form means, that nothing is lost on the way, and what an error says."""

from __future__ import annotations

import math
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from matchwood.errors import ExpressionError, ParseError
from matchwood.lang import parser
from matchwood.lang.expression import MAX_DEPTH, And, Constant, Expression, Not, Or
from matchwood.lang.operators import Operator, Shape
from matchwood.lang.parser import parse
from matchwood.lang.place_predicates import BBox, DWithin
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.schema import Point
from tests.strategies import expressions

A, B, C = (Compare(name, operator=Operator.EQ, value=1) for name in "abc")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def eq(value: object, attribute: str = "a") -> Compare:
    return Compare(attribute, operator=Operator.EQ, value=value)  # type: ignore[arg-type]


def outcome(text: str) -> str:
    """The tree or the error, told apart to the type of each number."""
    try:
        return repr(parse(text))
    except ParseError as error:
        return f"{error.position}: {error}"


@given(expressions())
def test_what_an_expression_writes_parses_to_the_same_expression(expression: Expression) -> None:
    assert parse(str(expression)) == expression
    assert repr(parse(str(expression))) == repr(expression)  # 1, 1.0 and True are equal, and not the same


@given(expressions(), expressions(), st.data())
def test_a_cached_shape_gives_what_the_grammar_gives(one: Expression, other: Expression, data: st.DataObject) -> None:
    parser._template.cache_clear()
    text = str(one)
    pieces, donors = parser._CONSTANTS.split(text), parser._CONSTANTS.split(str(other))[1::2]
    for index in range(1, len(pieces), 2):
        pieces[index] = data.draw(st.sampled_from([pieces[index], "-7", "1e999", "'x'", '""', "0", *donors]))
    exchanged = "".join(pieces)
    parse(text)
    warm = outcome(exchanged)
    parser._template.cache_clear()
    assert outcome(exchanged) == warm


FRAGMENTS = [
    *"()'\",^<>=!&.-+5a",
    " AND ",
    " OR ",
    " NOT ",
    " NULL ",
    "TIMESTAMP(",
    "DWITHIN(",
    "POINT(",
    " km",
    "INF",
    " IN (",
    "é",
    "\n",
]


@given(expressions(), st.data())
def test_a_damaged_text_is_parsed_or_refused_with_a_position_inside_it(
    expression: Expression, data: st.DataObject
) -> None:
    text = str(expression)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(FRAGMENTS)) + text[at + data.draw(st.integers(0, 2)) :]
    parser._template.cache_clear()
    cold = outcome(text)
    assert outcome(text) == cold
    if cold[0].isdigit():
        with pytest.raises(ParseError) as raised:
            parse(text)
        assert 0 <= raised.value.position <= len(text)
        assert raised.value.text == text
    else:
        assert repr(parse(str(parse(text)))) == cold


@given(st.text(max_size=30))
@example("'" * 7)
@example('"' * 7)
@example("a = '\x00")
def test_no_text_raises_anything_but_a_parse_error(text: str) -> None:
    outcome(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", A),
        ("a == 1", A),
        ("a=1", A),
        ("\ta\n=\r\n1 ", A),
        ("1 = a", A),
        ("a <> 1", Compare("a", operator=Operator.NE, value=1)),
        ("a != 1", Compare("a", operator=Operator.NE, value=1)),
        ("5 < a", Compare("a", operator=Operator.GT, value=5)),
        ("5 <= a ^2", Compare("a", 2.0, operator=Operator.GE, value=5)),
        ("5 > a", Compare("a", operator=Operator.LT, value=5)),
        ("5 >= a", Compare("a", operator=Operator.LE, value=5)),
        ("5 <> a", Compare("a", operator=Operator.NE, value=5)),
        ("TRUE = a", eq(True)),
        ("-inf < a", Compare("a", operator=Operator.GT, value=-math.inf)),
        ("TIMESTAMP('2026-01-31T12:00:00Z') <= a", Compare("a", operator=Operator.GE, value=NOON)),
        ("a between 22 and 36 ^0.4", Between("a", 0.4, lo=22, hi=36)),
        ("a NOT BETWEEN-1AND+2", Between("a", lo=-1, hi=2, negated=True)),
        ("a IN ('x')", In("a", values=("x",))),
        ("a Not In ('x', 2, false)^3", In("a", 3.0, values=("x", 2, False), negated=True)),
        ("a IS NULL", IsNull("a")),
        ("a IS NOT NULL ^ .5", IsNull("a", 0.5, negated=True)),
        ("TRUE", Constant(True)),
        ("NOT false", Not(Constant(False))),
        ("a = 1 AND b = 1 OR c = 1", Or((And((A, B)), C))),
        ("a = 1 AND (b = 1 OR c = 1)", And((A, Or((B, C))))),
        ("((a = 1)) AND (b = 1 AND c = 1)", And((A, B, C))),
        ("NOT a = 1 AND b = 1", And((Not(A), B))),
        ("NOT NOT (a = 1 OR NOT b = 1)", Not(Not(Or((A, Not(B)))))),
        ("NOT a = 1 ^0.4", Not(A ^ 0.4)),
    ],
)
def test_a_text_means_its_tree(text: str, expected: Expression) -> None:
    assert repr(parse(text)) == repr(expected)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1", 1),
        ("-0012", -12),
        ("1.0", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5e-3", -0.0005),
        ("1E3", 1000.0),
        ("9007199254740993", 2**53 + 1),
        ("9" * 400, int("9" * 400)),
        ("INF", math.inf),
        ("+Inf", math.inf),
        ("-INF", -math.inf),
        ("'it''s'", "it's"),
        ("''", ""),
        ("''''", "'"),
        ("'a\nb'", "a\nb"),
        ("'\"'", '"'),
        ("true", True),
        ("False", False),
        ("TIMESTAMP('2026-01-31T13:00:00+01:00')", NOON),
        ("timestamp ( '2026-01-31T12:00:00' )", NOON),
        ("TIMESTAMP('2026-01-31T12:00:00.000001Z')", NOON.replace(microsecond=1)),
        ("DATE('2026-01-31')", NOON.replace(hour=0)),
    ],
)
def test_a_literal_means_its_value(literal: str, value: object) -> None:
    assert repr(parse(f"a = {literal}")) == repr(eq(value))
    assert repr(parse(f"a IN ({literal},{literal})")) == repr(In("a", values=(value, value)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a.b.1", "a.b.1"),
        ("_x9", "_x9"),
        ('"AND"', "AND"),
        ('"say ""x"""', 'say "x"'),
        ('"it\'s"', "it's"),
        ('" "', " "),
        ("timestamp", "timestamp"),
        ("date", "date"),
        ("Point", "Point"),
        ("inf.x", "inf.x"),
    ],
)
def test_a_name_is_a_plain_word_or_stands_in_double_quotes(written: str, name: str) -> None:
    assert parse(f"{written} = 1") == eq(1, name)


@pytest.mark.parametrize(
    ("radius", "metres"),
    [
        ("1 km", 1000.0),
        ("1km", 1000.0),
        ("2.5 MI", 4023.36),
        ("10 ft", 3.048),
        ("1 nmi", 1852.0),
        ("7 m", 7.0),
        ("7", 7.0),
    ],
)
def test_a_radius_is_kept_in_metres(radius: str, metres: float) -> None:
    found = parse(f"DWITHIN(place, POINT(-73.98 40.75), {radius}) ^2")
    assert isinstance(found, DWithin)
    assert found.radius == pytest.approx(metres, rel=1e-15)
    assert found == DWithin("place", 2.0, centre=Point(-73.98, 40.75), radius=found.radius)


def test_places_are_circles_unless_squares_are_asked_for() -> None:
    square = DWithin("place", centre=Point(1.0, 2.0), radius=5.0, shape=Shape.SQUARE)
    assert parse("dwithin(place, point(1 2), 5 m, square)") == square
    assert parse("DWITHIN(place, POINT(1 2), 5 m, CIRCLE)") == parse("DWITHIN(place, POINT(1 2), 5 m)")
    box = BBox("my place", 0.5, west=170.0, south=-5.0, east=-170.0, north=5.0)
    assert parse('BBOX("my place", 170, -5, -170, 5) ^0.5') == box


@pytest.mark.parametrize(
    ("text", "position", "remedy"),
    [
        ("", 0, "expected an expression"),
        ("  ", 2, "write TRUE"),
        ("age 'x'", 4, "expected =, !=, <"),
        ("age > ", 6, "expected a value"),
        ("age >> 5", 5, "expected a value"),
        ("age RLIKE 'x%'", 4, "BETWEEN, IN, LIKE or IS NULL"),
        ("age > 5 b = 1", 8, "expected AND, OR or the end of the text, got 'b'"),
        ("(age > 5 b = 1)", 9, "expected AND, OR or )"),
        ("age > 5 AND", 11, "the name of an attribute"),
        ("AND = 5", 0, 'double quotes: "AND"'),
        ("(a = 1", 0, "never closed"),
        ("((a = 1) AND b = 1", 0, "never closed"),
        ("a = 1)", 5, "never opened"),
        ("()", 1, "the name of an attribute"),
        ("1 < age < 5", 8, "use BETWEEN"),
        ("age > 1 > 2", 8, "do not chain"),
        ("5 < 6", 4, "the name of an attribute"),
        ("a = b", 4, "single quotes, 'b'"),
        ('a = "b"', 4, "single quotes"),
        ("a = NULL", 4, "IS NULL"),
        ("a != null", 5, "IS NOT NULL"),
        ("a IS 5", 5, "expected NULL"),
        ("a NOT = 5", 6, "BETWEEN, IN or LIKE after NOT"),
        ("a = 1 & b = 2", 6, "write AND"),
        ("a = 1 && b = 2", 6, "write AND"),
        ("a = 1 || b = 2", 6, "write OR"),
        ("!a = 1", 0, "write NOT"),
        ("a = \u2018x\u2019", 4, "straight single quotes"),
        ("é = 1", 0, "U+00E9"),
        ("a = 'x", 4, "never closed"),
        ("a = 'x''y", 4, "never closed"),
        ('"a = 1', 0, "never closed"),
        ('b = 1 AND "" = 1', 10, "cannot be empty"),
        ("a = 1.5.3", 7, "unexpected '.'"),
        ("a = 0x10", 5, "got 'x10'"),
        ("a = - 5", 4, "unexpected '-'"),
        ("a BETWEEN 1 OR 2", 12, "expected AND between"),
        ("a BETWEEN 1", 11, "expected AND between"),
        ("a IN ()", 6, "at least one value"),
        ("a IN 5", 5, "expected ( after IN"),
        ("a IN (1 2)", 8, "expected ) or ,"),
        ("a IN (1, )", 9, "expected a value"),
        ("(a = 1) ^0.4", 8, "belongs to a predicate"),
        ("NOT (a = 1) ^0.4", 12, "belongs to a predicate"),
        ("TRUE ^0.4", 5, "belongs to a predicate"),
        ("a = 1 ^1 ^2", 9, "stands once"),
        ("a = 1 ^", 7, "expected a weight"),
        ("a = 1 ^INF", 7, "expected a weight"),
        ("a = 1 ^'x'", 7, "expected a weight"),
        ("a = 1 ^-0.5", 7, "finite weight >= 0"),
        ("a = 1 ^1e999", 7, "finite weight >= 0"),
        ("a = 1e999", 4, "write INF"),
        ("b = 1 AND a = " + "9" * 100_000, 14, "got one of 100,000"),
        ("a = TIMESTAMP(5)", 14, "in single quotes"),
        ("a = TIMESTAMP('noon')", 14, "2026-01-31T12:00:00Z"),
        ("a = TIMESTAMP('0001-01-01T00:00:00+10:00')", 14, "outside the years"),
        ("a = DATE('2026-02-30')", 9, "expected a date"),
        ("a = DATE('2026-01-31T12:00:00')", 9, "expected a date"),
        ("DWITHIN(p, POINT(1 2), 0 m)", 23, "radius > 0"),
        ("DWITHIN(p, POINT(1 2), -3 km)", 23, "radius > 0"),
        ("DWITHIN(p, POINT(1 2), 3 parsec)", 25, "m, km, mi, ft, nmi"),
        ("DWITHIN(p, POINT(1, 2), 3 km)", 18, "separated by a space"),
        ("DWITHIN(p, POINT(200 2), 3 km)", 17, "longitude"),
        ("DWITHIN(p, POINT(1 91), 3 km)", 19, "latitude"),
        ("DWITHIN(p, 5, 3 km)", 11, "POINT("),
        ("DWITHIN(p, POINT(1 2), 3 km, OVAL)", 29, "CIRCLE or SQUARE"),
        ("DWITHIN(p, POINT(1 2), 3 km", 27, "expected )"),
        ("a = 1 AND BBOX(p, 1, 5, 2, 4)", 10, "south"),
        ("BBOX(p, 1, 5, 2)", 15, "expected , after the east"),
        ("BBOX(5, 1, 5, 2, 6)", 5, "the name of an attribute"),
    ],
)
def test_an_error_shows_where_and_what_to_do(text: str, position: int, remedy: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert raised.value.position == position
    assert remedy in str(raised.value)
    assert str(raised.value).endswith("^")
    assert len(str(raised.value)) < 500


def test_the_caret_stands_under_the_fault_in_its_own_line() -> None:
    with pytest.raises(ParseError) as raised:
        parse("age > 31 AND\n  city = Oslo")
    assert str(raised.value).splitlines()[1:] == ["    city = Oslo", "           ^"]


def test_an_error_in_a_constant_is_found_at_its_place_in_each_text_of_a_cached_shape() -> None:
    parse("a = 12345 ^2 AND b = 'xyz' ^2")
    hits = parser._template.cache_info().hits
    with pytest.raises(ParseError) as raised:
        parse("a = 1 ^2 AND b = 'a longer one' ^-2")
    assert raised.value.position == 33
    assert parser._template.cache_info().hits == hits + 1


@pytest.mark.parametrize("opening", ["(", "NOT ", "NOT (", "a = 1 AND (", "a = 1 OR b = 2 AND ("])
def test_no_depth_of_nesting_exhausts_the_stack(opening: str) -> None:
    for count in (1_000, 40_000):
        closing = ")" * (opening.count("(") * count)
        with pytest.raises(ParseError, match=f"more than {MAX_DEPTH}"):
            parse(opening * count + "a = 1" + closing)


def test_a_tree_of_the_greatest_depth_survives_and_one_level_more_does_not() -> None:
    tree: Expression = A
    for level in range(MAX_DEPTH - 1):
        tree = (Not(tree), tree & B, tree | B)[level % 3]
    assert parse(str(tree)) == tree
    with pytest.raises(ParseError):
        parse(str(Not(tree)))


def test_parsing_needs_no_stack_of_its_own() -> None:
    text = "(" * (MAX_DEPTH - 1) + "a = 1" + ")" * (MAX_DEPTH - 1)

    def sink(levels: int) -> Expression:
        return parse(text) if levels == 0 else sink(levels - 1)

    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]
    assert sink(sys.getrecursionlimit() - used - 30) == A


def test_long_texts_parse_and_are_not_kept() -> None:
    parser._template.cache_clear()
    tree = parse(" OR ".join(f"a = {n}" for n in range(20_000)))
    assert isinstance(tree, Or)
    assert len(tree.children) == 20_000
    assert parser._template.cache_info().currsize == 0


def test_the_cache_is_bounded() -> None:
    parser._template.cache_clear()
    limit = parser._template.cache_info().maxsize
    assert limit is not None
    for n in range(limit + 10):
        parse(f"a{n} = 1")
    assert parser._template.cache_info().currsize == limit


def test_threads_share_the_cache() -> None:
    texts = [f"a{n % 50} = {n} AND b{n % 7} BETWEEN {n} AND {n + 1} ^{n}" for n in range(4_000)]
    expected = [parse(text) for text in texts]
    parser._template.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(parse, texts, chunksize=50)) == expected


def test_every_example_of_the_language_page_parses() -> None:
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    examples = [
        line for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) for line in block.splitlines() if line
    ]
    assert len(examples) >= 20
    for line in examples:
        tree = parse(line)
        assert parse(str(tree)) == tree


def test_only_text_is_parsed() -> None:
    with pytest.raises(ExpressionError, match="expected the text of an expression, got 5"):
        parse(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("x + 1 > 2", 2, "'+'; arithmetic is not supported"),
        ("x +1 > 2", 2, "arithmetic is not supported"),
        ("x > 1 -2", 6, "arithmetic is not supported"),
        ("x > 2 * y", 6, "'*'; arithmetic is not supported"),
        ("x % 2 = 0", 2, "'%'; arithmetic is not supported"),
        ("user-id = 3", 4, "a name with it needs double quotes"),
        ("lower(x) = 'a'", 0, "functions are not supported, got lower(...)"),
        ("a = 1 AND abs (x) > 2", 10, "functions are not supported, got abs(...)"),
        ("min (1, 2) < x", 0, "functions are not supported, got min(...)"),
        ("x = lower('A')", 4, "functions are not supported, got lower(...)"),
        ("t > now()", 4, "functions are not supported, got now(...)"),
        ("price < budget", 8, "comparing two attributes is not supported"),
        ("price BETWEEN 1 AND budget", 20, "comparing two attributes is not supported"),
    ],
)
def test_what_other_languages_offer_is_refused_as_not_supported(text: str, position: int, reason: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert raised.value.position == position
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a IN (1, 2)", (1, 2)),
        ("a IN(1,2)", (1, 2)),
        ("a in ( -1 ,+2, .5, 3., 1e2 )", (-1, 2, 0.5, 3.0, 100.0)),
        ("a IN  (1, 2)", (1, 2)),
        ("a IN\n(1, 2)", (1, 2)),
        ("a IN ('x', 'y')", ("x", "y")),
        ("a IN ('', 'it''s', ')', '(1, 2)', ',')", ("", "it's", ")", "(1, 2)", ",")),
        ("a IN (1, 'x')", (1, "x")),
        ("a IN (1, TRUE, INF)", (1, True, math.inf)),
        ("a IN (TIMESTAMP('2026-01-31T12:00:00Z'), 2)", (NOON, 2)),
    ],
)
def test_lists_are_read_alike_however_they_are_written(text: str, values: tuple[object, ...]) -> None:
    found = parse(text)
    assert repr(found) == repr(In("a", values=values))  # type: ignore[arg-type]
    assert parse(f"NOT (b = 1) OR {text} ^2") == Or((Not(eq(1, "b")), found ^ 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a IN (1, 1e999, 3)", 9),
        (f"a IN (1, {'9' * 5000}, 3)", 9),
        ("a IN (1, 2) 3", 12),
        ("a IN (1, 2", 10),
        ("a IN (1, 2,)", 11),
        ("a IN (1 2)", 8),
        ("a = (1, 2)", 4),
        ("admin (1, 2) = 3", 0),
    ],
)
def test_an_error_in_a_list_is_found_at_its_place(text: str, position: int) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert raised.value.position == position


def test_lists_of_any_length_share_a_shape() -> None:
    parser._template.cache_clear()
    for count in (2, 3, 5000):
        assert len(parse(f"a IN ({', '.join(map(str, range(count)))})").values) == count  # type: ignore[attr-defined]
    assert parser._template.cache_info().misses == 1


@pytest.mark.parametrize(
    "text",
    [
        "eo:cloud_cover < 10",
        "a:b:c = 1",
        "view:off.nadir:5 = 2",
        "NOT (proj:epsg = 32631)",
        "x:1 IN (1, 2) AND x:2 = 3",
    ],
)
def test_names_with_colons_need_no_quotes(text: str) -> None:
    found = parse(text)
    assert str(found) == text
    assert parse(str(found)) == found


@pytest.mark.parametrize("text", ["a: = 1", ":a = 1", "a::b = 1", "a:.5 = 1", "a : b = 1"])
def test_a_colon_stands_between_words(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("a + 1 > 2", "arithmetic"),
        ("a div 2 = 1", "arithmetic"),
        ("a > b", "comparing two attributes"),
        ("a = avg(1)", "functions are not supported, got avg"),
    ],
)
def test_constructs_of_cql2_without_a_counterpart_are_refused_by_name(text: str, construct: str) -> None:
    with pytest.raises(ParseError, match=construct):
        parse(text)
