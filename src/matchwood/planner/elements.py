"""Conditions on elements in an index: each is a subscription, and each element an event (`encode.elements`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.encode.elements import MATCHERS, Element, condition_rows
from matchwood.encode.events import EventReader
from matchwood.lang.bad_values import BadValues
from matchwood.lang.row import Row
from matchwood.planner.compiling import is_available
from matchwood.planner.preparing import PREPARING, SCAN
from matchwood.planner.rules import RULES
from matchwood.schema import Schema
from matchwood.schema.functions import element_prefix
from matchwood.structures import Index, make_index

LARGE = "mo-tree"
"""The structure for as many conditions as are worth one: it filters conditions of all kinds."""

FEWEST = RULES.min_rows
"""Rows that are worth a structure."""
GROWTH = 4.0
"""The structure, which divides attributes by the rows it is made from, is made again for so many times more."""


class ElementIndex:
    """A `Matcher`: a scan of few conditions, the `LARGE` structure of many, once that is compiled."""

    def __init__(self, schema: Schema, source: str) -> None:
        self._schema, self._prefix = schema, element_prefix(source)
        self._index: Index = make_index(SCAN)
        self._built_for = 0
        """Rows for which the structure was made."""

    def add(self, conditions: Mapping[int, tuple[Row, ...]]) -> None:
        """See `Matcher`."""
        self._index.insert(condition_rows(conditions, self._schema))
        self._grow(len(self._index))

    def remove(self, codes: Sequence[int]) -> None:
        """See `Matcher`."""
        self._index.delete(np.array(codes, np.int64))

    def rows(self) -> Rows:
        """See `Matcher`."""
        return self._index.store.extract_all()

    def restore(self, rows: Rows) -> bool:
        """See `Matcher`."""
        self._index.insert(rows)
        self._grow(rows.size)
        return True

    def read(self, elements: Sequence[Element], bad: BadValues | None, *, register: bool = False) -> Events:
        """See `Matcher`."""
        reader = EventReader(self._schema, register=register, bad=bad, prefix=self._prefix)
        for element in elements:
            reader.add(element)
        return reader.build()

    def match(self, read: Events) -> tuple[Int64s, Int64s]:
        """See `Matcher`."""
        self._grow(len(self._index))
        found = self._index.match(read)
        at: Int64s = np.repeat(np.arange(read.size), np.diff(found.offsets))
        return at, found.ids

    def _grow(self, rows: int) -> None:
        """Use the `LARGE` structure if there are so many rows, as soon as it is compiled; make it anew as they grow."""
        if rows < FEWEST or rows < GROWTH * self._built_for:
            return
        if not is_available(LARGE):
            PREPARING.want(LARGE)
            return
        large = make_index(LARGE)
        large.insert(self._index.store.extract_all())
        self._index, self._built_for = large, rows


MATCHERS.append(ElementIndex)
