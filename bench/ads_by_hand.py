"""What a user writes in an afternoon instead of installing a library: two inverted indexes of campaigns over bitmaps.

Both number the campaigns by descending score, so that the first set bits of an answer are the best. For each value of an
attribute there is the set of campaigns that accept it: those that name it and those that name none. An event intersects one set
for each attribute. Ranges are over a few whole numbers, so they are sets by value as well.

They hold a fixed set of campaigns: a new bid or campaign means a new order, so the index is built again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.ads import CHOICES, SPANS, Campaigns
from matchwood.encode.arrays import Int64s

Words = NDArray[np.uint64]


class ByHand(Protocol):
    """An index of campaigns."""

    name: str

    def match(self, event: dict[str, Any]) -> Int64s:
        """The campaigns that match, best first."""

    def top_k(self, event: dict[str, Any], k: int) -> Int64s:
        """The k best."""

    @property
    def nbytes(self) -> int:
        """The size of the sets."""


def accepted(campaigns: Campaigns) -> tuple[Int64s, Iterator[tuple[str, object, NDArray[np.bool_]]]]:
    """The campaigns by descending score, then id; and for each value of each attribute which of them (in this order) accept it.

    The value None stands for all that no campaign names.
    """
    order = np.lexsort((np.arange(campaigns.size), -(campaigns.bid + campaigns.predicates)))

    def sets() -> Iterator[tuple[str, object, NDArray[np.bool_]]]:
        for name, (offsets, codes) in campaigns.chosen.items():
            free = np.diff(offsets) == 0
            yield name, None, free[order]
            owner = np.repeat(np.arange(campaigns.size), np.diff(offsets))
            by_code = np.argsort(codes, kind="stable")
            ends = np.searchsorted(codes[by_code], np.arange(CHOICES[name].values + 1))
            for code in range(CHOICES[name].values):
                named = free.copy()
                named[owner[by_code[ends[code] : ends[code + 1]]]] = True
                yield name, f"{name}-{code}", named[order]
        for name, span in SPANS.items():
            for value in range(span.end):
                yield name, value, ((campaigns.lo[name] <= value) & (value <= campaigns.hi[name]))[order]

    return order, sets()


class NumpyBitsets:
    """A bitset of NumPy words for each value; an answer is the AND of one for each attribute."""

    name = "NumPy bitsets"
    FIRST_WORDS = 1024

    def __init__(self, campaigns: Campaigns) -> None:
        self._order, sets = accepted(campaigns)
        self._size = campaigns.size
        self._words = -(-campaigns.size // 64)
        self._sets: dict[str, dict[object, Words]] = {}
        for name, value, mask in sets:
            padded = np.zeros(self._words * 64, np.bool_)
            padded[: campaigns.size] = mask
            self._sets.setdefault(name, {})[value] = np.packbits(padded, bitorder="little").view(np.uint64)

    @property
    def nbytes(self) -> int:
        """The size of the bitsets."""
        return sum(words.nbytes for by_value in self._sets.values() for words in by_value.values())

    def match(self, event: dict[str, Any]) -> Int64s:
        """The campaigns that match, best first."""
        return self._order[self._ranks(self._sets_of(event), 0, self._words)]

    def top_k(self, event: dict[str, Any], k: int) -> Int64s:
        """The k best: the words of the best campaigns first, as many as are needed."""
        sets, found = self._sets_of(event), []
        start, step, count = 0, self.FIRST_WORDS, 0
        while start < self._words and count < k:
            ranks = self._ranks(sets, start, min(start + step, self._words))
            found.append(ranks)
            start, step, count = start + step, step * 4, count + len(ranks)
        return self._order[np.concatenate(found)[:k]]

    def _sets_of(self, event: dict[str, Any]) -> list[Words]:
        return [by_value.get(event[name], by_value.get(None)) for name, by_value in self._sets.items()]  # type: ignore[misc]

    def _ranks(self, sets: list[Words], start: int, stop: int) -> Int64s:
        """The set bits of the AND of words start:stop. Words that are zero are not unpacked."""
        common = sets[0][start:stop] & sets[1][start:stop]
        for words in sets[2:]:
            np.bitwise_and(common, words[start:stop], out=common)
        at = np.flatnonzero(common)
        bits = np.flatnonzero(np.unpackbits(common[at].view(np.uint8), bitorder="little"))
        return np.asarray((at[bits >> 6] + start) * 64 + (bits & 63))


class RoaringSets:
    """A Roaring bitmap for each value; an answer is their intersection, smallest first."""

    name = "pyroaring"

    def __init__(self, campaigns: Campaigns) -> None:
        from pyroaring import BitMap

        self._order, sets = accepted(campaigns)
        self._sets: dict[str, dict[object, Any]] = {}
        for name, value, mask in sets:
            bitmap = BitMap(array("I", np.flatnonzero(mask).astype(np.uint32).tobytes()))
            bitmap.run_optimize()
            self._sets.setdefault(name, {})[value] = bitmap
        self._sizes = {name: {v: len(bitmap) for v, bitmap in found.items()} for name, found in self._sets.items()}

    @property
    def nbytes(self) -> int:
        """The size of the bitmaps."""
        sizes = (bitmap.get_statistics() for by_value in self._sets.values() for bitmap in by_value.values())
        parts = ("n_bytes_array_containers", "n_bytes_run_containers", "n_bytes_bitset_containers")
        return sum(int(found[part]) for found in sizes for part in parts)

    def match(self, event: dict[str, Any]) -> Int64s:
        """The campaigns that match, best first."""
        return self._order[np.array(self._common(event), np.int64)]

    def top_k(self, event: dict[str, Any], k: int) -> Int64s:
        """The k best."""
        return self._order[np.array(self._common(event)[:k], np.int64)]

    def _common(self, event: dict[str, Any]) -> Any:
        chosen = []
        for name, by_value in self._sets.items():
            value = event[name] if event[name] in by_value else None
            chosen.append((self._sizes[name][value], by_value[value]))
        return reduce(lambda a, b: a & b, (bitmap for _, bitmap in sorted(chosen, key=lambda item: item[0])))
