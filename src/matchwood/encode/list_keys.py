"""The values of the list form as keys: each cell by the type of the attribute that its struct names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.encode.arrow import pa
from matchwood.encode.arrow_keys import (
    NAN,
    Cells,
    arrow_type,
    cell_error,
    id_cells,
    plain_cells,
    shown,
    symbol_keys,
    texts_of,
)
from matchwood.encode.rejects import Faults
from matchwood.errors import MatchwoodError, SchemaError, ValueTypeError
from matchwood.schema import Attribute, Schema, Type, instant_key

_TYPES = (*Type, None)


@dataclass
class Reading:
    """The common state of the steps of reading one column."""

    column: str
    schema: Schema
    faults: Faults
    for_events: bool
    register: bool
    learn: bool
    record: Int64s
    name: Int64s
    names: list[str]
    attributes: list[Attribute | None]
    texts: list[tuple[Int64s, Int64s, list[str]]] = field(default_factory=list)
    """Strings of events that something is computed from: the struct of each cell, its code (-1 for null) and the texts."""

    def fail(self, structs: Int64s, error_of: Callable[[int], MatchwoodError]) -> None:
        """Fail the records of these structs; `error_of` gets the position in `structs`."""
        self.faults.add_each(self.record[structs], error_of)

    def subject(self, struct: int) -> str:
        return f"attribute {self.names[int(self.name[struct])]!r}"


def typed_keys(array: Any, structs: Int64s, reading: Reading, *, nan_is_absent: bool) -> Float64s:
    """The keys of cells, cell i belonging to the attribute of struct structs[i]; NaN for null and for bad cells."""
    if pa.types.is_null(array.type) or not len(array):
        return np.full(len(array), NAN)
    name = reading.name[structs]
    types = [*(_TYPES.index(a.type) if a is not None else -1 for a in reading.attributes), -1]
    source = arrow_type(array.type)
    cells = _texts(array, name, reading) if source is Type.STRING else plain_cells(array)
    if source is Type.STRING and reading.for_events and any(a is not None and a.derived for a in reading.attributes):
        reading.texts.append((structs, *texts_of(array)))
    if source is Type.NUMBER and _TYPES.index(Type.ID) in types:
        cells = _with_ids(cells, array, name, reading)
    right = all(type_ == _TYPES.index(source) for type_ in types[:-1]) and not cells.bad
    if right and (nan_is_absent or not (cells.present & np.isnan(cells.keys)).any()):  # the common case
        return cells.keys
    type_ = np.array(types)[name]
    fits = type_ == _TYPES.index(source)
    if source is Type.STRING:
        fits |= type_ == _TYPES.index(Type.TIMESTAMP)
    if source is Type.NUMBER:
        fits |= type_ == _TYPES.index(Type.ID)
        fits |= (type_ == _TYPES.index(Type.BOOL)) & ((cells.keys == 0.0) | (cells.keys == 1.0))
    fits |= type_ == _TYPES.index(None)
    wrong = np.flatnonzero(cells.present & ~fits & (type_ >= 0))
    reading.fail(
        structs[wrong],
        lambda i: ValueTypeError(
            f"{reading.subject(structs[wrong[i]])}: expected a {_TYPES[type_[wrong[i]]]}, got {shown(array, int(wrong[i]))}"
        ),
    )
    for i, error in cells.bad.items():
        reading.faults.add(reading.record[structs[i]], cell_error(error, reading.subject(structs[i])))
    keys = np.where(fits, cells.keys, NAN)
    if not reading.learn:  # of an attribute that has no type, only the presence is tested
        keys = np.where(cells.present & (type_ == _TYPES.index(None)), 0.0, keys)
    if not nan_is_absent:
        nan = np.flatnonzero(cells.present & fits & (keys != keys))
        reading.fail(
            structs[nan], lambda i: ValueTypeError(f"{reading.subject(structs[nan[i]])}: expected a number, got NaN")
        )
    return keys


def _with_ids(cells: Cells, array: Any, name: Int64s, reading: Reading) -> Cells:
    """The cells, with the keys of those that belong to ids in place of numbers."""
    keys, bad = cells.keys.copy(), cells.bad
    for number, attribute in enumerate(reading.attributes):
        if attribute is None or attribute.type is not Type.ID:
            continue
        mine = np.flatnonzero(name == number)
        found = id_cells(taken(array, mine), attribute, reading.register)
        keys[mine] = found.keys
        others = {i: error for i, error in bad.items() if name[i] != number}
        bad = others | {int(mine[i]): error for i, error in found.bad.items()}
    return Cells(keys, cells.present, bad)


def _texts(array: Any, name: Int64s, reading: Reading) -> Cells:
    """Strings as keys of the attributes `name`, looked up once for each distinct pair of attribute and text."""
    codes, texts = texts_of(array)
    keys = np.full(len(codes), NAN)
    bad: dict[int, MatchwoodError] = {}
    there = np.flatnonzero((codes >= 0) & (name >= 0))
    pairs, first, inverse = np.unique(name[there] * len(texts) + codes[there], return_index=True, return_inverse=True)
    table = np.full(len(pairs), NAN)
    wrong: dict[int, MatchwoodError] = {}
    for pair in np.argsort(first).tolist():  # codes are assigned in order of appearance
        attribute, text = reading.attributes[int(pairs[pair]) // len(texts)], texts[int(pairs[pair]) % len(texts)]
        if attribute is not None and attribute.type is Type.STRING:
            (table[pair],) = symbol_keys(attribute, [text], reading.register)
        elif attribute is not None and attribute.type is Type.TIMESTAMP:
            try:
                table[pair] = instant_key(text)
            except SchemaError as error:
                wrong[pair] = error
    keys[there] = table[inverse]
    if wrong:
        bad = {int(there[i]): wrong[int(inverse[i])] for i in np.flatnonzero(np.isin(inverse, list(wrong))).tolist()}
    return Cells(keys, codes >= 0, bad)


def taken(array: Any, structs: Int64s) -> Any:
    """The cells of these structs."""
    return array if len(structs) == len(array) else array.take(pa.array(structs))
