"""The wide form of subscriptions: one or a few columns for each attribute. The name of a column decides its role.

age_lo, age_hi    the ends of a closed interval; null is an open end, both null no predicate
age               equality; a list is IN; null is no predicate. The schema must know the attribute, since by its name such a
                  column cannot be distinguished from other data of the subscriber
age_weight        the weight of that predicate; null is 1
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matchwood.encode import heads
from matchwood.encode.arrow_keys import (
    Cells,
    is_list,
    parts_of,
    valid,
)
from matchwood.encode.flat import Entries, IntervalSets, canonical, values_of
from matchwood.encode.rejects import Faults
from matchwood.encode.wide_cells import Found, check_ordered, known_or_learnable, one_attribute, read_cells, refuse_nan
from matchwood.errors import (
    ExpressionError,
    NeverMatchesError,
    SchemaError,
    ValueTypeError,
)
from matchwood.schema import Schema, Type

_ROLES = {"_lo": "lo", "_hi": "hi", "_weight": "weight"}
_RESERVED = ("id", "priority", "until")


@dataclass
class Columns:
    """The columns of one attribute of subscriptions, by role: lo, hi, plain, weight."""

    name: str
    by_role: dict[str, str] = field(default_factory=dict)


def subscription_entries(batch: Any, columns_of: list[Columns], schema: Schema, faults: Faults) -> list[Entries]:
    """The predicates of a wide table, one `Entries` for each attribute. O(cells) vectorised."""
    parts = []
    for columns in columns_of:
        arrays = {role: heads.column(batch, name) for role, name in columns.by_role.items()}
        if "plain" in arrays and is_list(arrays["plain"].type):
            found = _memberships(columns, arrays["plain"], schema, faults)
        elif "plain" in arrays:
            found = _equalities(columns, arrays["plain"], schema, faults)
        else:
            found = _intervals(columns, arrays, schema, faults)
        if found is None:
            continue
        attribute, sets = found
        sets = values_of(sets, attribute.type is Type.BOOL, attribute.type is Type.TIMESTAMP)
        weight = np.ones(batch.num_rows)
        if "weight" in arrays:
            weight = heads.read_numbers(batch, columns.by_role["weight"], faults, missing=1.0, error=ExpressionError)
            wrong = np.flatnonzero(weight < 0.0)
            faults.add_each(
                wrong,
                lambda i, name=columns.name, wrong=wrong, weight=weight: ExpressionError(  # type: ignore[misc]
                    f"attribute {name!r}: expected a finite weight >= 0, got {weight[wrong[i]]}"
                ),
            )
        parts.append(one_attribute(attribute, sets, weight, events=False))
    return parts


def has_place(names: list[str]) -> bool:
    """Are all columns of a place among the names?"""
    return set(heads.PLACE_COLUMNS) <= set(names)


def columns_by_attribute(names: list[str], schema: Schema) -> list[Columns]:
    """The columns of a wide table of subscriptions by attribute and role, in order of appearance."""
    known: dict[str, Columns] = {}
    place = has_place(names)
    for column in names:
        reserved = column in _RESERVED or (place and column in heads.PLACE_COLUMNS)
        if reserved and column in schema:
            raise SchemaError(
                f"column {column!r} is both the subscription's {column} and the attribute of that name; rename one"
            )
        if reserved:
            continue
        if column in heads.PLACE_COLUMNS and column not in schema:
            raise SchemaError(
                f"column {column!r}: a place is lon, lat and radius; declare {column!r} if it is an attribute"
            )
        attribute, role = _meaning(column, names, schema)
        if role != "plain" and attribute in names and (attribute in _RESERVED or attribute in heads.PLACE_COLUMNS):
            raise SchemaError(
                f"column {column!r} is for an attribute {attribute!r}, but the column of that name is the subscription's own; "
                "rename one"
            )
        known_or_learnable(attribute, column, schema)
        roles = known.setdefault(attribute, Columns(attribute)).by_role
        if ("plain" in roles and role != "weight") or (role == "plain" and set(roles) & {"lo", "hi"}):
            others = " and ".join(repr(name) for name in roles.values())
            raise SchemaError(
                f"column {column!r}: attribute {attribute!r} also has {others}; use either equality or lo/hi"
            )
        roles[role] = column
    return list(known.values())


def _meaning(column: str, names: list[str], schema: Schema) -> tuple[str, str]:
    """The attribute and the role of a column."""
    suffix = next((suffix for suffix in _ROLES if column.endswith(suffix) and len(column) > len(suffix)), None)
    if suffix is None:
        return column, "plain"
    stem = column.removesuffix(suffix)
    siblings = {stem, f"{stem}_lo", f"{stem}_hi"} & set(names)
    as_role = bool(siblings - {column}) or stem in schema if suffix != "_weight" else bool(siblings)
    if column in schema and as_role:
        raise SchemaError(
            f"column {column!r} can be the attribute of that name or the {_ROLES[suffix]} of attribute {stem!r}; rename it"
        )
    if column in schema or (suffix == "_weight" and not siblings):
        return column, "plain"
    return stem, _ROLES[suffix]


def unknown_columns(columns: list[str], names: list[str], schema: Schema) -> list[str]:
    """Those without a suffix whose attribute the schema lacks, out of a table's `names`: they may not be conditions at all."""
    return [
        column for column in columns if _meaning(column, names, schema) == (column, "plain") and column not in schema
    ]


