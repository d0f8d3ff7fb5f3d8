"""Exercises: calls of everything that an engine calls in one part of it, so that its kernels are compiled or loaded.

A part is a structure (`INDEXES`), the live events, or a third of covering: a part for each direction of the search, and one for
changes, so that two processes share the work if a call waits for it.

Numba compiles a kernel for the types of its arguments, which are the same for all data. Which kernels are called depends on the
number of rows or events and on the kinds of predicates, so a few samples reach all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from matchwood import covering, structures  # whose classes are imported when they are used
from matchwood.encode.arrays import CIRCLE, Events, Rows
from matchwood.encode.events import encode_events
from matchwood.encode.objects import RowsBuilder
from matchwood.encode.picking import pick_rows
from matchwood.lang.evaluate import Mode
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Range, Schema
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.scoring import scoring as make_scoring
from matchwood.store.soundness import check_sound
from matchwood.structures import INDEXES, Capability, make_index

LIVE, COVERS, COVERED, COVER_UPDATES = "live-events", "covers", "covered", "cover-updates"
ROWS = 20_000
"""Enough for nodes of every size."""
FEW_ROWS = 300
"""Enough to load the kernels of `scan` and of the live events, which do not depend on the number."""
EVENTS = 300
"""More than a structure observes before it reorders its rows."""
BATCH = 8
"""Events of a batch; a single event is another case."""
TYPES = {"a": "number", "b": "number", "c": "number", "d": "number", "word": "string", "place": "point"}
SAMPLES = [
    ["a BETWEEN {0} AND {1}"],
    ["a BETWEEN {0} AND {1} ^0.5 AND b BETWEEN {0} AND {1} ^0.25"],
    [
        "a BETWEEN {0} AND {1} AND b < {1} AND c >= {0} AND d <= {1}",
        "word IN ('x', 'y') AND a != {0}",
        "DWITHIN(place, POINT({0} 10), 1000)",
        "b = {0} AND word IS NULL",
        "d <= {1} DECAY(LINEAR, ORIGIN {0}, SCALE 2)",
    ],
]
"""Rows of one attribute, of two, and of every kind of predicate, to be filled with the number of the row and the next one."""
PATTERNS = 160


def exercise(name: str, *, scoring: bool = False, rows: int = ROWS) -> None:
    """Call everything in the part of that name; with `scoring`, under a scoring function other than the sum."""
    combine = make_scoring("max").compiled if scoring else None
    if name in INDEXES:
        for expressions in SAMPLES:
            _IndexExercise(name, expressions, combine, rows).run()
    else:
        OTHERS[name](combine)


class _IndexExercise:
    """Exercises one structure with one sample."""

    def __init__(self, name: str, expressions: Sequence[str], combine: object, rows: int) -> None:
        self._index, self._combine = make_index(name), combine
        offers = self._index.capabilities
        self._can_change, self._can_rank = Capability.UPDATES in offers, Capability.TOP_K in offers
        self._modes = [Mode.ALL, Mode.ANY] if Capability.ANY in offers else [Mode.ALL]
        schema = Schema(TYPES)
        usable = [e for e in expressions if "IS NULL" not in e or Capability.ABSENCE in offers]
        self._rows = _rows(usable, schema, rows)
        self._dimensions = schema.dimensions
        self._events = _events(schema, ranges=Capability.RANGE_EVENTS in offers)

    def run(self) -> None:
        """Insert, match and change: in bulk, a few at a time and one by one."""
        index, rows = self._index, self._rows
        check_sound(rows, self._dimensions)
        index.insert(rows)
        index.match(self._events, combine=self._combine)
        for count in (1, 2, 200, rows.size) if self._can_change else ():
            some = rows.take(0, count)
            index.update(some)
            self._match()
            index.delete(some.ids)
            self._match()
            index.insert(some)
            self._match()
        if self._can_change:
            self._change_in_place()
        index.stats()
        store = index.store
        store.extract(store.slots_of(rows.ids[store.knows(rows.ids)]))
        store.extract_all()

    def _change_in_place(self) -> None:
        index, rows = self._index, self._rows
        index.set_priority(rows.ids[:1], rows.priority[:1])
        circle = np.flatnonzero(rows.kinds == CIRCLE)[:1]
        ids = rows.ids[np.searchsorted(rows.offsets, circle, "right") - 1]
        lon, lat = rows.lo[circle], rows.hi[circle]
        for at in circle:
            if index.store.centres(index.store.slots_of(ids), int(rows.dims[at]), lon, lat) is not None:
                index.move_circles(ids, lon, lat)

    def _match(self) -> None:
        for mode in self._modes:
            for events in (self._events.take(0, BATCH), self._events.take(0, 1)):
                found = self._index.match(events, mode=mode, combine=self._combine)
                order_hits(found.offsets, found.ids, found.scores)
                if self._can_rank:
                    self._index.top_k(events, 3, mode=mode, combine=self._combine)


def _exercise_live_events(combine: object) -> None:
    """Keep, match and remove events: single ones and many, plain ones and such with lists."""
    schema, live = Schema(TYPES), structures.LiveEvents()
    events = _events(schema, ranges=True)
    rows = [_rows(expressions, schema, FEW_ROWS) for expressions in SAMPLES]
    for first, last in ((0, 1), (1, 2), (2, events.size)):
        ids = np.arange(first, last)
        live.insert(events.take(first, last), ids, np.full(len(ids), np.inf))
        live.knows(ids)
        live.until(ids)
        for some in [*rows, rows[0].take(0, 1)]:
            for mode in Mode:
                for k in (None, 3):
                    live.match(some, 0.0, k=k, mode=mode, combine=combine)
    for ids in (np.arange(1), np.arange(1, events.size)):
        live.delete(ids)
        live.insert(events.take(int(ids[0]), int(ids[-1]) + 1), ids, np.full(len(ids), np.inf))
    live.store.ids(live.store.live_slots())


def _exercise_covers(combine: object) -> None:
    """Search an index of covers. It may be empty: its kernels do not depend on what it holds."""
    covering.CoverIndex().covers_of(_rows(SAMPLES[-1], Schema(TYPES), 1))


def _exercise_covered(combine: object) -> None:
    """Search an index of covers in the other direction."""
    covering.CoverIndex().covered_by(_rows(SAMPLES[-1], Schema(TYPES), 1))


def _exercise_cover_updates(combine: object) -> None:
    """Change an index of covers: in bulk and one by one, with more sets of attributes than it has room for at first."""
    index, schema = covering.CoverIndex(), Schema({f"a{i}": "number" for i in range(9)})
    builder = RowsBuilder(schema)
    for bits in range(1, 512):
        text = " AND ".join(f"a{i} < {bits}" for i in range(9) if bits >> i & 1)
        builder.add(bits, 0.0, normalise(parse(text), schema))
    rows = builder.build()
    index.insert(rows)
    for some in (rows.take(0, 1), rows):
        index.delete(some.ids)
        index.insert(some)


OTHERS: dict[str, Callable[[object], None]] = {
    LIVE: _exercise_live_events,
    COVERS: _exercise_covers,
    COVERED: _exercise_covered,
    COVER_UPDATES: _exercise_cover_updates,
}
"""The parts that are no structures of subscriptions."""
PARTS = (*INDEXES, *OTHERS)


def _rows(expressions: Sequence[str], schema: Schema, count: int) -> Rows:
    """That many rows of these expressions."""
    builder = RowsBuilder(schema)
    for number in range(PATTERNS):
        text = expressions[number % len(expressions)].format(number, number + 1)
        builder.add(number, 0.0, normalise(parse(text), schema))
    rows = builder.build()
    return pick_rows(rows, np.arange(count) % rows.size)._replace(ids=np.arange(count))


def _events(schema: Schema, *, ranges: bool) -> Events:
    """Events of single values and, if the structure supports them, one with a range and a list."""
    plain = [{"a": n, "b": n, "c": n, "d": n, "word": "x", "place": (n % 160, 10)} for n in range(EVENTS)]
    wide = [{"a": Range(1, 3), "b": [1, 5]}] if ranges else []
    return encode_events([*plain, *wide], schema)
