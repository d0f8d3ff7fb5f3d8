"""Attributes, their types, and the way from a value to its float64 key.

    number     itself; an integer float64 cannot hold exactly is refused
    timestamp  microseconds since 1970-01-01T00:00:00Z (a naive datetime is taken as UTC, a date as its midnight)
    bool       0.0 and 1.0
    string     the code its attribute's `Symbols` gave it; equality is all that survives, so order comparisons are refused
    point      two keys: longitude and latitude in degrees

An attribute owns one *dimension* (a column of keys), a point attribute two. Dimensions are handed out in order of appearance and
never change, so arrays encoded earlier stay valid while a schema learns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import TracebackType
from typing import Any, NamedTuple

from matchwood.errors import InexactValueError, SchemaError, UnknownAttributeError, ValueTypeError

MAX_DIMENSIONS = 65_000
UNKNOWN_SYMBOL = -1.0
"""The key of a string nobody has registered: it equals no code, so `=` fails and `!=` holds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT_INTEGER = 2**53
_BELOW_A_MICROSECOND = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


class Type(StrEnum):
    NUMBER = "number"
    STRING = "string"
    BOOL = "bool"
    TIMESTAMP = "timestamp"
    POINT = "point"


class Point(NamedTuple):
    """A place in degrees."""

    lon: float
    lat: float


class Range(NamedTuple):
    """A closed range of values, as an event's value: `Range(20, 30)`. An open end is an infinity."""

    lo: Any
    hi: Any


Scalar = int | float | str | bool | datetime


@dataclass(slots=True)
class Symbols:
    """Strings and their codes, 0, 1, 2, ... in order of appearance.

    One writer. A code never changes, so a reader may look up while a writer appends.
    """

    texts: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def code(self, text: str) -> int:
        """The code of `text`, a new one if it has none. O(1)."""
        code = self.codes.get(text)
        if code is None:
            del self.texts[len(self.codes) :]  # an exception may have come between the two lines below
            self.texts.append(text)
            code = self.codes[text] = len(self.codes)
        return code

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(slots=True)
class Attribute:
    """A name, a type (None until learnt), its dimensions, and its symbols if it holds strings."""

    name: str
    type: Type | None
    dims: tuple[int, ...]
    symbols: Symbols | None = None


class _Step(NamedTuple):
    """A step of learning, noted before it is made: an attribute was added, or given its type."""

    attribute: Attribute
    added: bool
    dimensions: int
    """How many dimensions there were before."""


