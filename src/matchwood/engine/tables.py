"""The tables of what is there now (`journal`), changed in the transaction of the records that change it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from matchwood.engine.records import (
    Kept,
    Moved,
    Paused,
    Record,
    Resumed,
    Retracted,
    Subscribed,
    Unsubscribed,
    Updated,
)

if TYPE_CHECKING:
    from matchwood.engine.engine import Engine


class Stored(msgspec.Struct, omit_defaults=True):
    """The body of a row of the table `subscriptions`."""

    record: Subscribed
    paused: bool = False


_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(Stored).decode
_ADD = "INSERT OR REPLACE INTO subscriptions(id, body, revision, until) VALUES(?, ?, ?, ?)"
_CHANGE = "UPDATE subscriptions SET body = ?, revision = ?, until = ? WHERE id = ?"


def note(connection: Any, first: int, records: Sequence[Record]) -> None:
    """Change the tables as the records say, the first of which has the number `first`."""
    added: list[tuple[Any, ...]] = []
    for seq, record in enumerate(records, first):
        if isinstance(record, Subscribed):
            added.append((str(record.id), _ENCODE(Stored(record)).decode(), seq, record.until))
            continue
        if added:
            connection.executemany(_ADD, added)
            added = []
        _note_other(connection, seq, record)
    if added:
        connection.executemany(_ADD, added)


def _note_other(connection: Any, seq: int, record: Record) -> None:
    if isinstance(record, Updated | Moved | Paused | Resumed):
        stored = stored_subscription(connection, record.id)
        if stored is not None:
            _merge(stored, record)
            body = _ENCODE(stored).decode()
            connection.execute(_CHANGE, (body, seq, stored.record.until, str(record.id)))
    elif isinstance(record, Unsubscribed):
        connection.execute("DELETE FROM subscriptions WHERE id = ?", (str(record.id),))
    elif isinstance(record, Kept):
        row = (record.number, record.until, _ENCODE(record).decode())
        connection.execute("INSERT OR REPLACE INTO live VALUES(?, ?, ?)", row)
    elif isinstance(record, Retracted):
        connection.execute("DELETE FROM live WHERE number = ?", (record.number,))


def stored_subscription(connection: Any, id_: int | str) -> Stored | None:
    """The subscription of an id as it is stored."""
    found = connection.execute("SELECT body FROM subscriptions WHERE id = ?", (str(id_),)).get
    return None if found is None else _DECODE(found)


def _merge(stored: Stored, record: Updated | Moved | Paused | Resumed) -> None:
    kept = stored.record
    if isinstance(record, Paused | Resumed):
        stored.paused = isinstance(record, Paused)
    elif isinstance(record, Moved):
        if kept.place is not None:
            kept.place = record.place
        else:
            kept.expression = record.expression
    else:
        if record.expression is not msgspec.UNSET:  # place and radius are part of it
            kept.expression, kept.place, kept.radius = record.expression, record.place, record.radius
        for name in ("priority", "until", "metadata", "about"):
            value = getattr(record, name)
            if value is not msgspec.UNSET:
                setattr(kept, name, value)


def note_state(connection: Any, state: dict[str, int], schema: dict[str, Any] | None) -> None:
    """Note the time and the next numbers, and, if they have changed, the types of the attributes."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES('state', ?)", (json.dumps(state),))
    if schema is not None:
        connection.execute("INSERT OR REPLACE INTO meta VALUES('schema', ?)", (json.dumps(schema),))


def state_of(engine: Engine, time: int) -> dict[str, int]:
    """The time and the next numbers of an engine."""
    return {"time": time, "next_id": engine._subscriptions.next_id, "next_event": engine._live.next_id}


def schema_of(engine: Engine) -> dict[str, Any]:
    """The types of the attributes, by the order in which they were learnt."""
    types = {name: attribute.declared for name, attribute in engine.schema.attributes.items() if attribute.declared}
    return {"types": types, "learn": engine.schema.learn}


def drop_expired(connection: Any, time: int) -> None:
    """Remove what has expired."""
    connection.execute("DELETE FROM subscriptions WHERE until <= ?", (time,))
    connection.execute("DELETE FROM live WHERE until <= ?", (time,))
