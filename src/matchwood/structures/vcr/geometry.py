"""The definitions of VCR (the paper, section 2) in plain Python: the judge of the kernels, and what `VCR.check` walks with.

A virtual construct rectangle (x, y, 2^i, 2^j) has its bottom-left corner at (x, y); i <= log L_x, j <= log L_y. The paper's grid
is one of points and its rectangles are closed, so that neighbours share a line; ours is one of cells and they are half-open, so
that they share nothing: `covering(..., closed=True)` is the paper's Cov(a, b), `closed=False` is what the index uses.

    closed     2 L_x + k_x widths and places hold a point     simple decomposition reports a point on a shared line twice
    half-open  2 L_x - 1                                      simple decomposition reports every point once
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Rectangle(NamedTuple):
    """(x, y, width, height): a predicate's rectangle, or a virtual construct rectangle."""

    x: int
    y: int
    width: int
    height: int


class Constructs(NamedTuple):
    """All virtual construct rectangles of a grid that is `pitch` (R_x) wide, with maximal sides L_x, L_y (powers of two).

    >>> Constructs(16, 4, 4).id(Rectangle(0, 0, 4, 4))
    8
    """

    pitch: int
    side_x: int
    side_y: int

    @property
    def powers(self) -> tuple[int, int]:
        """(k_x, k_y): the logarithms of the maximal sides."""
        return self.side_x.bit_length() - 1, self.side_y.bit_length() - 1

    @property
    def per_corner(self) -> int:
        """B: how many rectangles share a bottom-left corner."""
        k_x, k_y = self.powers
        return (k_x + 1) * (k_y + 1)

    def id(self, rectangle: Rectangle) -> int:
        """Equation 1."""
        k_x, _ = self.powers
        i, j = rectangle.width.bit_length() - 1, rectangle.height.bit_length() - 1
        return self.per_corner * (rectangle.x + rectangle.y * self.pitch) + j * (k_x + 1) + i

    def covering(self, a: int, b: int, *, closed: bool) -> list[Rectangle]:
        """Every rectangle that holds the point (closed) or the cell (half-open) (a, b), by ascending id; no border is heeded."""
        found = []
        for y, height in _holding(b, self.side_y, closed):
            found += [Rectangle(x, y, width, height) for x, width in _holding(a, self.side_x, closed)]
        return sorted(found, key=self.id)

    def distances(self, *, closed: bool) -> list[int]:
        """The distance table: ids of a covering set less the id of its pivot, which is the same for all (Theorem 2).

        The pivot is the unit rectangle at the smallest corner of the set: (a - L_x, b - L_y) closed, one further half-open.
        """
        a, b = self.side_x, self.side_y  # any point will do
        inward = 0 if closed else 1
        pivot = self.id(Rectangle(a - self.side_x + inward, b - self.side_y + inward, 1, 1))
        return [self.id(rectangle) - pivot for rectangle in self.covering(a, b, closed=closed)]

    def simple(self, rectangle: Rectangle) -> list[Rectangle]:
        """SD (Figure 2): strips from the bottom up, each cut from the left with the largest that fits.

        >>> len(Constructs(16, 4, 4).simple(Rectangle(3, 3, 11, 6)))
        8
        """
        return self._decomposed(rectangle, _simple)

    def overlapped(self, rectangle: Rectangle) -> list[Rectangle]:
        """OD (section 2.2.2): one size only; the last of a strip, and the last strip, are shifted back to fit.

        >>> len(Constructs(16, 4, 4).overlapped(Rectangle(3, 3, 11, 6)))
        6
        """
        return self._decomposed(rectangle, _overlapped)

    def _decomposed(
        self, whole: Rectangle, cut: Callable[[int, int, int], Iterator[tuple[int, int]]]
    ) -> list[Rectangle]:
        return [
            Rectangle(x, y, width, height)
            for y, height in cut(whole.y, whole.height, self.side_y)
            for x, width in cut(whole.x, whole.width, self.side_x)
        ]


def _holding(at: int, longest: int, closed: bool) -> list[tuple[int, int]]:
    """(start, length) of every construct interval that holds `at`."""
    found = []
    length = 1
    while length <= longest:
        found += [(start, length) for start in range(at - length + (0 if closed else 1), at + 1)]
        length *= 2
    return found


def _simple(start: int, length: int, longest: int) -> Iterator[tuple[int, int]]:
    while length > 0:
        part = min(longest, 1 << (length.bit_length() - 1))
        yield start, part
        start, length = start + part, length - part


def _overlapped(start: int, length: int, longest: int) -> Iterator[tuple[int, int]]:
    part = min(longest, 1 << (length.bit_length() - 1))
    for at in range(start, start + length, part):
        yield min(at, start + length - part), part