def _equalities(columns: Columns, array: Any, schema: Schema, faults: Faults) -> Found:
    read = read_cells(columns.name, columns.by_role["plain"], array, schema, faults, register=True)
    if read is None:
        return None
    attribute, (keys, present, _) = read
    refuse_nan(columns.name, np.flatnonzero(present & (keys != keys)), faults)
    there = np.flatnonzero(present)
    return attribute, IntervalSets(there, keys[there], keys[there])


def _memberships(columns: Columns, array: Any, schema: Schema, faults: Faults) -> Found:
    name = columns.name
    owner, items = parts_of(array)
    none = np.flatnonzero(valid(array) & (np.bincount(owner, minlength=len(array)) == 0))
    faults.add_each(
        none, lambda _: NeverMatchesError(f"no event can match: attribute {name!r}: the list of values is empty")
    )
    null = np.flatnonzero(~valid(items))
    faults.add_each(owner[null], lambda _: ValueTypeError(f"attribute {name!r}: a null among the values"))
    item_faults = Faults()
    read = read_cells(name, columns.by_role["plain"], items, schema, item_faults, register=True)
    for i, error in item_faults.errors.items():
        faults.add(owner[i], error)
    if read is None:
        return None
    attribute, (keys, present, _) = read
    refuse_nan(name, owner[present & (keys != keys)], faults)
    there = keys == keys
    return attribute, canonical(owner[there], keys[there], keys[there])


def _intervals(columns: Columns, arrays: dict[str, Any], schema: Schema, faults: Faults) -> Found:
    name = columns.name
    ends: dict[str, Cells] = {}
    attribute = None
    for role in ("lo", "hi"):
        array = arrays.get(role)
        if array is None:
            continue
        check_ordered(array, columns.by_role[role], name, schema)
        read = read_cells(name, columns.by_role[role], array, schema, faults, register=True)
        if read is not None:
            attribute, ends[role] = read
            refuse_nan(name, np.flatnonzero(ends[role].present & (ends[role].keys != ends[role].keys)), faults)
    if attribute is None:
        return None
    sizes = {role: np.where(end.present, end.keys, np.inf if role == "hi" else -np.inf) for role, end in ends.items()}
    there = np.flatnonzero(np.any([end.present for end in ends.values()], axis=0))
    lo = sizes["lo"][there] if "lo" in sizes else np.full(len(there), -np.inf)
    hi = sizes["hi"][there] if "hi" in sizes else np.full(len(there), np.inf)
    empty = np.flatnonzero(lo > hi)
    faults.add_each(
        there[empty],
        lambda i: NeverMatchesError(
            f"no event can match: attribute {name!r} from {schema.shown(attribute, float(lo[empty[i]]))} "
            f"to {schema.shown(attribute, float(hi[empty[i]]))} leaves no value"
        ),
    )
    return attribute, IntervalSets(there, lo, hi)
