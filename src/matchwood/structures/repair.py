"""Structures that survive an exception in the middle of a change.

A structure is a store of exact rows or events and arrays over its slots. The store changes by one call of a kernel, or by one
assignment, at a time, so that it is whole whenever Python may raise: on Ctrl-C, when memory runs out, at a time limit. The
arrays over it take several steps. So they are marked while they change (`_changing`), and a structure that a call finds still
marked is built anew from its store (`repair`).

What this does not do is to take a change back: after an exception the store may hold a part of what was given. The engine knows
what it was about to change, and restores that (`engine.undo`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Repairable(ABC):
    """A structure that can be built anew from its store."""

    _whole = True
    """False while the structure changes, and afterwards if an exception cut the change short."""

    @abstractmethod
    def _rebuilt(self) -> Self:
        """A structure like this one, over the same store, built from what the store holds."""

    def repair(self) -> None:
        """Build the structure anew if a change was cut short. O(1) if not, else as the building of all that is there."""
        if not self._whole:
            self.__dict__ = self._rebuilt().__dict__  # one assignment: it is repaired, or still marked

    def _changing(self) -> Changing:
        """Mark the structure until the block ends; checks that may refuse a change come before."""
        return Changing(self)


class Changing:
    """The block in which a structure changes; blocks may be nested."""

    __slots__ = ("_outermost", "_structure")

    def __init__(self, structure: Repairable) -> None:
        self._structure = structure
        self._outermost = structure._whole

    def __enter__(self) -> None:
        self._structure._whole = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._outermost:
            self._structure._whole = True
