"""Limits: how large the expression of one subscription may be, so that a text from a stranger costs a bounded time."""

from __future__ import annotations

from dataclasses import dataclass

from matchwood.errors import TooComplexError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one subscription may take. Raise a limit for those who are trusted: `Limits(max_rows=10_000)`.

    >>> Limits(max_rows=2).check_rows(3)
    Traceback (most recent call last):
    ...
    matchwood.errors.TooComplexError: the normal form has 3 rows, the limit is 2 (max_rows); split the subscription ...
    """

    max_rows: int = 1_000
    """Alternatives of the normal form."""
    max_entries: int = 100_000
    """Intervals and other entries of all rows together, so also alternatives x predicates. An IN of n values takes up to n."""
    max_length: int = 1_000_000
    """Characters of a text."""
    max_vertices: int = 10_000
    """Positions of one geometry."""

    def check_length(self, length: int) -> None:
        """Refuse a text of so many characters."""
        if length > self.max_length:
            raise TooComplexError(
                f"the text has {length:,} characters, the limit is {self.max_length:,} (max_length); "
                "split the subscription or raise the limit"
            )

    def check_vertices(self, vertices: int) -> None:
        """Refuse a geometry of so many positions."""
        if vertices > self.max_vertices:
            raise TooComplexError(
                f"a geometry has {vertices:,} positions, the limit is {self.max_vertices:,} (max_vertices); "
                "simplify it, split it or raise the limit"
            )

    def check_rows(self, rows: int) -> None:
        """Refuse a normal form of so many rows."""
        if rows > self.max_rows:
            count = str(rows) if rows < 10**15 else "more than 10^15"
            raise TooComplexError(
                f"the normal form has {count} rows, the limit is {self.max_rows} (max_rows); "
                "split the subscription or raise the limit"
            )

    def check_entries(self, entries: int) -> None:
        """Refuse a normal form of so many entries."""
        if entries > self.max_entries:
            raise TooComplexError(
                f"the normal form has {entries:,} values and conditions, the limit is {self.max_entries:,} (max_entries); "
                "split the subscription or raise the limit"
            )

    def check_work(self, work: int) -> None:
        """Refuse an expression whose normal form, however small, takes so many entries on the way."""
        if work > WORK_PER_ENTRY * self.max_entries:
            raise TooComplexError(
                f"multiplying out the alternatives takes more than {WORK_PER_ENTRY * self.max_entries:,} steps, "
                f"{WORK_PER_ENTRY} times the limit of entries (max_entries); split the subscription or raise the limit"
            )


WORK_PER_ENTRY = 5
DEFAULT_LIMITS = Limits()
