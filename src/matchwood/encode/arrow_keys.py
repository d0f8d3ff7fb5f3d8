"""Arrow arrays as float64 keys, whole columns at a time, by the rules of `schema`.

    integers      themselves; a 64-bit integer that float64 cannot hold exactly is a bad cell
    floats        themselves, -0.0 as 0.0
    decimals      the nearest float64, as Python's float(Decimal) gives it
    timestamps    microseconds; nanoseconds that are not whole microseconds are a bad cell; dates are their midnight
    booleans      0.0 and 1.0
    strings       codes of the attribute's symbols; ISO 8601 text for a timestamp attribute
    ids           numbers that are integers, by the codes of their digits, if the attribute is an id

Python objects are made only for distinct strings and bad cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.rejects import Bools
from matchwood.errors import InexactValueError, MatchwoodError, SchemaError, ValueTypeError
from matchwood.schema import UNKNOWN_SYMBOL, Attribute, Schema, Type, describe, exact_key, instant_key
from matchwood.schema.keys import key_of

NAN = float("nan")
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EXACT = 2**53
_DAY = 86_400_000_000


class Cells(NamedTuple):
    """A column as keys (NaN where there is none), which cells are not null, and the errors of the bad ones."""

    keys: Float64s
    present: Bools
    bad: dict[int, MatchwoodError]


def arrow_type(type_: pa.DataType) -> Type | None:
    """The type of the scalars of an Arrow type; None for Arrow's null type, `SchemaError` for what has none."""
    if pa.types.is_dictionary(type_):
        return arrow_type(type_.value_type)
    if pa.types.is_null(type_):
        return None
    if pa.types.is_boolean(type_):
        return Type.BOOL
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return Type.NUMBER
    if is_text(type_):
        return Type.STRING
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return Type.TIMESTAMP
    raise SchemaError(f"expected numbers, strings, booleans or timestamps, got the Arrow type {type_}")


def is_text(type_: pa.DataType) -> bool:
    """Is it a string type, dictionary-encoded or not?"""
    if pa.types.is_dictionary(type_):
        return is_text(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def is_list(type_: pa.DataType) -> bool:
    """Is it any of Arrow's list types?"""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_)) or is_irregular_list(type_)


def is_irregular_list(type_: pa.DataType) -> bool:
    """Is it a list type without plain offsets (a view, or of fixed size)?"""
    views = pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_)
    return bool(views or pa.types.is_fixed_size_list(type_))


def parts_of(array: Any) -> tuple[Int64s, Any]:
    """A list array as the index of the list of each item, and the items; a null list has none. O(items)."""
    if is_irregular_list(array.type):
        array = array.cast(pa.large_list(array.type.value_field))
    lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)
    if array.null_count:
        lengths[~valid(array)] = 0
        return np.repeat(np.arange(len(array)), lengths), array.flatten()
    first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    return np.repeat(np.arange(len(array)), lengths), array.values.slice(first, last - first)


def valid(array: Any) -> Bools:
    """Which items are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    mask: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def fits(type_: Type, found: Type | None) -> bool:
    """May a column of scalars of type `found` hold an attribute of `type_`? ISO 8601 text may hold timestamps, numbers ids."""
    return found in (None, type_) or (found, type_) in ((Type.STRING, Type.TIMESTAMP), (Type.NUMBER, Type.ID))


def cells(array: Any, attribute: Attribute, *, register: bool) -> Cells:
    """The keys of a column of `attribute`, whose type the column's must fit. O(cells) vectorised, and O(distinct strings)."""
    if pa.types.is_null(array.type):
        return Cells(np.full(len(array), NAN), np.zeros(len(array), np.bool_), {})
    if is_text(array.type):
        codes, texts = texts_of(array)
        if attribute.type is Type.TIMESTAMP:
            return _parsed_instants(codes, texts)
        table = np.array([*symbol_keys(attribute, texts, register), NAN])
        return Cells(table[codes], codes >= 0, {})
    return id_cells(array, attribute, register) if attribute.type is Type.ID else plain_cells(array)


