"""The records of a journal: what has changed, in a form that any later version can read.

A record holds what the user gave (the text of an expression, the values of an event), never arrays, so that a new format of the
index needs no old code. A chunk is the JSON array of the records of one transaction. New fields get defaults; a change that an
older reader would misunderstand gets a new kind of record, which it refuses by name.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from matchwood.errors import MissingExtraError, StorageError
from matchwood.lang.expression import Expression
from matchwood.schema import point_of

try:
    import msgspec
    from msgspec import UNSET, Raw, Struct, UnsetType
except ImportError as error:  # pragma: no cover
    raise MissingExtraError(
        f"Engine.open needs apsw and msgspec, which cannot be imported ({error}); "
        "install them with: pip install 'matchwood[durable]'"
    ) from None

RECORDS_VERSION = 1
"""Of a chunk. A reader accepts its own version and older ones."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Record(Struct, tag_field="kind", omit_defaults=True, kw_only=True):
    pass


class Subscribed(_Record, tag="subscribe"):
    """A subscription was added. `until` is in microseconds since 1970."""

    id: int | str
    expression: Any
    priority: float = 0.0
    place: list[float] | None = None
    radius: float | None = None
    until: int | None = None
    metadata: Any = None
    about: Any = None
    """What the owner of the journal keeps with the subscription; the engine does not look at it."""


class Updated(_Record, tag="update"):
    """A subscription was changed; what is unset stayed."""

    id: int | str
    expression: Any = UNSET
    priority: float | UnsetType = UNSET
    place: list[float] | None = None
    radius: float | None = None
    until: int | UnsetType | None = UNSET
    metadata: Any = UNSET
    about: Any = UNSET


class Moved(_Record, tag="move"):
    """The condition on place of a subscription was moved. `expression` is its normal form afterwards."""

    id: int | str
    place: list[float]
    expression: str


class Paused(_Record, tag="pause"):
    id: int | str


class Resumed(_Record, tag="resume"):
    id: int | str


class Unsubscribed(_Record, tag="unsubscribe"):
    id: int | str


class Kept(_Record, tag="live"):
    """A live event was published. `values` are as `encode.json_values` writes them."""

    number: int
    until: int
    values: Any
    weights: dict[str, float] = {}


class Retracted(_Record, tag="retract"):
    number: int


class Declared(_Record, tag="declare"):
    """Attributes got types by declaration."""

    attributes: dict[str, str]
    closed: bool = False


class Notice(Struct, omit_defaults=True, kw_only=True):
    """What became of the stay of an object in a subscription; `track` is "enter", "exit" or "dwell"."""

    subscription: str
    track: str
    object: str | int
    since: int
    score: float = 0.0
    silent: bool = False


class Happened(_Record, tag="event"):
    """An event passed a broker. It changes no engine: if it is alive, a `Kept` record follows."""

    data: Raw
    id: str | None = None
    until: int | None = None
    hits: list[tuple[str, float]] = []
    """The subscriptions that it was delivered to, best first."""
    trace: str | None = None
    notices: list[Notice] = []
    """Of subscriptions that track objects: what the event has changed. Their matches are not delivered."""


class Digested(_Record, tag="digest"):
    """The period of a digest ended. It changes no engine. `hits` are pairs of a record's number and the score, best first."""

    subscription: str
    hits: list[tuple[int, float]]
    left_out: int = 0


class Stayed(_Record, tag="stay"):
    """Time alone has changed the stay of an object. It changes no engine."""

    notice: Notice


Change = Subscribed | Updated | Moved | Paused | Resumed | Unsubscribed | Kept | Retracted | Declared
Passing = Happened | Digested | Stayed
"""The records that change no engine."""
_PASSING = frozenset((Happened, Digested, Stayed))
Record = Change | Passing

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(list[Record])


def changing(records: Iterable[Record]) -> int:
    """How many of the records change the engine."""
    return sum(kind not in _PASSING for kind in map(type, records))


def encode_chunk(records: Sequence[Record]) -> bytes:
    """The records of one transaction as JSON."""
    return _ENCODER.encode(records)


def decode_chunk(body: bytes, version: int, checksum: int, first: int) -> list[Record]:
    """The records of a chunk; `StorageError` if it is damaged or of a newer version."""
    if version > RECORDS_VERSION:
        raise StorageError(
            f"record {first} has version {version}, this Matchwood reads up to {RECORDS_VERSION}; use a newer one"
        )
    if zlib.crc32(body) != checksum:
        raise StorageError(f"record {first} is damaged: its checksum differs; restore a backup")
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise StorageError(f"record {first} cannot be read: {error}") from None


def expression_text(source: object) -> Any:
    """The expression of a subscription as it is recorded: text, or CQL2 JSON as it was given."""
    return str(source) if isinstance(source, Expression) else source


def place_pair(place: object) -> list[float] | None:
    """A place as it is recorded."""
    if place is None:
        return None
    point = point_of(place)
    return [float(point.lon), float(point.lat)]


def instant_of(microseconds: int | None) -> datetime | None:
    """The instant of so many microseconds since 1970."""
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)
