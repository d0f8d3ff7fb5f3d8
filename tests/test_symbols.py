"""Symbols against a list of strings with holes, and that forgotten strings take no room."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchwood.errors import SchemaError
from matchwood.schema import Schema, Symbols

WORDS = st.integers(0, 40).map(str)
STEPS = st.lists(st.one_of(WORDS, st.lists(st.integers(0, 60), max_size=8), st.integers(1, 2000)), max_size=30)


@given(STEPS)
def test_symbols_are_a_list_with_holes(steps: list[Any]) -> None:
    symbols, texts = Symbols(), list[str | None]()
    for step in steps:
        if isinstance(step, list):
            codes = [code for code in step if code < len(texts)]
            symbols.forget(codes)
            for code in codes:
                texts[code] = None
        elif isinstance(step, int):  # many at once, so that pages fill and empty
            first = len(texts)
            for number in range(step):
                assert symbols.code(f"w{first + number}") == first + number
            symbols.forget(range(first, first + step - 1))
            texts += [None] * (step - 1) + [f"w{first + step - 1}"]
        else:
            known = texts.index(step) if step in texts else len(texts)
            texts += [step] * (known == len(texts))
            assert symbols.code(step) == known
    known = [(code, text) for code, text in enumerate(texts) if text is not None]
    again = Symbols.from_json(json.loads(json.dumps(symbols.to_json())))
    assert again == symbols == Symbols.from_json(texts)
    for form in (again, symbols):
        assert len(form) == len(texts)
        assert [form.text(code) for code in range(len(texts))] == texts
        assert list(form.codes.items()) == [(text, code) for code, text in known]
        for first in (0, 1, 1023, 1024, len(texts)):
            for end in (first, first + 1, 1500, len(texts)):
                found = list(form.known(first, min(end, len(texts))))
                assert found == [(code, text) for code, text in known if first <= code < min(end, len(texts))]
        for code in (len(texts), -1):
            with pytest.raises(IndexError):
                form.text(code)
        assert form.code("new") == len(texts)
        assert form.text(len(texts)) == "new"
        assert list(form.known(len(texts), len(form))) == [(len(texts), "new")]


def test_strings_that_come_and_go_take_no_room() -> None:
    schema = Schema({"s": "string"})
    attribute = schema.find("s")
    assert attribute.symbols is not None
    for number in range(200_000):
        code = attribute.symbols.code(f"string {number}")
        if number != 77:
            attribute.symbols.forget([code])
    assert len(attribute.symbols) == 200_000
    assert len(pickle.dumps(attribute.symbols)) < 10_000
    saved = json.dumps(schema.to_json())
    assert len(saved) < 300
    again = Schema.from_json(json.loads(saved)).find("s").symbols
    assert again == attribute.symbols
    assert again is not None
    assert list(again.known(0, len(again))) == [(77, "string 77")]
    assert again.code("string 3") == 200_000


@pytest.mark.parametrize(
    "saved",
    [
        ["x", "x"],
        {"size": 2, "codes": [0, 1], "texts": ["x", "x"]},
        {"size": 2, "codes": [1, 0], "texts": ["x", "y"]},
        {"size": 2, "codes": [2], "texts": ["x"]},
        {"size": 2, "codes": [-1], "texts": ["x"]},
    ],
)
def test_saved_symbols_that_contradict_themselves_are_refused(saved: Any) -> None:
    with pytest.raises(SchemaError):
        Symbols.from_json(saved)


def holding(texts: list[str | None]) -> Schema:
    schema = Schema({"s": "string"})
    schema.find("s").symbols = Symbols.from_json(texts)
    return schema


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (["x", None], ["x", "y"], None),
        (["x", "y"], [None, "y"], None),
        (["x", None, "z"], ["x", "q"], None),
        (["x", "y"], [None, "z"], "attribute 's': expected the code 1 for 'y', got it for 'z'"),
        (["x"], ["x", None, "y"], "attribute 's': the string 'y' is not known here"),
        (["x"], ["x", None], "attribute 's': the code 1, whose string has been forgotten, is not known here"),
    ],
)
def test_a_forgotten_string_is_no_difference_unless_its_code_may_be_given_again(
    ours: list[str | None], theirs: list[str | None], difference: str | None
) -> None:
    assert holding(ours).difference(holding(theirs)) == difference