def id_cells(array: Any, attribute: Attribute, register: bool) -> Cells:
    """The keys of a column of numbers of an id. O(cells), and O(distinct ids) with Python objects."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    present = valid(array)
    there = np.flatnonzero(present)
    keys, bad = np.full(len(array), NAN), dict[int, MatchwoodError]()
    if pa.types.is_integer(array.type):
        values = array.fill_null(0).to_numpy(zero_copy_only=False)[there]
    else:
        values = np.array([content(array, i) for i in there.tolist()], object)
        there, values = there[values == values], values[values == values]  # NaN has no key, as everywhere
    distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    table = np.full(len(distinct), NAN)
    wrong: dict[int, MatchwoodError] = {}
    for at in np.argsort(first).tolist():  # codes are assigned in order of appearance
        value = distinct[at]
        try:
            table[at] = key_of(attribute, value if distinct.dtype == object else int(value), register)
        except SchemaError:
            wrong[at] = ValueTypeError(f"expected an integer, got {describe(value)}")
    keys[there] = table[inverse]
    if wrong:
        bad = {int(there[i]): wrong[int(inverse[i])] for i in np.flatnonzero(np.isin(inverse, list(wrong))).tolist()}
    return Cells(keys, present, bad)


def plain_cells(array: Any) -> Cells:
    """The keys of a column of numbers, booleans or timestamps."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    type_, present = array.type, valid(array)
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return _instants(array, present)
    if pa.types.is_integer(type_) and type_.bit_width == 64:
        return _exact(array.fill_null(0).to_numpy(zero_copy_only=False), present)
    if pa.types.is_decimal(type_):
        return _decimals(array, present)
    keys = array.cast(pa.float64())
    if keys.null_count:
        keys = keys.fill_null(NAN)
    with np.errstate(invalid="ignore"):  # adding 0.0 to a signalling NaN raises the flag
        return Cells(keys.to_numpy() + 0.0, present, {})


def _decimals(array: Any, present: Bools) -> Cells:
    """Decimals through their text: Arrow's own cast to double can be an ulp off. Whole numbers must be held exactly."""
    keys = array.cast(pa.string()).cast(pa.float64()).fill_null(NAN).to_numpy() + 0.0
    bad: dict[int, MatchwoodError] = {}
    for i in np.flatnonzero(np.abs(keys) >= _EXACT).tolist():
        value = array[i].as_py()
        if value == value.to_integral_value() and keys[i] != value:
            bad[i] = InexactValueError(f"{value} has no exact float64; use a string or scale it down")
    return Cells(keys, present, bad)


def texts_of(array: Any) -> tuple[Int64s, list[str]]:
    """A string column as codes into its distinct texts, in order of appearance; -1 for null."""
    if pa.types.is_dictionary(array.type):
        texts = python_texts(array.dictionary)
        if len(set(texts)) == len(texts) and None not in texts:
            codes = array.indices if not array.indices.null_count else array.indices.fill_null(-1)
            return _by_appearance(codes.to_numpy(zero_copy_only=False).astype(np.int64), texts)
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    encoded = array.dictionary_encode()
    codes = encoded.indices if not encoded.indices.null_count else encoded.indices.fill_null(-1)
    return codes.to_numpy(zero_copy_only=False).astype(np.int64), python_texts(encoded.dictionary)


def python_texts(array: Any) -> list[Any]:
    """The strings of an array, None for null. A damaged file can hold bytes that are none: Arrow does not look."""
    try:
        found: list[Any] = array.to_pylist()
    except UnicodeDecodeError as error:
        raise SchemaError(f"a column of strings holds bytes that are not UTF-8: {error}") from None
    return found


