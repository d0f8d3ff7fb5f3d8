"""The calls of an engine that add, change, remove and list its subscriptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.arrays import Int64s, Rows
from matchwood.encode.elements import follow_conditions
from matchwood.encode.rejects import EncodedSubscriptions, Reject
from matchwood.encode.tables import read_subscriptions
from matchwood.engine.ids import Id, shown_id
from matchwood.engine.live import SubscriptionId, SubscriptionName
from matchwood.engine.metadata import checked_metadata
from matchwood.engine.publishing import Publishing
from matchwood.engine.reading import Described, Place, Source
from matchwood.engine.reclaiming import check_codes
from matchwood.engine.results import Subscription, described
from matchwood.errors import DuplicateSubscriptionError, QueryError, SubscriptionError
from matchwood.lang.evaluate import Mode
from matchwood.lang.expression import Expression
from matchwood.schema import describe
from matchwood.store.soundness import check_sound

LISTED_AT_ONCE = 1024
"""Subscriptions that `subscriptions` reads at a time."""


class LoadedTable(NamedTuple):
    """What became of a table: the ids of the subscriptions that were added, and the records that were not, with the reasons."""

    ids: Any
    rejects: tuple[Reject, ...]


class Subscribing(Publishing):
    """Subscriptions in, changed, out. Writers: one at a time."""

    def subscribe(
        self,
        expression: Source,
        *,
        id: Id | None = None,
        priority: float = 0.0,
        place: Place | None = None,
        radius: float | None = None,
        until: datetime | str | None = None,
        metadata: object = None,
    ) -> SubscriptionId | SubscriptionName:
        """Add a subscription and return its id: an int (or str) whose `live` lists the live events that match, best first.

        `place` and `radius` (metres) add the condition, of weight 1, that the place of the event lies in that circle. At `until`
        the subscription is gone. `metadata` is any JSON value; `match(..., metadata=True)` returns it. Without `id` it gets the
        number after the largest id so far. Cost: that of an insert into the index.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.subscribe("price < 30", id=7, place=(10.75, 59.91), radius=500)
        7
        """
        with self._changes, self._changing() as change:
            number, names = self._new_numbers(None if id is None else [id], 1)
            subject = f"subscription {number[0] if id is None else shown_id(id)}"
            if id is not None:
                self._subscriptions.check_free(number[0])
            instant = self._instant(until, lambda: subject)
            kept = {} if metadata is None else {number[0]: checked_metadata(metadata, subject)}
            about = Described(expression, priority, place, radius, math.inf if instant is None else instant)
            rows = self._reader.subscription(number[0], about, subject)
            with self._lock.write():
                self._subscriptions.insert(rows, change, metadata=kept, names=names)
                self._live.settle(self.schema, self.bad_values)
                live = self._live_matches(rows, None, Mode.ALL, until=instant)
        return SubscriptionId(number[0], live) if names is None else SubscriptionName(next(iter(names)), live)

    def subscribe_many(
        self,
        expressions: Iterable[Source],
        *,
        ids: Iterable[Id] | None = None,
        priority: float | Iterable[float] = 0.0,
        place: Iterable[Place | None] | None = None,
        radius: float | Iterable[float | None] | None = None,
        until: datetime | str | Iterable[datetime | str | None] | None = None,
        metadata: Iterable[object] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Any:
        """Add several subscriptions, all or none; return their ids in order, as an array.

        `priority`, `radius` and `until` are one for all, or one for each; `ids`, `place` and `metadata` one for each.
        `progress` is called with the number read so far. Cost: reading each expression, then one bulk insert.

        >>> from matchwood import Engine
        >>> Engine().subscribe_many(["age > 18", "age > 21"], priority=[0.5, 2]).tolist()
        [0, 1]
        """
        if isinstance(expressions, str | Mapping | Expression) or not isinstance(expressions, Iterable):
            raise SubscriptionError(f"expected several expressions, got one: {describe(expressions)}; use subscribe")
        sources = list(expressions)
        count = len(sources)
        given = None if ids is None else list(column("ids", ids, count))
        abouts = zip(
            sources,
            column("priority", priority, count),
            column("place", place, count),
            column("radius", radius, count),
            column("until", until, count),
            strict=True,
        )
        with self._changes, self._changing() as change:
            numbers, names = self._new_numbers(given, count)
            shown = numbers if given is None else [shown_id(id_) for id_ in given]
            subjects = [f"subscription {id_}" for id_ in shown]
            values = list(column("metadata", metadata, count))
            kept = {
                number: checked_metadata(value, subject)
                for number, value, subject in zip(numbers, values, subjects, strict=True)
                if value is not None
            }

            def one(about: tuple[Any, ...], subject: str) -> tuple[Described, str]:
                instant = self._instant(about[4], lambda: subject)
                source, priority, place, radius = about[:4]
                end = math.inf if instant is None else instant
                return Described(source, priority, place, radius, end), subject

            rows = self._reader.subscriptions(numbers, map(one, abouts, subjects), progress)
            with self._lock.write():
                self._subscriptions.insert(rows, change, metadata=kept, names=names)
                self._live.settle(self.schema, self.bad_values)
            follow_conditions(self.schema, rows.size)
        return self._shown(np.array(numbers, np.int64))

    def subscribe_rows(self, rows: Rows) -> None:
        """Add subscriptions that are arrays already (from a table or a generator), with their `until` if they have one.

        Rows that another schema has encoded are refused with a `SchemaError`, unless the schema of this engine extends that one.
        Rows made by hand have no schema: their dimensions and keys are assumed to be those of this engine. Cost: one bulk insert.

        >>> from matchwood import Engine
        >>> from matchwood.encode.json_lines import read_json_subscriptions
        >>> engine = Engine()
        >>> engine.subscribe_rows(read_json_subscriptions(['{"id": 4, "expression": "age > 18"}'], engine.schema).rows)
        >>> engine.ids().tolist()
        [4]
        """
        if self._subscriptions.names is not None:
            raise QueryError(
                "rows have ids that are numbers, but the ids of this engine are strings; use subscribe_many"
            )
        with self._changes, self._changing() as change:
            self._reader.check_schema(rows, "rows")
            check_sound(rows, self.schema.dimensions)
            check_codes(rows, self.schema)
            if rows.until is not None and (rows.until < np.inf).any():
                self._subscriptions.check_can_expire()
            with self._lock.write():
                self._subscriptions.insert(rows, change)
                self._live.settle(self.schema, self.bad_values)
            follow_conditions(self.schema, rows.size)

    def subscribe_table(
        self,
        source: object,
        *,
        form: str | None = None,
        ignore: Collection[str] = (),
        on_error: str = "collect",
        progress: Callable[[int, int], None] | None = None,
    ) -> LoadedTable:
        """Add the subscriptions of a table: a DataFrame, an Arrow table, or a path to Parquet, CSV or JSON lines.

        The columns are those of docs/encoding.md: `id`, `priority`, `place`, `until` and `metadata` are kept, and a column that
        is no condition is an error unless `ignore` names it. Records that cannot be used are returned as `rejects`; with
        `on_error="raise"` the first raises and nothing is added. `progress` is called with the records done and all.

        >>> import pyarrow as pa
        >>> from matchwood import Engine
        >>> engine = Engine(ids="str")
        >>> table = pa.table({"id": ["ann", "bob"], "expression": ["age > 18", "age >"], "priority": [2.0, 0.0]})
        >>> loaded = engine.subscribe_table(table)
        >>> loaded.ids.tolist(), loaded.rejects[0].id
        (['ann'], 'bob')
        """
        with self._changes, self._changing() as change:
            limits = self._reader.limits
            encoded = read_subscriptions(
                source,
                self.schema,
                form=form,
                ignore=ignore,
                on_error=on_error,
                limits=limits,
                progress=progress,
            )
            rows, names, numbers = self._numbered(encoded)
            if (encoded.until < np.inf).any():
                self._subscriptions.check_can_expire()
            metadata = {
                number: value
                for number, value in zip(numbers.tolist(), encoded.metadata or (), strict=False)
                if value is not None
            }
            with self._lock.write():
                self._subscriptions.insert(rows, change, metadata=metadata, names=names)
                self._live.settle(self.schema, self.bad_values)
            follow_conditions(self.schema, rows.size)
            return LoadedTable(self._shown(numbers), encoded.rejects)

    def _numbered(self, encoded: EncodedSubscriptions) -> tuple[Rows, dict[str, int] | None, Int64s]:
        """The rows of a table under the numbers of its ids here, the number of each id that is a string, and all numbers."""
        if self._subscriptions.names is None:
            if encoded.names is not None:
                raise QueryError("the ids of the table are strings; create the engine with ids='str'")
            return encoded.rows, None, encoded.ids
        texts = encoded.names if encoded.names is not None else [str(id_) for id_ in encoded.ids.tolist()]
        numbers, names = self._new_numbers(texts, len(texts))
        found = np.array(numbers, np.int64)
        order = np.argsort(encoded.ids, kind="stable")
        at = order[np.searchsorted(encoded.ids[order], encoded.rows.ids)]
        return encoded.rows._replace(ids=found[at]), names, found

    def unsubscribe(self, id: Id) -> None:
        """Remove a subscription; `UnknownSubscriptionError` if there is none of this id. Cost: that of a delete.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.unsubscribe(engine.subscribe("age > 18"))
        >>> len(engine)
        0
        """
        self.unsubscribe_many([id])

    def unsubscribe_many(self, ids: Iterable[Id]) -> None:
        """Remove subscriptions, all or (if one is unknown) none. Cost: one bulk delete.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.unsubscribe_many(engine.subscribe_many(["age > 18", "age > 21"]))
        """
        with self._changes:
            with self._changing() as change:
                removed = self._numbers(ids)
                with self._lock.write():
                    self._subscriptions.delete(removed, change)
            self._reclaim(len(removed))

    # listing

    def subscription(self, id: Id) -> Subscription:
        """The subscription of an id: its normal form as text, priority, expiry and metadata. O(its predicates).

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> engine.subscription(engine.subscribe("NOT (age < 18 OR vip = TRUE)")).expression
        'NOT (age < 18) AND vip != TRUE'
        """
        with self._reading():
            return self._described(self._number(id))

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions, by ascending id (if ids are strings: in the order of subscription).

        The engine may be changed meanwhile: what has been removed before it is reached is left out, what has been added is too.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18", "age > 21"])
        >>> [subscription.expression for subscription in engine.subscriptions()]
        ['age > 18', 'age > 21']
        """
        with self._reading():
            ids = self._subscriptions.ids()
        for start in range(0, len(ids), LISTED_AT_ONCE):
            with self._reading():
                some = ids[start : start + LISTED_AT_ONCE]
                found = [self._described(number) for number in some[self._subscriptions.known(some)].tolist()]
            yield from found

    def ids(self) -> Any:
        """The ids of all subscriptions as an array, ascending (if they are strings: in the order of subscription). O(n log n).

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe("age > 18", id=7)
        >>> engine.ids().tolist()
        [7]
        """
        with self._reading():
            return self._shown(self._subscriptions.ids())

    # inside

    def _new_numbers(self, ids: Sequence[Id] | None, count: int) -> tuple[list[int], dict[str, int] | None]:
        """The numbers for new subscriptions of these ids and, if ids are strings, the number of each."""
        names = self._subscriptions.names
        if names is None and ids is not None:
            return [self._number(id_) for id_ in ids], None
        first = self._subscriptions.new_id()
        if names is None:
            return list(range(first, first + count)), None
        texts = [names.free(str(number)) for number in range(first, first + count)] if ids is None else list(ids)
        numbers: dict[str, int] = {}
        for number, text in enumerate(texts, first):
            if names.number(text) is not None or text in numbers:
                raise DuplicateSubscriptionError(
                    f"subscription {text!r} exists already; use update, or unsubscribe it first"
                )
            numbers[str(text)] = number
        return list(numbers.values()), numbers

    def _described(self, number: int) -> Subscription:
        subscriptions = self._subscriptions
        metadata, paused = subscriptions.metadata.get(number), number in subscriptions.paused
        return described(
            subscriptions.rows_of(number), self.schema, subscriptions.names, metadata=metadata, paused=paused
        )


SHARED = frozenset(("priority", "radius", "until"))
"""The arguments of `subscribe_many` that may be one for all."""


def column(name: str, values: Any, count: int) -> Sequence[Any]:
    """An argument of `subscribe_many` as one value for each of `count` subscriptions."""
    if isinstance(values, (Mapping, str)) or not isinstance(values, Iterable):
        if values is not None and name not in SHARED:
            raise SubscriptionError(f"{name}: expected one for each of {count} subscriptions, got {describe(values)}")
        return [values] * count
    each = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if len(each) != count:
        raise SubscriptionError(f"{name}: expected one for each of {count} subscriptions, got {len(each)}")
    return each
