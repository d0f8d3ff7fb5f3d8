"""What a user writes instead of installing a library: inverted indexes over Roaring bitmaps, NumPy bitsets, and DuckDB tables.

`bench.inverted` says which row names which value. An answer is, for each group, the rows that name a value of the event or are
free of the group, intersected over all groups, without those that exclude a value. Rows are numbered by rank, so the first of an
answer are the best. Ranges that cells do not decide are tested at the end, with NumPy.

They hold a fixed set of rows: a new priority means a new order, so the index is built again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bench.inverted import Inverted
from matchwood.encode.arrays import Events, Int64s
from matchwood.schema import Schema

Words = NDArray[np.uint64]
Event = Mapping[str, Any]
MAX_ACCEPTED = 1024
"""Values of an attribute for which the union with the free rows is kept."""


class _Asked:
    """What rows ask of one attribute, by its value."""

    __slots__ = ("absent", "accepted", "cuts", "excluded", "group", "named")

    def __init__(self) -> None:
        self.cuts: list[float] | None = None
        self.named: dict[object, list[tuple[int, Any]]] = {}
        self.group: int | None = None
        """That has this attribute alone, if it has few values."""
        self.accepted: dict[object, Any] = {}
        """The same sets and the free rows of that group."""
        self.excluded: dict[object, Any] = {}
        self.absent: Any = None


class ByHand(ABC):
    """An inverted index over sets of ranks; subclasses say what a set is."""

    name: ClassVar[str]

    def __init__(self, rows: Inverted, schema: Schema) -> None:
        self._rows = rows
        self._attributes: dict[str, _Asked] = {}
        self._names = {attribute.dims[0]: attribute for attribute in schema}
        self._ranged = [self._names[dim].name for dim in rows.ranged]
        everything = np.arange(rows.size)
        self._free = [self._set(everything[rows.needs >> group & 1 == 0]) for group in range(rows.groups)]
        self._read_named()
        for (dim, key), ranks in _runs(*rows.excluded):
            self._asked(dim).excluded[self._value(dim, key)] = self._set(ranks)
        self._outside = {self._names[dim].name: self._set(ranks) for (dim,), ranks in _runs(*rows.outside)}
        for (dim,), ranks in _runs(*rows.absent):
            self._asked(dim).absent = self._set(ranks)

    @abstractmethod
    def _set(self, ranks: Int64s) -> Any:
        """A set of these ascending ranks."""

    @abstractmethod
    def _united(self, sets: list[Any]) -> Any:
        """The union of one or more sets; none of them may be changed."""

    @abstractmethod
    def _ranks(self, wanted: list[Any], unwanted: list[Any], k: int | None) -> Int64s:
        """The (first k) ranks that all wanted sets have and no unwanted one, ascending."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size of the sets."""

    def match(self, event: Event) -> Int64s:
        """The subscriptions that match, best first."""
        return self._rows.ids[self._checked(event, None)]

    def top_k(self, event: Event, k: int) -> Int64s:
        """The k best."""
        return self._rows.ids[self._checked(event, k)]

    def _checked(self, event: Event, k: int | None) -> Int64s:
        ranges = self._rows.ranges
        wanted, unwanted = self._chosen(event)
        if ranges is None:
            return self._ranks(wanted, unwanted, k)
        found = self._ranks(wanted, unwanted, None)
        keys = np.array([event.get(name, np.nan) for name in self._ranged])
        lo, hi = ranges[0][found], ranges[1][found]
        return found[~((keys < lo) | (hi < keys)).any(axis=1)][:k]

    def _chosen(self, event: Event) -> tuple[list[Any], list[Any]]:
        """The sets of rows that must have an answer, and those that must not."""
        named: list[list[Any]] = [[] for _ in self._free]
        wanted: list[Any] = []
        done = set()
        unwanted = [ranks for name, ranks in self._outside.items() if name not in event]
        for name, given in event.items():
            asked = self._attributes.get(name)
            if asked is None:
                continue
            if asked.absent is not None:
                unwanted.append(asked.absent)
            if type(given) is list:
                values = given
            else:
                values = (given,) if asked.cuts is None else (bisect_right(asked.cuts, given),)
                excluded = asked.excluded.get(given)
                if excluded is not None:
                    unwanted.append(excluded)
                if asked.group is not None:
                    done.add(asked.group)
                    wanted.append(asked.accepted.get(values[0], self._free[asked.group]))
                    continue
            for value in values:
                for group, ranks in asked.named.get(value, ()):
                    named[group].append(ranks)
        for group, sets in enumerate(named):
            if group not in done:
                wanted.append(self._united([self._free[group], *sets]))
        return wanted, unwanted

    def _asked(self, dim: int) -> _Asked:
        return self._attributes.setdefault(self._names[dim].name, _Asked())

    def _value(self, dim: int, key: float) -> object:
        """A key as it is in mappings."""
        symbols = self._names[dim].symbols
        return key if symbols is None else symbols.text(int(key))

    def _read_named(self) -> None:
        groups, dims, keys, ranks = self._rows.named
        pairs = np.unique(groups + 1j * dims)
        alone = {int(pair.imag): int(pair.real) for pair in pairs if (pairs.real == pair.real).sum() == 1}
        counts = dict(zip(*(part.tolist() for part in np.unique(dims, return_counts=True)), strict=True))
        for (dim, group, key), found in _runs(dims, groups, keys, ranks):
            asked = self._asked(dim)
            if dim in self._rows.cuts:
                asked.cuts, value = self._rows.cuts[dim].tolist(), int(key)
            else:
                value = self._value(dim, key)
            asked.named.setdefault(value, []).append((group, self._set(found)))
            if dim in alone and counts[dim] > self._rows.size // 4:
                asked.group = alone[dim]
        for asked in self._attributes.values():
            if asked.group is not None and len(asked.named) <= MAX_ACCEPTED:
                for value, ((group, ranks_of),) in asked.named.items():
                    asked.accepted[value] = self._united([ranks_of, self._free[group]])
            else:
                asked.group = None


