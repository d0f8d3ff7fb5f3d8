"""Changes of an engine, each made completely or not at all.

A change touches the schema, the subscriptions and the live events, one after the other. Before it touches anything it writes down
what, and how that was before (`Undo`). The change is complete when this note is dropped, by one assignment. After an exception
the engine goes back to what the note says: at once, or, if a second exception prevents that, in its next call.

Rows to be removed are not copied first. A removal has happened once the store no longer has the rows, and is completed then.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Int64s, Rows, concatenate_rows

if TYPE_CHECKING:
    from matchwood.engine.engine import Engine

NO_IDS: Int64s = np.zeros(0, np.int64)
NO_ROWS = concatenate_rows([])


class Undo(NamedTuple):
    """What a change touches, and how it was before."""

    schema_mark: int
    next_id: int
    next_event: int
    ids: Int64s = NO_IDS
    rows: Rows | None = None
    """The rows that the subscriptions `ids` had, with their expiry; None if they are being removed."""
    event: int | None = None
    """The live event that is being added."""


class Change:
    """The block in which an engine changes. Call `adds`, `removes`, `replaces` or `adds_event` before making that change."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Change:
        engine = self._engine
        engine._undo = Undo(engine.schema.mark(), engine._subscriptions.next_id, engine._live.next_id)
        return self

    def adds(self, ids: Int64s) -> None:
        """Subscriptions of these ids are added. The index refuses those that exist already: they are not to be undone."""
        self._note(ids=ids[~self._known(ids)], rows=NO_ROWS)

    def removes(self, ids: Int64s) -> None:
        """These subscriptions are removed. The index refuses those that do not exist."""
        self._note(ids=ids[self._known(ids)])

    def replaces(self, before: Rows) -> None:
        """The subscription that has these rows is replaced."""
        self._note(ids=before.ids[:1], rows=before)

    def adds_event(self, event: int) -> None:
        """A live event of this id is added."""
        self._note(event=event)

    def _note(self, *, ids: Int64s = NO_IDS, rows: Rows | None = None, event: int | None = None) -> None:
        undo = self._engine._undo
        assert undo is not None, "outside of the block of the change"
        self._engine._undo = undo._replace(ids=ids, rows=rows, event=event)

    def _known(self, ids: Int64s) -> NDArray[np.bool_]:
        return self._engine._index.store.knows(ids)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._engine._undo = None
            return
        with suppress(BaseException):  # the next call tries again; the first exception is the one to report
            undo_change(self._engine)


def undo_change(engine: Engine) -> None:
    """Make the engine what it was before the change that was interrupted. May be repeated."""
    undo = engine._undo
    if undo is None:
        return
    if len(undo.ids):
        engine._subscriptions.restore(undo.ids, undo.rows)
    if undo.event is not None:
        engine._live.discard(undo.event)
    engine._subscriptions.next_id, engine._live.next_id = undo.next_id, undo.next_event
    engine.schema.forget_since(undo.schema_mark)
    engine._undo = None
