"""Changes of an engine, each made completely or not at all.

A change touches the schema, the subscriptions and the live events, one after the other. Before it touches anything it writes down
what, and how that was before (`Undo`). The change is complete when this note is dropped, by one assignment. After an exception
the engine goes back to what the note says: at once, or, if a second exception prevents that, in its next call.

Rows to be removed are not copied first. A removal has happened once the store no longer has the rows, and is completed then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Float64s, Int64s, Rows, concatenate_rows
from matchwood.engine.ids import MAX_ID

if TYPE_CHECKING:
    from matchwood.engine.core import EngineCore
    from matchwood.engine.subscriptions import Beside

NO_ROWS = concatenate_rows([])


class Replaced(NamedTuple):
    """Subscriptions as they were: their rows in the index, or None if they are being removed, and what was kept beside it."""

    ids: Int64s
    rows: Rows | None
    beside: Beside | None


@dataclass(slots=True)
class Undo:
    """What a change touches, and how it was before."""

    schema_mark: int
    next_id: int
    next_event: int
    subscriptions: Replaced | None = None
    """Subscriptions that are added, removed or replaced."""
    priorities: tuple[Int64s, Float64s] | None = None
    """Subscriptions whose priorities change, and those that they had."""
    centres: tuple[Int64s, Float64s, Float64s] | None = None
    """Subscriptions whose circles move, and the centres that these had, one for each row."""
    events: Int64s | None = None
    """The live events that are being added."""


class Change:
    """The block in which an engine changes. Call the method that names a change before making it."""

    def __init__(self, engine: EngineCore) -> None:
        self._engine = engine

    def __enter__(self) -> Change:
        engine = self._engine
        engine._live.keep_settled()  # if an exception came at the very end of the last change
        engine._undo = Undo(engine.schema.mark(), engine._subscriptions.next_id, engine._live.next_id)
        return self

    def adds(self, ids: Int64s) -> None:
        """Subscriptions of these ids are added. The index refuses those that exist already: they are not to be undone."""
        is_new = int(ids.min(initial=MAX_ID)) >= self._engine._subscriptions.next_id  # then none is known
        self._note.subscriptions = Replaced(ids if is_new else ids[~self._known(ids)], NO_ROWS, None)

    def removes(self, ids: Int64s) -> None:
        """These subscriptions are removed. If the index refuses them, since one does not exist, call `removes_none`."""
        subscriptions = self._engine._subscriptions
        beside = subscriptions.beside(ids) if subscriptions.keeps_beside else None  # a removal adds nothing there
        self._note.subscriptions = Replaced(ids, None, beside)

    def removes_none(self) -> None:
        """What `removes` named has been refused: nothing has changed."""
        self._note.subscriptions = None

    def replaces(self, ids: Int64s, before: Rows) -> None:
        """These subscriptions are replaced; they have these rows in the index."""
        self._note.subscriptions = Replaced(ids, before, self._engine._subscriptions.beside(ids))

    def changes_priorities(self, ids: Int64s, before: Float64s) -> None:
        """The priorities of these subscriptions change; they were `before`."""
        self._note.priorities = ids, before

    def moves_circles(self, ids: Int64s, lon: Float64s, lat: Float64s) -> None:
        """The circles of these subscriptions move; their centres were these, one for each row."""
        self._note.centres = ids, lon, lat

    def adds_events(self, events: Int64s) -> None:
        """Live events of these ids are added."""
        self._note.events = events

    @property
    def _note(self) -> Undo:
        """What is written down of this change. Each entry is one assignment, so that none is half made."""
        undo = self._engine._undo
        assert undo is not None, "outside of the block of the change"
        return undo

    def _known(self, ids: Int64s) -> NDArray[np.bool_]:
        return self._engine._subscriptions.known(ids)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._engine._undo = None
            self._engine._live.keep_settled()
            return
        # If this fails, the next call tries again; the first exception is the one to report.
        with suppress(BaseException), self._engine._lock.write():
            undo_change(self._engine)


def undo_change(engine: EngineCore) -> None:
    """Make the engine what it was before the change that was interrupted. May be repeated."""
    undo = engine._undo
    if undo is None:
        return
    if undo.subscriptions is not None and len(undo.subscriptions.ids):
        engine._subscriptions.restore(*undo.subscriptions)
    if undo.priorities is not None:
        engine._index.set_priority(*undo.priorities)
    if undo.centres is not None:
        engine._subscriptions.restore_circles(*undo.centres)
    if undo.events is not None:
        engine._live.discard(undo.events)
    engine._live.undo_settle(undo.schema_mark)
    engine._subscriptions.next_id, engine._live.next_id = undo.next_id, undo.next_event
    engine.schema.forget_since(undo.schema_mark)
    engine._undo = None
