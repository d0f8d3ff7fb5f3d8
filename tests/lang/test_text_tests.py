"""Conditions on strings: LIKE, prefixes, networks, regular expressions and orders, against their meaning value by value."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.errors import ExpressionError, MatchwoodError, NeverMatchesError, ParseError, ValueTypeError
from matchwood.lang.builder import attr
from matchwood.lang.describe import describe_rows
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.expression import Expression, Not, all_of
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from tests.text_worlds import a_leaf, a_text, a_tree, holds_for_lists, holds_for_one_value
from tests.worlds import examples


def matches(expression: str | Expression, event: dict[str, object], schema: Schema | None = None) -> bool:
    schema = Schema() if schema is None else schema
    rows = normalise(parse(expression) if isinstance(expression, str) else expression, schema)
    return judge(rows, event_keys(event, schema)).matched


@pytest.mark.parametrize(
    ("text", "held", "not_held"),
    [
        ("x LIKE 'a%'", ["a", "ab"], ["", "b", "A", "ba"]),
        ("x LIKE '%a'", ["a", "ba"], ["", "ab"]),
        ("x LIKE '%a%'", ["a", "bab"], ["", "b"]),
        ("x LIKE 'a%b%c'", ["abc", "axbxc", "abbcc"], ["ab", "acb", "abcd"]),
        ("x LIKE 'ab%ba'", ["abba", "abxba"], ["aba", "ab"]),
        ("x LIKE 'a_c'", ["abc", "a_c", "a\nc"], ["ac", "abbc"]),
        ("x LIKE '%_a_%'", ["bab", "aaa"], ["a", "ab", "ba"]),
        ("x LIKE '_'", ["a", "é", "🜁"], ["", "ab"]),
        ("x LIKE '%'", ["", "a"], []),
        ("x LIKE ''", [""], ["a"]),
        (r"x LIKE '100\%'", ["100%"], ["1000"]),
        (r"x LIKE '%\_%'", ["a_b"], ["ab"]),
        (r"x LIKE '\\%'", ["\\a"], ["a"]),
        ("x NOT LIKE 'a%'", ["b", ""], ["a"]),
        ("CASEI(x) LIKE CASEI('AB%')", ["abc", "ABC"], ["ac"]),
        ("STARTS_WITH(x, 'a%')", ["a%b"], ["ab"]),
        ("ENDS_WITH(x, 'é')", ["né"], ["ne"]),
        ("CONTAINS(x, '')", ["", "a"], []),
        ("CONTAINS(CASEI(x), 'ß')", ["STRASSE"], ["strase"]),
        ("REGEX(x, '^a+b$')", ["ab", "aab"], ["b", "abc"]),
        ("REGEX(x, 'b.d')", ["abcde"], ["abd"]),
        ("CIDR(x, '10.0.0.0/8')", ["10.1.2.3", "::ffff:10.1.2.3"], ["11.0.0.1", "10.0.0", "", "x", "10.0.0.256"]),
        ("CIDR(x, '0.0.0.0/0')", ["1.2.3.4"], ["::1", "nowhere"]),
        ("CIDR(x, '2001:db8::/32')", ["2001:db8::1", "2001:0db8:0::1"], ["2001:db9::1", "fe80::1%eth0", "10.0.0.1"]),
        ("CIDR(x, '::ffff:10.0.0.0/104')", ["10.9.9.9"], ["11.0.0.1"]),
        ("CIDR(x, '192.168.1.1')", ["192.168.1.1"], ["192.168.1.2"]),
    ],
)
def test_a_condition_holds_for_these_strings(text: str, held: list[str], not_held: list[str]) -> None:
    for value in held:
        assert matches(text, {"x": value}), value
    for value in not_held:
        assert not matches(text, {"x": value}), value
    assert not matches(text, {})
    assert not matches(f"NOT ({text})", {})
    assert not matches(text, {"x": []})


def test_what_and_joins_asks_for_one_value_of_a_list() -> None:
    assert matches("x LIKE 'a%' AND x LIKE '%z'", {"x": ["b", "abz"]})
    assert not matches("x LIKE 'a%' AND x LIKE '%z'", {"x": ["ab", "bz"]})
    assert matches("ANY(x) LIKE 'a%' AND ANY(x) LIKE '%z'", {"x": ["ab", "bz"]})
    assert matches("x LIKE 'a%' AND x NOT LIKE '%z'", {"x": ["ab", "b"]})
    assert not matches("x LIKE 'a%' AND x NOT LIKE '%z'", {"x": ["ab", "bz"]})
    assert matches("ALL(x) LIKE 'a%'", {"x": ["ab", "ac"]})
    assert not matches("ALL(x) LIKE 'a%'", {"x": ["ab", "bc"]})
    assert matches("x != 'ab' AND x LIKE 'a%'", {"x": ["ac"]})
    assert not matches("x != 'ab' AND x LIKE 'a%'", {"x": ["ab", "ac"]})
    assert matches("A_CONTAINS(x, ('p', 'q')) AND x LIKE 'a%'", {"x": ["p", "ab", "q"]})
    assert not matches("A_CONTAINS(x, ('p', 'q')) AND x LIKE 'a%'", {"x": ["p", "q"]})


def test_constants_that_decide_a_pattern_leave_a_comparison() -> None:
    schema = Schema()
    rows = normalise(parse("x IN ('ab', 'ac', 'b') AND x LIKE 'a%'"), schema)
    assert describe_rows(rows, schema) == "x IN ('ab', 'ac') ^2.0"
    with pytest.raises(NeverMatchesError, match="'x'"):
        normalise(parse("x = 'b' AND x LIKE 'a%'"), schema)
    with pytest.raises(NeverMatchesError):
        normalise(parse("x IS NULL AND x LIKE 'a%'"), schema)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_trees_of_conditions_say_of_single_values_what_logic_says(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    names = ("x", "CASEI\x1fx", "y")
    events = [{"x": a_text(rng), "y": a_text(rng)} for _ in range(12)] + [{"x": a_text(rng)}, {}]
    for _ in range(4):
        tree = a_tree(rng, names)
        schema = Schema()
        try:
            rows = normalise(tree, schema)
        except NeverMatchesError:
            assert not any(holds_for_one_value(tree, event) for event in events)  # type: ignore[arg-type]
            continue
        for event in events:
            expected = holds_for_one_value(tree, event)  # type: ignore[arg-type]
            assert judge(rows, event_keys(event, schema)).matched is expected, (str(tree), event)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_conjunctions_on_one_attribute_say_of_lists_what_the_rules_say(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    lists = [[a_text(rng, 4) for _ in range(rng.integers(0, 4))] for _ in range(16)]
    for _ in range(6):
        leaves = [(a_leaf(rng, ("x",)), bool(rng.random() < 0.3)) for _ in range(rng.integers(1, 4))]
        tree = all_of(*[Not(leaf) if negated else leaf for leaf, negated in leaves])
        schema = Schema()
        try:
            rows = normalise(tree, schema)
        except NeverMatchesError:
            assert not any(holds_for_lists(leaves, values) for values in lists), str(tree)
            continue
        for values in lists:
            expected = holds_for_lists(leaves, values)
            assert judge(rows, event_keys({"x": values}, schema)).matched is expected, (str(tree), values)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_text_json_and_descriptions_come_back(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    tree = a_tree(rng, ("x", "CASEI\x1fx", "two words"))
    assert parse(str(tree)) == tree == from_json(to_json(tree))
    schema = Schema()
    try:
        rows = normalise(tree, schema)
    except NeverMatchesError:
        return
    described = describe_rows(rows, schema)
    try:
        again = normalise(parse(described), schema)
    except NeverMatchesError:
        again = ()
    for _ in range(30):
        event = {name: [a_text(rng, 4) for _ in range(rng.integers(1, 3))] for name in ("x", "two words")}
        keys = event_keys(event, schema)
        assert judge(again, keys).score == judge(rows, keys).score, described


def test_python_makes_the_trees_of_the_text() -> None:
    x = attr("x", weight=2)
    assert x.like("a%") == parse("x LIKE 'a%' ^2")
    assert x.not_like("a%") == parse("x NOT LIKE 'a%' ^2")
    assert x.casei().starts_with("AB") == parse("STARTS_WITH(CASEI(x), 'ab') ^2")
    assert x.any().ends_with("a") == parse("ENDS_WITH(ANY(x), 'a') ^2")
    assert x.contains_text("a") == parse("CONTAINS(x, 'a') ^2")
    assert x.matches("^a") == parse("REGEX(x, '^a') ^2")
    assert x.in_network("10.0.0.0/8") == parse("CIDR(x, '10.0.0.0/8') ^2")


@pytest.mark.parametrize(
    ("text", "order", "held", "not_held"),
    [
        ("x < 'm'", "ordered string", ["a", "", "lzzzzzzzzz", "M"], ["m", "mm", "z"]),
        ("x >= 'information'", "ordered string", ["information", "z"], ["informatio", "a"]),
        ("x BETWEEN 'b' AND 'd'", "ordered string", ["b", "cc", "d"], ["a", "dd"]),
        ("x NOT BETWEEN 'b' AND 'd'", "ordered string", ["a", "dd"], ["b", "cc", "d"]),
        ("x > 'b' AND x < 'd' AND x LIKE '%z'", "ordered string", ["cz"], ["c", "dz", "az"]),
        ("x > '1.9'", "version", ["1.10", "2", "v2.0", "1.9.1"], ["1.9", "1.9.0", "1.8.7", "1.9-rc1", "new"]),
        ("x <= '2.0.0-rc.2'", "version", ["2.0.0-rc.1", "2.0.0-alpha", "1.99"], ["2.0.0", "2.0.0-rc.10"]),
    ],
)
def test_strings_that_are_declared_to_have_an_order_are_compared_by_it(
    text: str, order: str, held: list[str], not_held: list[str]
) -> None:
    schema = Schema({"x": order})
    again = Schema.from_json(schema.to_json())
    assert again.find("x").declared == order
    for value in held:
        assert matches(text, {"x": value}, schema), value
    for value in not_held:
        assert not matches(text, {"x": value}, schema), value
    rows = normalise(parse(text), schema)
    assert normalise(parse(describe_rows(rows, schema)), schema) == rows


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(ValueTypeError, match="declared as an 'ordered string'"):
        matches("x < 'm'", {})
    with pytest.raises(ValueTypeError, match="expected a version, got 'new'"):
        matches("x < 'new'", {}, Schema({"x": "version"}))
    with pytest.raises(ValueTypeError, match="is of type ordered string, got 5"):
        matches("x < 5", {}, Schema({"x": "ordered string"}))
    with pytest.raises(ValueTypeError, match="is of type ordered string, but is declared as version"):
        Schema({"x": "ordered string"}).declare("x", "version")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r"x LIKE 'a\'", "ends in a backslash"),
        (f"x LIKE '{'a' * 5000}'", "at most 4,096 characters"),
        (f"CONTAINS(x, '{'a' * 5000}')", "at most 4,096 characters"),
        (f"REGEX(x, '{'a' * 1001}')", "at most 1,000 characters"),
        ("REGEX(x, '(a')", "refused by RE2: missing"),
        ("REGEX(x, '((a{100}){100}){100}')", "refused by RE2"),
        (r"REGEX(x, '(a)\1')", "refused by RE2"),
        ("CIDR(x, '10.0.0.1/8')", "expected a network in CIDR notation"),
        ("CIDR(x, 'all')", "expected a network"),
        ("x LIKE 5", "expected a pattern in single quotes"),
        ("STARTS_WITH(x)", "expected , and a string"),
        ("x ILIKE 'a'", "write CASEI"),
        ("x LIKE y", "expected a pattern"),
    ],
)
def test_what_is_no_test_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


@pytest.mark.parametrize(
    "tree",
    [
        {"op": "like", "args": [{"property": "x"}, 5]},
        {"op": "like", "args": [{"property": "x"}]},
        {"op": "cidr", "args": [{"property": "x"}, "x"]},
        {"op": "like", "args": ["a", {"property": "x"}]},
        {"op": "regex", "args": [{"property": "x"}, {"op": "casei", "args": [5]}]},
    ],
)
def test_json_that_is_no_test_is_refused(tree: dict[str, object]) -> None:
    with pytest.raises(ExpressionError):
        from_json(tree)


def test_a_pattern_of_many_wildcards_is_matched_in_linear_time() -> None:
    pattern = "%a" * 500 + "%"
    assert not matches(f"x LIKE '{pattern}b'", {"x": "a" * 20_000})
    assert matches(f"x LIKE '{pattern}'", {"x": "a" * 20_000})


def test_a_condition_on_a_number_is_refused() -> None:
    with pytest.raises(MatchwoodError, match="is of type number"):
        matches("x LIKE 'a%'", {}, Schema({"x": "number"}))
