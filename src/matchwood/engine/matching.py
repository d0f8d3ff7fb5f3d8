"""The calls of an engine that match events against its subscriptions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Literal, overload

from matchwood.engine.core import EngineCore
from matchwood.engine.explanation import Explanation, explain_rows
from matchwood.engine.ids import Id
from matchwood.engine.ranking import Match, MatchWithMetadata, Ranking
from matchwood.engine.reading import AnyEvent, ManyEvents
from matchwood.engine.results import BatchMatches, batch, ranking
from matchwood.errors import MatchwoodError
from matchwood.lang.evaluate import Mode
from matchwood.structures.base import check_k

LOG = logging.getLogger("matchwood")


class Matching(EngineCore):
    """Readers: any number of threads may call these at once."""

    @overload
    def match(self, event: AnyEvent, *, mode: Mode | str = ..., metadata: Literal[False] = ...) -> Ranking[Match]: ...
    @overload
    def match(
        self, event: AnyEvent, *, mode: Mode | str = ..., metadata: Literal[True]
    ) -> Ranking[MatchWithMetadata]: ...
    def match(self, event: AnyEvent, *, mode: Mode | str = Mode.ALL, metadata: bool = False) -> Ranking[Any]:
        """All subscriptions that match the event: best score first, then smallest id (if ids are strings: the earliest).

        They are a sequence that makes its objects when they are looked at; its `ids` and `scores` are arrays (`Ranking`). In mode
        "any" one predicate that holds is enough (relaxed matching). With `metadata` each match has that of its subscription.
        Attributes of the event that no subscription names are ignored. The event may also be a JSON object as bytes or text.
        Cost: that of the index, and sorting the matches.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18 ^2", "age > 21"])
        >>> engine.match({"age": 30})
        [Match(id=0, score=2.0), Match(id=1, score=1.0)]
        """
        return self._matched(event, None, mode, metadata)

    @overload
    def top_k(
        self, event: AnyEvent, k: int, *, mode: Mode | str = ..., metadata: Literal[False] = ...
    ) -> Ranking[Match]: ...
    @overload
    def top_k(
        self, event: AnyEvent, k: int, *, mode: Mode | str = ..., metadata: Literal[True]
    ) -> Ranking[MatchWithMetadata]: ...
    def top_k(self, event: AnyEvent, k: int, *, mode: Mode | str = Mode.ALL, metadata: bool = False) -> Ranking[Any]:
        """The k best matches of the event, in the order of `match`, whose options these are. Exact. Cost: that of the index.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe("age > 18 ^2", metadata={"owner": "Ada"})
        >>> engine.top_k({"age": 30}, k=1, metadata=True)
        [MatchWithMetadata(id=0, score=2.0, metadata={'owner': 'Ada'})]
        """
        check_k(k)
        return self._matched(event, k, mode, metadata)

    def match_many(self, events: ManyEvents, *, mode: Mode | str = Mode.ALL, ordered: bool = True) -> BatchMatches:
        """The matches of a batch of events as arrays; with `ordered=False` those of an event in any order, which is faster.

        Events may be a list, a DataFrame or Arrow table (in the forms of docs/encoding.md), JSON lines as bytes, or arrays.

        An event that cannot be used has no matches; `rejected` of the result has the error of each, by position. A batch uses
        all cores.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18", "age > 21"])
        >>> found = engine.match_many([{"age": 20}, {"age": 30}, {"age": "old"}])
        >>> found.ids.tolist()
        [0, 0, 1]
        >>> print(found.rejected[2])
        event 2: attribute 'age': expected a number, got 'old' (str)
        """
        return self._matched_many(events, None, mode, ordered=ordered)

    def top_k_many(self, events: ManyEvents, k: int, *, mode: Mode | str = Mode.ALL) -> BatchMatches:
        """The k best matches of each event of a batch as arrays, best first. See `match_many`.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18 ^2", "age > 21"])
        >>> engine.top_k_many([{"age": 20}, {"age": 30}], k=1).ids.tolist()
        [0, 0]
        """
        check_k(k)
        return self._matched_many(events, k, mode)

    def explain(self, event: AnyEvent, id: Id, *, mode: Mode | str = Mode.ALL) -> Explanation:
        """Which predicates of a subscription hold for the event, and what each adds to the score. O(predicates).

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> print(engine.explain({"age": 70}, engine.subscribe("age >= 18 ^0.4 AND plan IN ('pro', 'trial') ^0.6")))
        subscription 0 does not match
            +0.4  age >= 18 ^0.4   (event: 70)
              no  plan IN ('pro', 'trial') ^0.6   (event: NULL)
        """
        with self._reading():
            rows = self._subscriptions.rows_of(self._number(id))
            return explain_rows(rows, event, self._reader, id_=id, mode=mode, combine=self._scoring.combine)

    # inside

    def _matched(self, event: AnyEvent, k: int | None, mode: Mode | str, metadata: bool) -> Ranking[Any]:
        self._catch_up()
        while True:
            forgotten = self.schema.forgotten
            arrays = self._reader.event(event)
            with self._lock.read():
                if forgotten == self.schema.forgotten:  # else dimensions may mean something else by now
                    found, known = self._found(arrays, k, mode), self._subscriptions
                    return ranking(found, known.names, known.metadata if metadata else None)

    def _matched_many(
        self, events: ManyEvents, k: int | None, mode: Mode | str, *, ordered: bool = True
    ) -> BatchMatches:
        self._catch_up()
        if isinstance(events, Iterator):  # it can be read once only
            events = list(events)
        while True:
            forgotten = self.schema.forgotten
            read = self._reader.events(events)
            with self._lock.read():
                if forgotten == self.schema.forgotten:
                    found = self._found(read.arrays, k, mode, ordered=ordered)
                    log_rejected(read.rejected)
                    return batch(found, self._subscriptions.names, read)


def log_rejected(rejected: Mapping[int, MatchwoodError]) -> None:
    """Log that events of a batch were rejected, if any were."""
    if rejected:
        first = next(iter(rejected.values()))
        LOG.warning("%d events of a batch were rejected; the first: %s", len(rejected), first)