class Schema:
    """The attributes of a system, declared or learnt.

    With `learn=True` (the default) the first value of a new attribute fixes its type; with `learn=False` only declared names are
    known and any other raises `UnknownAttributeError`. One writer; readers see attributes once they are whole.

    >>> schema = Schema({"age": "number"})
    >>> schema.key(schema.attribute_for("age", Type.NUMBER), 31)
    31.0
    >>> schema.key(schema.attribute_for("age", Type.NUMBER), "old")
    Traceback (most recent call last):
    ...
    matchwood.errors.ValueTypeError: attribute 'age': expected a number, got 'old' (str)
    """

    def __init__(self, declared: Mapping[str, str | Type] | None = None, *, learn: bool = True) -> None:
        self.learn = learn
        self._attributes: dict[str, Attribute] = {}
        self._by_dimension: list[Attribute] = []
        self._learnt: list[_Step] = []
        for name, type_ in (declared or {}).items():
            self.declare(name, type_)

    def declare(self, name: str, type_: str | Type) -> Attribute:
        """Fix the type of `name`; a second, different declaration is an error. O(1).

        Raises `SchemaError` for a type that there is not, `ValueTypeError` if the attribute has another one.
        """
        try:
            wanted = Type(type_)
        except ValueError:
            known = ", ".join(Type)
            raise SchemaError(f"attribute {name!r}: expected one of the types {known}, got {type_!r}") from None
        attribute = self._attributes.get(name)
        if attribute is None:
            attribute = self._add(name)
        return self._give_type(attribute, wanted)

    def attribute_for(self, name: str, type_: Type) -> Attribute:
        """The attribute `name`, which must be of `type_`; learnt if the schema learns. O(1)."""
        attribute = self.find(name)
        if attribute.type is type_:
            return attribute
        return self._give_type(attribute, type_)

    def find(self, name: str) -> Attribute:
        """The attribute `name`; new, with its type still open, if the schema learns. O(1)."""
        attribute = self._attributes.get(name)
        if attribute is not None:
            return attribute
        if not self.learn:
            known = ", ".join(sorted(self._attributes)[:20]) or "none"
            raise UnknownAttributeError(f"attribute {name!r} is not in the schema (known: {known}); declare it first")
        return self._add(name)

    def get(self, name: str) -> Attribute | None:
        """The attribute `name` if it is known, without learning it. O(1)."""
        return self._attributes.get(name)

    def tentatively(self) -> Tentatively:
        """A block after which the attributes and types learnt inside are forgotten if it raises: what is refused must not
        teach. O(1).

        Symbols stay: an unused one costs its bytes and changes no answer.
        """
        return Tentatively(self)

    def mark(self) -> int:
        """How many steps of learning there have been."""
        return len(self._learnt)

    def forget_since(self, mark: int) -> None:
        """Forget the attributes and types learnt since `mark`. O(steps)."""
        while len(self._learnt) > mark:
            self._forget(self._learnt[-1])
            self._learnt.pop()

    def of_dimension(self, dim: int) -> Attribute:
        """The attribute that owns a dimension. O(1)."""
        return self._by_dimension[dim]

    def key(self, attribute: Attribute, value: object, *, register: bool = True) -> float:
        """The key of one scalar value of `attribute`, whose type must be known and not point.

        With `register=False` an unseen string gets `UNKNOWN_SYMBOL` rather than a code of its own. O(1).
        """
        try:
            return _KEYS[attribute.type](attribute, value, register)
        except SchemaError as error:
            raise error.about(f"attribute {attribute.name!r}") from None

    def value(self, attribute: Attribute, key: float) -> Scalar:
        """The value whose key is `key`: the inverse of `key`, used to show rows to people. O(1).

        Raises OverflowError for the key of an instant that Python's datetime cannot hold (a float past an open end).
        """
        if math.isinf(key) or attribute.type in (Type.NUMBER, Type.POINT, None):
            return int(key) if key.is_integer() and abs(key) < _EXACT_INTEGER else key
        if attribute.type is Type.BOOL:
            return bool(key)
        if attribute.type is Type.TIMESTAMP:
            return _EPOCH + timedelta(microseconds=round(key))
        symbols = attribute.symbols
        return symbols.texts[int(key)] if symbols is not None and 0 <= key < len(symbols) else f"<unregistered {key}>"

    def shown(self, attribute: Attribute, key: float) -> str:
        """The value of a key for a message; the key itself where Python has no such instant."""
        try:
            return str(self.value(attribute, key))
        except OverflowError:
            return f"{key:.0f} us"

    @property
    def dimensions(self) -> int:
        """How many dimensions have been handed out."""
        return len(self._by_dimension)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self._attributes.values())

    def __len__(self) -> int:
        return len(self._attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def extends(self, other: Schema) -> bool:
        """Does every dimension and key that `other` has given mean the same here? O(1) for itself, O(attributes + symbols).

        >>> ours, theirs = Schema({"age": "number", "city": "string"}), Schema({"age": "number"})
        >>> ours.extends(theirs), theirs.extends(ours)
        (True, False)
        """
        return self.difference(other) is None

    def difference(self, other: Schema) -> str | None:
        """Which attribute of `other` means something else here, for a message; None if none does."""
        if other is self:
            return None
        for theirs in list(other):
            ours = self.get(theirs.name)
            subject = f"attribute {theirs.name!r}"
            if ours is None:
                return f"{subject} is not known here"
            # An attribute without a type has been asked for its presence only, which any type can tell.
            if theirs.type not in (None, ours.type) or ours.dims[: len(theirs.dims)] != theirs.dims:
                return f"{subject}: expected {_place(ours)}, got {_place(theirs)}"
            if theirs.symbols is not None and ours.symbols is not None:
                found = _first_other(ours.symbols.texts, theirs.symbols.texts)
                if found is not None:
                    return f"{subject}: {found}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Everything needed to make the same schema again, symbols included."""
        return {
            "learn": self.learn,
            "attributes": [
                {
                    "name": attribute.name,
                    "type": attribute.type,
                    "dims": list(attribute.dims),
                    **({} if attribute.symbols is None else {"symbols": attribute.symbols.texts}),
                }
                for attribute in self
            ],
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Schema:
        """The schema that `to_json` described."""
        schema = cls(learn=bool(saved["learn"]))
        owners: dict[int, Attribute] = {}
        for item in saved["attributes"]:
            type_ = None if item["type"] is None else Type(item["type"])
            attribute = Attribute(str(item["name"]), type_, tuple(int(dim) for dim in item["dims"]))
            if attribute.name in schema:
                raise SchemaError(f"attribute {attribute.name!r} is listed twice")
            if len(attribute.dims) != (2 if type_ is Type.POINT else 1) or not owners.keys().isdisjoint(attribute.dims):
                raise SchemaError(f"attribute {attribute.name!r}: its dimensions {list(attribute.dims)} cannot be")
            if type_ is Type.STRING:
                texts = [str(text) for text in item.get("symbols", ())]
                attribute.symbols = Symbols(texts, {text: code for code, text in enumerate(texts)})
                if len(attribute.symbols.codes) != len(texts):
                    raise SchemaError(f"attribute {attribute.name!r}: a symbol is listed twice")
            schema._attributes[attribute.name] = attribute
            owners.update(dict.fromkeys(attribute.dims, attribute))
        if sorted(owners) != list(range(len(owners))):
            raise SchemaError("the dimensions of the saved schema are not 0, 1, 2, ...")
        schema._by_dimension = [owners[dim] for dim in range(len(owners))]
        return schema

    def _add(self, name: str) -> Attribute:
        if not isinstance(name, str) or not name:
            raise SchemaError(f"expected an attribute name, got {name!r}")
        attribute = Attribute(name, None, ())
        self._learnt.append(_Step(attribute, True, len(self._by_dimension)))
        attribute.dims = (self._new_dimension(attribute),)
        self._attributes[name] = attribute
        return attribute

    def _give_type(self, attribute: Attribute, type_: Type) -> Attribute:
        if attribute.type is None:
            self._learnt.append(_Step(attribute, False, len(self._by_dimension)))
            if type_ is Type.POINT:
                attribute.dims = (*attribute.dims, self._new_dimension(attribute))
            if type_ is Type.STRING:
                attribute.symbols = Symbols()
            attribute.type = type_
        if attribute.type is not type_:
            raise ValueTypeError(f"attribute {attribute.name!r} is of type {attribute.type}, but is used as {type_}")
        return attribute

    def _forget(self, step: _Step) -> None:
        """Undo the last step of learning, however much of it was done."""
        attribute = step.attribute
        if not step.added:
            attribute.type = attribute.symbols = None
            attribute.dims = attribute.dims[:1]
        elif self._attributes.get(attribute.name) is attribute:
            del self._attributes[attribute.name]
        del self._by_dimension[step.dimensions :]

    def _new_dimension(self, attribute: Attribute) -> int:
        dim = len(self._by_dimension)
        if dim >= MAX_DIMENSIONS:
            raise SchemaError(f"attribute {attribute.name!r}: a schema holds at most {MAX_DIMENSIONS} dimensions")
        self._by_dimension.append(attribute)
        return dim


class Tentatively:
    """See `Schema.tentatively`. No generator: one that is dropped before it ends would forget what a call has used."""

    __slots__ = ("_mark", "_schema")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._mark = schema.mark()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._schema.forget_since(self._mark)


def _place(attribute: Attribute) -> str:
    return f"dimension {attribute.dims[0]} of type {attribute.type or 'not known yet'}"


def _first_other(ours: list[str], theirs: list[str]) -> str | None:
    """The first of their symbols that is not ours as well."""
    if ours[: len(theirs)] == theirs:
        return None
    code = next((code for code, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), len(ours))
    if code == len(ours):
        return f"the string {_text(theirs[code])} is not known here"
    return f"expected the code {code} for {_text(ours[code])}, got it for {_text(theirs[code])}"


def type_of(value: object) -> Type:
    """The type a value has by itself, without a schema.

    >>> type_of(True), type_of(3), type_of("x")
    (<Type.BOOL: 'bool'>, <Type.NUMBER: 'number'>, <Type.STRING: 'string'>)
    """
    plain = unwrapped(value)
    for classes, type_ in _TYPE_OF_CLASS:
        if isinstance(plain, classes):
            return type_
    raise ValueTypeError(f"expected a number, string, bool, datetime or Point, got {describe(value)}")


def is_missing(value: object) -> bool:
    """None and NaN mean that the attribute is absent; so do a decimal NaN, NumPy's and pandas' NaT."""
    if isinstance(value, float):
        return value != value
    if value is None or isinstance(value, int | str):
        return value is None
    if isinstance(value, Decimal):
        return value.is_nan()
    return bool((isinstance(value, date) or _is_wrapped(value)) and value != value)


def instant_key(value: object) -> float:
    """The key of a timestamp: whole microseconds since the epoch, from a datetime, a date or ISO 8601 text.

    What lies between two microseconds is refused: rounded, it would stand on the wrong side of some bound.
    """
    moment = unwrapped(value)
    if isinstance(moment, str):
        moment = _moment_of_text(moment)
    if not isinstance(moment, date) or moment != moment:
        raise ValueTypeError(f"expected a timestamp, got {describe(value)}")
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    key, rest = divmod(moment - _EPOCH, _MICROSECOND)
    if rest:  # of a pandas Timestamp
        raise InexactValueError(f"{describe(value)} is finer than a microsecond; round it first")
    try:
        return exact_key(key)
    except InexactValueError:
        remedy = "float64 holds every microsecond within 285 years of 1970; further away, use whole seconds"
        raise InexactValueError(f"{moment.isoformat()} has no exact key: {remedy}") from None


def _moment_of_text(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueTypeError(f"expected a timestamp, got {text!r}; write it as 2026-01-31T12:00:00Z") from None
    check_microseconds(text)
    return moment


def check_microseconds(text: str) -> None:
    """Refuse the text of an instant between two microseconds; `datetime.fromisoformat` would cut it off in silence."""
    if _BELOW_A_MICROSECOND.search(text):
        raise InexactValueError(f"{text!r} is finer than a microsecond; round it first")


def exact_key(value: int) -> float:
    """An integer as float64, refused if that would round it.

    >>> exact_key(2**53 + 1)
    Traceback (most recent call last):
    ...
    matchwood.errors.InexactValueError: 9007199254740993 has no exact float64; use a string or scale it down
    """
    if -_EXACT_INTEGER <= value <= _EXACT_INTEGER:
        return float(value)
    try:
        key = float(value)
    except OverflowError:
        key = math.inf
    if key != value:
        raise InexactValueError(f"{_text(value)} has no exact float64; use a string or scale it down")
    return key


def point_of(value: object) -> Point:
    """A point from a `Point`, a (lon, lat) pair, {"lon", "lat"} or a GeoJSON point."""
    if isinstance(value, Mapping):
        pair: Any = value.get("coordinates") if "coordinates" in value else (value.get("lon"), value.get("lat"))
    else:
        pair = value
    if isinstance(pair, Iterable) and not isinstance(pair, str | bytes | AbstractSet | Range) and not _is_wrapped(pair):
        numbers = tuple(unwrapped(number) for number in pair)
        if len(numbers) == 2 and all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
            lon, lat = numbers
            if -180 <= lon <= 180 and -90 <= lat <= 90:
                return Point(float(lon) + 0.0, float(lat) + 0.0)
            place = f"({_text(lon)}, {_text(lat)})"
            raise ValueTypeError(f"expected a longitude in -180..180 and a latitude in -90..90, got {place}")
    raise ValueTypeError(f"expected a point (lon, lat), got {describe(value)}")


def describe(value: object) -> str:
    """A value and its class, short enough for a message."""
    return f"{_text(value)} ({type(value).__name__})"


def _text(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        text = "a number of thousands of digits"
    except Exception as error:  # what is handed in may have a `repr` of its own, or nest too deeply for Python's
        text = f"a value whose repr raises {type(error).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def _number_key(attribute: Attribute, value: object, register: bool) -> float:
    number = value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        number = unwrapped(number)
        if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
            raise ValueTypeError(f"expected a number, got {describe(value)}")
    if isinstance(number, int):
        return exact_key(number)
    if is_missing(number):
        raise ValueTypeError("expected a number, got NaN (in an event it means that the attribute is absent)")
    key = float(number)
    if isinstance(number, Decimal) and key != number and (math.isinf(key) or number == number.to_integral_value()):
        raise InexactValueError(f"{_text(number)} has no exact float64; use a string or scale it down")
    return key + 0.0


def _bool_key(attribute: Attribute, value: object, register: bool) -> float:
    plain = unwrapped(value)
    if not isinstance(plain, bool):
        raise ValueTypeError(f"expected true or false, got {describe(value)}")
    return float(plain)


def _timestamp_key(attribute: Attribute, value: object, register: bool) -> float:
    if isinstance(value, float) and math.isinf(value):
        return float(value)
    return instant_key(value)


def _string_key(attribute: Attribute, value: object, register: bool) -> float:
    if not isinstance(value, str):
        raise ValueTypeError(f"expected a string, got {describe(value)}")
    assert attribute.symbols is not None
    if register:
        return float(attribute.symbols.code(value))
    code = attribute.symbols.codes.get(value)
    return UNKNOWN_SYMBOL if code is None else float(code)


def _no_key(attribute: Attribute, value: object, register: bool) -> float:
    expected = "a point (lon, lat)" if attribute.type is Type.POINT else "an attribute whose type is known"
    raise ValueTypeError(f"expected {expected}, got {describe(value)}")


def unwrapped(value: object) -> Any:
    """NumPy's scalars as Python's; anything else as it is."""
    if not _is_wrapped(value):
        return value
    wrapped: Any = value
    if getattr(wrapped.dtype, "kind", "") != "M":
        return wrapped.item()
    micro = wrapped.astype("datetime64[us]")  # in nanoseconds `item` would give a bare integer
    if micro != wrapped and wrapped == wrapped:
        raise InexactValueError(f"{wrapped} is finer than a microsecond; round it first")
    return micro.item()


def _is_wrapped(value: object) -> bool:
    """Is it a NumPy scalar (or an array of no dimension)? Told by its attributes, so that this layer need not import NumPy."""
    return getattr(value, "ndim", None) == 0 and hasattr(value, "dtype") and callable(getattr(value, "item", None))


_KEYS = {
    Type.NUMBER: _number_key,
    Type.BOOL: _bool_key,
    Type.TIMESTAMP: _timestamp_key,
    Type.STRING: _string_key,
    Type.POINT: _no_key,
    None: _no_key,
}

_TYPE_OF_CLASS: tuple[tuple[tuple[type, ...], Type], ...] = (
    ((bool,), Type.BOOL),
    ((int, float, Decimal), Type.NUMBER),
    ((str,), Type.STRING),
    ((date,), Type.TIMESTAMP),
    ((Point,), Type.POINT),
)
