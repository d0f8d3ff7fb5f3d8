"""Structures that survive an exception in the middle of a change.

A structure is a store of exact rows or events and arrays over its slots. Each change of the store is one call of a kernel or one
assignment, so that the store is consistent whenever Python may raise: on Ctrl-C, when memory runs out, at a time limit. A change
of the arrays takes several steps. They are marked while they change (`_changing`), and a structure that is still marked when it
is called again is rebuilt from its store (`repair`).

This does not undo a change: after an exception the store may hold a part of it. The engine knows what it was about to change and
restores that (`engine.undo`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from threading import RLock
from types import TracebackType
from typing import Self

_repairing = RLock()


class Repairable(ABC):
    """A structure that can be rebuilt from its store."""

    _whole = True
    """False while the structure changes, and afterwards if an exception interrupted the change."""

    @abstractmethod
    def _rebuilt(self) -> Self:
        """A structure like this one, over the same store, built from what the store holds."""

    @property
    def whole(self) -> bool:
        """Is nothing left to `repair`? Otherwise the next call repairs the structure, which may change its store too: that call
        must be the only one, even if it only reads."""
        return self._whole

    def repair(self) -> None:
        """Rebuild the structure if a change was interrupted. O(1) if not."""
        if not self._whole:
            with _repairing:  # of several threads that find it damaged, one repairs it
                if not self._whole:
                    self.__dict__ = self._rebuilt().__dict__  # one assignment: either repaired, or still marked

    def _changing(self) -> Changing:
        """Mark the structure until the block ends; checks that may refuse a change come before it."""
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


def _forget_lock() -> None:
    """In a forked process, where the thread that held the lock does not exist."""
    global _repairing
    _repairing = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
