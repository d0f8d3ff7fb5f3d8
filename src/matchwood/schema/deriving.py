"""The keys of derived attributes, from the values of the attribute that they are computed from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matchwood.schema.functions import function_of, is_hidden
from matchwood.schema.keys import UNKNOWN_SYMBOL
from matchwood.schema.testing import SymbolTester
from matchwood.schema.types import Attribute, Type


def derived_keys(source: Attribute, values: Iterable[Any], register: bool) -> list[tuple[int, float]]:
    """(dimension, key) of everything that is derived from the values of one attribute of an event, keys ascending. O(values).

    The values are texts of strings, and keys of anything else.
    """
    found: list[tuple[int, float]] = []
    for attribute in source.derived:
        if is_hidden(attribute.name):
            found += [(attribute.dims[0], key) for key in _tests(attribute, values)]
            continue
        call = function_of(attribute.name).call
        results = {call(value) for value in values}
        results.discard(None)
        dim = attribute.dims[0]
        found += [(dim, key) for key in sorted({_key(attribute, result, register) for result in results})]
        if attribute.derived and results:
            found += derived_keys(attribute, results, register)
    return found


def _tests(attribute: Attribute, values: Iterable[Any]) -> list[float]:
    """The codes of the tests that hold for one of the texts, ascending, after `UNKNOWN_SYMBOL`."""
    if attribute.tester is None:
        attribute.tester = SymbolTester(attribute.symbols)  # type: ignore[arg-type]  # a hidden attribute has symbols
    codes: set[int] = set()
    for text in values:
        codes |= attribute.tester.codes(text)
    return [UNKNOWN_SYMBOL, *sorted(codes)]


def _key(attribute: Attribute, value: Any, register: bool) -> float:
    if attribute.type is not Type.STRING:
        return float(value)
    assert attribute.symbols is not None
    return float(attribute.symbols.code(value) if register else attribute.symbols.codes.get(value, UNKNOWN_SYMBOL))