def _runs(*columns: Any) -> Iterator[tuple[tuple[Any, ...], Int64s]]:
    """The last column, ascending, for each combination of the others."""
    order = np.lexsort(columns[::-1])
    *keys, last = (column[order] for column in columns)
    if not len(last):
        return
    changes = np.any([np.diff(key) != 0 for key in keys], axis=0)
    begins = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(last)]])
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        yield tuple(key[begin].item() for key in keys), last[begin:end]


class RoaringSets(ByHand):
    """Roaring bitmaps; unions of many at once, intersections smallest first."""

    name = "pyroaring"

    def __init__(self, rows: Inverted, schema: Schema) -> None:
        from pyroaring import BitMap

        self._kind: Any = BitMap
        self._all: list[Any] = []
        super().__init__(rows, schema)

    def _set(self, ranks: Int64s) -> Any:
        made = self._kind(memoryview(np.ascontiguousarray(ranks, np.uint32)))
        made.run_optimize()
        self._all.append(made)
        return made

    def _united(self, sets: list[Any]) -> Any:
        return sets[0] if len(sets) == 1 else self._kind.union(*sets)

    def _ranks(self, wanted: list[Any], unwanted: list[Any], k: int | None) -> Int64s:
        wanted.sort(key=len)
        common = wanted[0] & wanted[1] if len(wanted) > 1 else wanted[0].copy()
        for found in wanted[2:]:
            common &= found
        for found in unwanted:
            common -= found
        return np.array(common if k is None else common[:k], np.int64)

    @property
    def nbytes(self) -> int:
        """The size of the bitmaps."""
        parts = ("n_bytes_array_containers", "n_bytes_run_containers", "n_bytes_bitset_containers")
        return sum(int(found.get_statistics()[part]) for found in self._all for part in parts)


