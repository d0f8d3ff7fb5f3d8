"""Warm: call everything that an engine calls in a structure, so that its kernels are compiled to disk.

    python -m matchwood.planner.warm [--scoring] [--parent PID] NAME...

Numba compiles a kernel for the types of its arguments, which are the same for all data. Which kernels are called depends on the
number of rows or events and on the kinds of predicates, so a few samples reach all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.encode.events import encode_events
from matchwood.encode.objects import RowsBuilder
from matchwood.encode.picking import pick_rows
from matchwood.lang.evaluate import Mode
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.planner.compiling import stamp
from matchwood.schema import Range, Schema
from matchwood.store.kernels.ordering import order_hits
from matchwood.store.scoring import scoring as make_scoring
from matchwood.structures import INDEXES, Capability, make_index

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None  # type: ignore[assignment]

ROWS = 20_000
"""Enough for nodes of every size."""
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
    ],
]
"""Rows of one attribute, of two, and of every kind of predicate, to be filled with the number of the row and the next one."""
PATTERNS = 160


def warm(name: str, *, scoring: bool = False) -> None:
    """Call everything in the structure of that name; with `scoring`, under a scoring function other than the sum."""
    combine = make_scoring("max").compiled if scoring else None
    for expressions in SAMPLES:
        _Exercise(name, expressions, combine).run()


class _Exercise:
    """Exercises one structure with one sample."""

    def __init__(self, name: str, expressions: Sequence[str], combine: object) -> None:
        self._index, self._combine = make_index(name), combine
        offers = self._index.capabilities
        self._can_change, self._can_rank = Capability.UPDATES in offers, Capability.TOP_K in offers
        self._modes = [Mode.ALL, Mode.ANY] if Capability.ANY in offers else [Mode.ALL]
        schema = Schema(TYPES)
        usable = [e for e in expressions if "IS NULL" not in e or Capability.ABSENCE in offers]
        self._rows = _rows(usable, schema)
        self._events = _events(schema, ranges=Capability.RANGE_EVENTS in offers)

    def run(self) -> None:
        """Insert, match and change: in bulk, a few at a time and one by one."""
        index, rows = self._index, self._rows
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
        index.stats()
        store = index.store
        store.extract(store.slots_of(rows.ids[store.knows(rows.ids)]))
        store.extract_all()

    def _match(self) -> None:
        for mode in self._modes:
            for events in (self._events.take(0, BATCH), self._events.take(0, 1)):
                found = self._index.match(events, mode=mode, combine=self._combine)
                order_hits(found.offsets, found.ids, found.scores)
                if self._can_rank:
                    self._index.top_k(events, 3, mode=mode, combine=self._combine)


def _rows(expressions: Sequence[str], schema: Schema) -> Rows:
    """`ROWS` rows of these expressions."""
    builder = RowsBuilder(schema)
    for number in range(PATTERNS):
        text = expressions[number % len(expressions)].format(number, number + 1)
        builder.add(number, 0.0, normalise(parse(text), schema))
    rows = builder.build()
    return pick_rows(rows, np.arange(ROWS) % rows.size)._replace(ids=np.arange(ROWS))


def _events(schema: Schema, *, ranges: bool) -> Events:
    """Events of single values and, if the structure supports them, one with a range and a list."""
    plain = [{"a": n, "b": n, "c": n, "d": n, "word": "x", "place": (n % 160, 10)} for n in range(EVENTS)]
    wide = [{"a": Range(1, 3), "b": [1, 5]}] if ranges else []
    return encode_events([*plain, *wide], schema)


# the process


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m matchwood.planner.warm", description="compile kernels to disk")
    parser.add_argument("--scoring", action="store_true", help="for a scoring function other than the sum")
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process is no longer the parent")
    parser.add_argument("names", nargs="+", choices=sorted(INDEXES), metavar="NAME", help="an index")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        threading.Thread(target=_end_without, args=(arguments.parent,), daemon=True).start()
    for name in arguments.names:
        compile_to_disk(name, scoring=arguments.scoring)


def compile_to_disk(name: str, *, scoring: bool = False) -> None:
    """`warm` the structure and leave the stamp, unless that was done before. Waits if another process is doing it."""
    path = stamp(name, scoring=scoring)
    if path is None:
        return
    with _alone(path.with_suffix(".lock")):
        if not path.exists():
            warm(name, scoring=scoring)
            path.touch()


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock between processes, which ends with the process. Without such locks, kernels may be compiled twice."""
    with path.open("w") as file:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _end_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
