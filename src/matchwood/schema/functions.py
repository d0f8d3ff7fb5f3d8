"""Functions of attributes: `CASEI(name)` is an attribute that is computed from `name` while an event is encoded.

A derived attribute has a name of its own in the schema: the function, `SEPARATOR`, and the name of the attribute it is computed
from, which may be derived itself (`CASEI(ACCENTI(name))`). An argument follows the function after a colon. No attribute of an
event can have such a name: events are read by the names in `Schema.attributes`, which has no derived ones.

A new function is one entry in `FUNCTIONS`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from matchwood.errors import SchemaError
from matchwood.schema.calendar import PARTS, constant_of, part_of
from matchwood.schema.durations import seconds_of
from matchwood.schema.types import Type

SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Function:
    """A pure function of one value, applied to each value of a list.

    `call` gets and gives the text of a string, and the key of any other value (of a timestamp: microseconds since 1970). None
    means that there is no value. A value that is a range has none.
    """

    name: str
    takes: Type
    gives: Type
    call: Callable[[Any], Any]
    folds_constants: bool = False
    """Is a constant that the derived attribute is compared with put through the function too? It must be idempotent then."""
    argument: str | None = None
    reads_constant: Callable[[Any], Any] | None = None
    """How a constant that the derived attribute is compared with is read: 'MON' as the number of a weekday."""
    is_age: bool = False
    """Is it computed after everything else, from two instants (encode/ages.py)? The argument is then an attribute."""


def casei(text: str) -> str:
    """The text without differences of case: Unicode's full case folding, in the normal form NFC. Idempotent.

    >>> casei("STRASSE") == casei("Straße")
    True
    """
    if text.isascii():
        return text.lower()
    return _settled(lambda t: unicodedata.normalize("NFC", unicodedata.normalize("NFC", t).casefold()), text)


def accenti(text: str) -> str:
    """The text without accents: decomposed (NFD), without combining marks, and composed again (NFC). Idempotent.

    >>> accenti("Chișinău")
    'Chisinau'
    """
    if text.isascii():
        return text
    return _settled(_without_marks, text)


def _without_marks(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join([sign for sign in decomposed if unicodedata.category(sign) != "Mn"]))


def _settled(function: Callable[[str], str], text: str) -> str:
    while (result := function(text)) != text:
        text = result
    return text


def _plain(function: Function) -> Callable[[str | None], Function]:
    def made(argument: str | None) -> Function:
        if argument is not None:
            raise SchemaError(f"{function.name} takes one argument, an attribute; got {argument!r} beside it")
        return function

    return made


def _part(part: str) -> Callable[[str | None], Function]:
    def made(zone: str | None) -> Function:
        call, reads = part_of(part, zone), partial(constant_of, part)
        return Function(part, Type.TIMESTAMP, Type.NUMBER, call, argument=zone, reads_constant=reads)

    return made


def _age(other: str | None) -> Function:
    if other is not None and (not other or SEPARATOR in other):
        raise SchemaError(f"AGE takes the names of one or two attributes, got {other!r}")
    return Function(
        "AGE", Type.TIMESTAMP, Type.NUMBER, lambda key: None, argument=other, reads_constant=seconds_of, is_age=True
    )


FUNCTIONS: dict[str, Callable[[str | None], Function]] = {
    "CASEI": _plain(Function("CASEI", Type.STRING, Type.STRING, casei, folds_constants=True)),
    "ACCENTI": _plain(Function("ACCENTI", Type.STRING, Type.STRING, accenti, folds_constants=True)),
    **{part: _part(part) for part in PARTS},
    "AGE": _age,
}
"""The functions by name; each is made from its argument, None for none."""


TESTS = "TESTS"
"""The function whose values are the codes of the tests that hold for a string (`schema.testing`). No condition can name it."""

_TESTS = Function(TESTS, Type.STRING, Type.STRING, lambda text: text)

CONDITIONS = "CONDITIONS"
"""The same for a list of objects: the codes of the conditions on its elements that hold (`lang.nested`)."""

_CONDITIONS = Function(CONDITIONS, Type.OBJECTS, Type.STRING, lambda text: text)


def tests_of(attribute: str) -> str:
    """The name of the hidden attribute that has the tests of an attribute."""
    return f"{TESTS}{SEPARATOR}{attribute}"


def conditions_of(attribute: str) -> str:
    """The name of the hidden attribute that has the conditions on the elements of an attribute."""
    return f"{CONDITIONS}{SEPARATOR}{attribute}"


def element_prefix(attribute: str) -> str:
    """What the names of values in the elements of an attribute begin with: `items[].sku`."""
    return f"{attribute}[]."


def is_of_elements(name: str) -> bool:
    """Is it an attribute of the values in the elements of another?"""
    return "[]." in root_of(name)


def is_hidden(name: str) -> bool:
    """Is it an attribute that has the tests of another, or the conditions on its elements?"""
    return name.startswith(_HIDDEN)


def has_conditions(name: str) -> bool:
    """Is it an attribute that has the conditions on the elements of another?"""
    return name.startswith(_HIDDEN[1])


_HIDDEN = (f"{TESTS}{SEPARATOR}", f"{CONDITIONS}{SEPARATOR}")


def derived_name(function: str, attribute: str, argument: str | None = None) -> str:
    """The name in the schema of a function of an attribute."""
    return f"{function}{'' if argument is None else f':{argument}'}{SEPARATOR}{attribute}"


def is_derived(name: str) -> bool:
    """Is it the name of a derived attribute?"""
    return isinstance(name, str) and SEPARATOR in name


def source_of(name: str) -> str:
    """The name of the attribute that a derived one is computed from."""
    return name.partition(SEPARATOR)[2]


def root_of(name: str) -> str:
    """The attribute of the event that an attribute, derived or not, depends on."""
    return name.rpartition(SEPARATOR)[2]


@lru_cache(1024)
def function_of(name: str) -> Function:
    """The outermost function of a derived attribute; `SchemaError` if there is none of that name."""
    function, colon, argument = name.partition(SEPARATOR)[0].partition(":")
    if function == TESTS:
        return _TESTS
    if function == CONDITIONS:
        return _CONDITIONS
    if function not in FUNCTIONS:
        raise SchemaError(f"there is no function {function!r}; the functions are {', '.join(FUNCTIONS)}")
    return FUNCTIONS[function](argument if colon else None)


def folded(name: str, value: Any) -> Any:
    """A constant that the attribute `name` is compared with, put through those of its functions that fold or read constants."""
    reads = function_of(name).reads_constant
    if reads is not None:
        return reads(value)
    if not isinstance(value, str):
        return value
    if SEPARATOR in (source := source_of(name)):
        value = folded(source, value)
    function = function_of(name)
    return function.call(value) if function.folds_constants else value


def folding_functions(attribute: str) -> list[str]:
    """The functions of an attribute that are applied to constants too, the outermost first."""
    found = []
    while SEPARATOR in attribute:
        function = function_of(attribute)
        if function.folds_constants:
            found.append(function.name)
        attribute = source_of(attribute)
    return found
