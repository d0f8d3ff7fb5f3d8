"""Reclaiming strings: those that only subscriptions and live events which are gone have named.

The number of a code is never given to another string, so arrays that were encoded before keep their meaning: a code whose string
is gone equals nothing. Rows that name such a code can no longer be added (`check_codes`): they have to be encoded again.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.encode.elements import element_conditions
from matchwood.encode.named_codes import named_codes, names_forgotten
from matchwood.errors import SchemaError
from matchwood.schema import Attribute, Schema, Symbols
from matchwood.schema.functions import has_conditions, source_of

FEWEST = 4_096
"""Strings of an engine that are not worth a search."""
SHARE = 4
"""A search takes place when 1 / SHARE of the subscriptions have been removed or replaced since the last one."""


class Reclaiming:
    """Decides when to search for unused strings. Used by a writer, under the lock."""

    def __init__(self) -> None:
        self._gone = 0

    def note(self, gone: int) -> None:
        """So many subscriptions have been removed or replaced."""
        self._gone += gone

    def is_due(self, schema: Schema, subscriptions: int) -> bool:
        """Is it time for a search? O(attributes) once enough subscriptions are gone, O(1) before."""
        if not self._gone or self._gone * SHARE < subscriptions:
            return False
        return sum(len(symbols.codes) for _, symbols in dictionaries(schema)) > FEWEST

    def reclaim(self, schema: Schema, rows: list[Rows], events: Events) -> None:
        """Forget the strings that neither these rows nor these events name. O(entries + strings)."""
        for attribute, symbols in _in_order(schema):
            codes = np.fromiter(symbols.codes.values(), np.int64, len(symbols.codes))
            named = np.isin(codes, events.lo[events.dims == attribute.dims[0]])
            for part in rows:
                named |= named_codes(part, attribute.dims[0], codes)
            symbols.forget(codes[~named].tolist())
            if has_conditions(attribute.name):  # what is left of them names strings in elements
                asked = element_conditions(schema, schema.find(source_of(attribute.name)))
                rows = rows if asked is None else [*rows, asked[1].rows()]
        self._gone = 0


def _in_order(schema: Schema) -> list[tuple[Attribute, Symbols]]:
    """The dictionaries, first those of conditions on elements, the outer ones before those that they name."""
    return sorted(dictionaries(schema), key=lambda pair: (not has_conditions(pair[0].name), pair[0].name.count("[]")))


def dictionaries(schema: Schema) -> list[tuple[Attribute, Symbols]]:
    """The attributes whose values are codes, each with its dictionary."""
    return [(attribute, attribute.symbols) for attribute in schema if attribute.symbols is not None]


def check_codes(rows: Rows, schema: Schema) -> None:
    """Refuse rows that name a string which the schema has forgotten since they were encoded. O(1) if it has forgotten none."""
    incomplete = [pair for pair in dictionaries(schema) if len(pair[1]) > len(pair[1].codes)]
    used = set(np.unique(rows.dims).tolist()) if incomplete else ()
    for attribute, symbols in incomplete:
        if attribute.dims[0] in used and names_forgotten(rows, attribute.dims[0], symbols):
            raise SchemaError(
                f"attribute {attribute.name!r}: the rows name a string that the engine has forgotten, since no other "
                "subscription named it; encode them again with engine.schema"
            )