class NumpyBitsets(ByHand):
    """Bitsets of NumPy words for values that many rows name, ranks for the others.

    The k best are looked for in the words of the best rows first, as many as are needed.
    """

    name = "NumPy bitsets"
    SPARSE = 512
    FIRST_WORDS = 128

    def __init__(self, rows: Inverted, schema: Schema) -> None:
        self._words = -(-rows.size // 64)
        self._size = 0
        super().__init__(rows, schema)

    def _set(self, ranks: Int64s) -> Any:
        made = ranks.astype(np.int64) if len(ranks) * self.SPARSE < self._rows.size else self._bits(ranks)
        self._size += made.nbytes
        return made

    def _bits(self, ranks: Int64s) -> Words:
        member = np.zeros(self._words * 64, np.bool_)
        member[ranks] = True
        return np.packbits(member, bitorder="little").view(np.uint64)

    def _united(self, sets: list[Any]) -> Words:
        dense = [found for found in sets if found.dtype == np.uint64]
        sparse = [found for found in sets if found.dtype != np.uint64]
        if sparse:
            dense.append(self._bits(np.concatenate(sparse)))
        if len(dense) == 1:
            return dense[0]
        words: Words = dense[0] | dense[1]
        for found in dense[2:]:
            np.bitwise_or(words, found, out=words)
        return words

    def _ranks(self, wanted: list[Any], unwanted: list[Any], k: int | None) -> Int64s:
        wanted = [self._united([found]) for found in wanted]
        unwanted = [self._united([found]) for found in unwanted]
        found: list[Int64s] = []
        start, step, count = 0, self._words if k is None else self.FIRST_WORDS, 0
        while start < self._words and (k is None or count < k):
            found.append(self._common(wanted, unwanted, start, min(start + step, self._words)))
            start, step, count = start + step, step * 4, count + len(found[-1])
        return np.concatenate(found)[:k]

    def _common(self, wanted: list[Words], unwanted: list[Words], start: int, stop: int) -> Int64s:
        common = wanted[0][start:stop].copy()
        for words in wanted[1:]:
            np.bitwise_and(common, words[start:stop], out=common)
        for words in unwanted:
            np.bitwise_and(common, ~words[start:stop], out=common)
        at = np.flatnonzero(common)
        bits = np.flatnonzero(np.unpackbits(common[at].view(np.uint8), bitorder="little"))
        return np.asarray((at[bits >> 6] + start) * 64 + (bits & 63))

    @property
    def nbytes(self) -> int:
        """The size of the bitsets."""
        return self._size


class DuckTables:
    """The inverted file as tables of DuckDB; a batch of events is one query: join, group by event and row, compare the groups."""

    name = "DuckDB"

    def __init__(self, rows: Inverted) -> None:
        import duckdb

        if (rows.needs == 0).any():
            raise SystemExit("the tables by hand take rows that name a value")
        self._database: Any = duckdb.connect()
        self._rows = rows
        self._table("named", ("grp", "dim", "key", "rank"), rows.named)
        self._table("needs", ("rank", "mask"), (np.arange(rows.size), rows.needs))
        self._table("excluded", ("dim", "key", "rank"), rows.excluded)
        self._table("outside", ("dim", "rank"), rows.outside)
        self._table("absent", ("dim", "rank"), rows.absent)

    def match_many(self, events: Events) -> tuple[Int64s, Int64s]:
        """(event, id) of every match, by event, best first."""
        self._table("keys", ("event", "dim", "key", "alone"), self._keys(events))
        found = self._database.execute(_MATCH).fetchnumpy()
        event, rank = found["event"], found["rank"]
        if self._rows.ranges is not None:
            keys = np.full((events.size, len(self._rows.ranged)), np.nan)
            for column, dim in enumerate(self._rows.ranged):
                here = np.flatnonzero(events.dims == dim)
                keys[np.searchsorted(events.offsets, here, "right") - 1, column] = events.lo[here]
            lo, hi = self._rows.ranges[0][rank], self._rows.ranges[1][rank]
            holds = ~((keys[event] < lo) | (hi < keys[event])).any(axis=1)
            event, rank = event[holds], rank[holds]
        return event, self._rows.ids[rank]

    def _table(self, name: str, columns: Sequence[str], values: Sequence[NDArray[Any]]) -> None:
        self._database.register("incoming", dict(zip(columns, values, strict=True)))
        self._database.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming")

    def _keys(self, events: Events) -> tuple[NDArray[Any], ...]:
        event = np.repeat(np.arange(events.size), np.diff(events.offsets))
        dims, keys = events.dims.astype(np.int64), events.lo.copy()
        for dim, cuts in self._rows.cuts.items():
            here = dims == dim
            keys[here] = np.searchsorted(cuts, keys[here], "right")
        starts = np.flatnonzero((np.diff(event, prepend=-1) != 0) | (np.diff(dims, prepend=-1) != 0))
        counts = np.diff(np.append(starts, len(dims)))
        return event, dims, keys, np.repeat(counts, counts) == 1


_MATCH = """
WITH met AS (
    SELECT event, rank, bit_or(1 << grp) AS groups FROM keys JOIN named USING (dim, key) GROUP BY event, rank
)
SELECT event, rank FROM met JOIN needs USING (rank)
WHERE groups = mask
AND NOT EXISTS (FROM excluded x JOIN keys USING (dim, key) WHERE alone AND x.rank = met.rank AND keys.event = met.event)
AND NOT EXISTS (FROM absent a JOIN keys USING (dim) WHERE a.rank = met.rank AND keys.event = met.event)
AND NOT EXISTS (
    FROM outside o WHERE o.rank = met.rank
    AND NOT EXISTS (FROM keys WHERE keys.event = met.event AND keys.dim = o.dim)
)
ORDER BY event, rank
"""

Answer = Callable[[Event], Int64s]
