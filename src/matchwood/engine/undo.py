"""Changes of an engine, each whole or not at all.

A change touches the schema, the index, the covers, the expiry and the live events, one after the other. What it is about to
touch, and how that was before, is written down first (`Undo`); the change is made when that note is dropped, by one assignment.
After an exception the engine goes back to what the note says: at once, or, if a second exception prevents that, in its next call.

Rows that are removed are not copied before. A removal has happened once the store has forgotten them, and is completed then.
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

    mark: int
    """Of the schema."""
    next_id: int
    next_event: int
    ids: Int64s = NO_IDS
    rows: Rows | None = None
    """What the subscriptions `ids` were; None if they are being removed."""
    until: float | None = None
    """When the subscription, if it is one that is being replaced, was to expire."""
    event: int | None = None
    """The live event that is being added."""


class Change:
    """The block in which an engine changes. Say what is touched before touching it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Change:
        engine = self._engine
        engine._undo = Undo(engine.schema.mark(), engine._next_id, engine._live.next_id)
        return self

    def adds(self, ids: Int64s) -> None:
        """Subscriptions of these ids are added; those that are there already make the index refuse."""
        self._engine._undo = self._undo()._replace(ids=ids[~self._known(ids)], rows=NO_ROWS)

    def removes(self, ids: Int64s) -> None:
        """These subscriptions are removed; one that is not there makes the index refuse."""
        self._engine._undo = self._undo()._replace(ids=ids[self._known(ids)])

    def replaces(self, before: Rows) -> None:
        """The subscription that these rows are is replaced."""
        until = self._engine._expiry.of(int(before.ids[0]))
        self._engine._undo = self._undo()._replace(ids=before.ids[:1], rows=before, until=until)

    def keeps(self, event: int) -> None:
        """A live event of this id is added."""
        self._engine._undo = self._undo()._replace(event=event)

    def _undo(self) -> Undo:
        undo = self._engine._undo
        assert undo is not None, "a change notes what it touches inside its block"
        return undo

    def _known(self, ids: Int64s) -> NDArray[np.bool_]:
        return self._engine._index.store.knows(ids)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._engine._undo = None
            return
        with suppress(BaseException):  # the next call tries again; the first exception is the one to tell
            take_back(self._engine)


def _has_changed(undo: Undo, known: NDArray[np.bool_]) -> bool:
    """May the change have reached the index, which knows these of its ids? A refusal has changed nothing."""
    if undo.rows is None:
        return not known.all()
    return bool(known.any())


def take_back(engine: Engine) -> None:
    """Make the engine what it was before the change that was cut short. May be repeated. As an insert of what is put back, or,
    where the index was left torn, as the building of all of it."""
    undo = engine._undo
    if undo is None:
        return
    if len(undo.ids):
        if _has_changed(undo, engine._index.store.knows(undo.ids)):
            engine._covers.forget()
        engine._index.restore(undo.ids, undo.rows)
        engine._expiry.forget(undo.ids[~engine._index.store.knows(undo.ids)].tolist())
        if undo.rows is not None and undo.rows.size:
            engine._expiry.note(int(undo.ids[0]), undo.until)
        engine._expiry.reorder()
    if undo.event is not None:
        engine._live.take_back(undo.event)
    engine._next_id, engine._live.next_id = undo.next_id, undo.next_event
    engine.schema.forget_since(undo.mark)
    engine._undo = None