def _by_appearance(codes: Int64s, texts: list[str]) -> tuple[Int64s, list[str]]:
    """Renumber codes in order of appearance, without the texts that do not occur. O(codes)."""
    first = np.full(len(texts) + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several assignments the last stays, which is the first code
    order = np.argsort(first[:-1], kind="stable")
    order = order[first[order] < len(codes)]
    new_codes = np.full(len(texts) + 1, -1)
    new_codes[order] = np.arange(len(order))
    return new_codes[codes], [texts[code] for code in order.tolist()]


def symbol_keys(attribute: Attribute, texts: list[str], register: bool) -> list[float]:
    """The keys of strings of a string attribute, as `Schema.key` gives them."""
    symbols = attribute.symbols
    assert symbols is not None
    if register:
        return [float(symbols.code(text)) for text in texts]
    return [float(symbols.codes.get(text, UNKNOWN_SYMBOL)) for text in texts]


def learnt(schema: Schema, name: str, type_: Type, column: str, found: pa.DataType) -> Attribute:
    """The attribute of a column, of `type_` if the schema has none yet; `SchemaError` if the column contradicts it."""
    known = schema.get(name)
    if known is not None and known.type is not None:
        if known.type is not type_ and not fits(known.type, type_):
            raise SchemaError(
                f"column {column!r}: expected {known.type} for attribute {name!r}, got the Arrow type {found}"
            )
        return known
    try:
        return schema.attribute_for(name, type_)
    except SchemaError as error:
        raise error.about(f"column {column!r}") from None


def _instants(array: Any, present: Bools) -> Cells:
    type_ = array.type
    if pa.types.is_date32(type_):
        ticks, factor = array.cast(pa.int32()).cast(pa.int64()), _DAY
    else:
        ticks, factor = array.cast(pa.int64()), 1 if pa.types.is_date64(type_) else _MICROSECONDS.get(type_.unit, 0)
        factor = 1_000 if pa.types.is_date64(type_) else factor
    counts = ticks.fill_null(0).to_numpy(zero_copy_only=False)
    if factor:
        cells = _exact(counts * factor, present)
        for i in np.flatnonzero(np.abs(counts.astype(np.float64) * factor) >= 2.0**63):
            cells.bad[int(i)] = InexactValueError(
                "the timestamp does not fit into 64 bits as microseconds; leave it out"
            )
        return cells
    cells = _exact(counts // 1_000, present)
    for i in np.flatnonzero(counts % 1_000):
        cells.bad[int(i)] = InexactValueError(
            f"the timestamp of {counts[i]} ns is not a whole number of microseconds; round it first"
        )
    return cells


def _exact(values: Any, present: Bools) -> Cells:
    keys = values.astype(np.float64)
    large = (
        np.flatnonzero(values > _EXACT)
        if values.dtype == np.uint64
        else np.flatnonzero((values > _EXACT) | (values < -_EXACT))
    )
    bad: dict[int, MatchwoodError] = {}
    if len(large):
        limit = 2.0**64 if values.dtype == np.uint64 else 2.0**63
        back = np.where(keys[large] < limit, keys[large], 0.0).astype(values.dtype)
        for i in large[back != values[large]]:
            try:
                exact_key(int(values[i]))
            except InexactValueError as error:
                bad[int(i)] = error
    if not present.all():
        keys[~present] = NAN
    return Cells(keys, present, bad)


def _parsed_instants(codes: Int64s, texts: list[str]) -> Cells:
    table, wrong = np.full(len(texts) + 1, NAN), {}
    for code, text in enumerate(texts):
        try:
            table[code] = instant_key(text)
        except SchemaError as error:
            wrong[code] = error
    bad: dict[int, MatchwoodError] = {}
    if wrong:
        bad = {int(i): wrong[int(codes[i])] for i in np.flatnonzero(np.isin(codes, list(wrong)))}
    return Cells(table[codes], codes >= 0, bad)


def cell_error(error: MatchwoodError, subject: str) -> MatchwoodError:
    """A new error of the same class, with the subject before the message: cells of equal text share one error."""
    return type(error)(f"{subject}: {error}")


def shown(array: Any, i: int) -> str:
    """A cell for a message, also if Python has no value for it (nanoseconds, years past 9999)."""
    text = repr(content(array, i))
    return text if len(text) <= 80 else text[:77] + "..."


def content(array: Any, i: int) -> object:
    """A cell as a Python value, or as Arrow prints it if Python has none."""
    try:
        return array[i].as_py()
    except Exception:  # of many classes: years past 9999, nanoseconds, unknown time zones, bytes that are not text
        return str(array.slice(i, 1).to_string(skip_new_lines=True)).strip("[]")
