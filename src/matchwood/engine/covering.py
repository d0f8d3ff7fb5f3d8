"""The calls of an engine about covering: which subscriptions match whatever others match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matchwood.engine.core import EngineCore
from matchwood.engine.covers import Reduction, compared
from matchwood.engine.reading import Source


class Covering(EngineCore):
    """Questions about covers. Paused subscriptions have no part in them."""

    def covers(self, expression: Source) -> Any:
        """The subscriptions that cover the expression, ascending: each matches every event that matches the expression.

        Exact for an expression of one row. For one of several rows, a subscription that covers it only with several of its own
        rows together is missed. The first call of `covers`, `covered_by` or `reduce` builds an index of covers, which is kept up
        to date from then on.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18", "age > 21"])
        >>> engine.covers("age > 20").tolist()
        [0]
        """
        return self._asked(expression, covered=False)

    def covered_by(self, expression: Source) -> Any:
        """The subscriptions that the expression covers, ascending. See `covers`.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> _ = engine.subscribe_many(["age > 18", "age > 21"])
        >>> engine.covered_by("age > 20").tolist()
        [1]
        """
        return self._asked(expression, covered=True)

    def reduce(self, *, progress: Callable[[int, int], None] | None = None) -> Reduction:
        """A smallest set of subscriptions that covers all, and for each other subscription one of the set that covers it.

        `progress` is called with the number examined so far and the number of all. Cost: about one search for each subscription.

        >>> from matchwood import Engine
        >>> engine = Engine()
        >>> ids = engine.subscribe_many(["age > 18", "age > 21", "age > 21 AND plan = 'pro'"])
        >>> engine.reduce()
        Reduction(kept=array([0]), cover={1: 0, 2: 0})
        """
        self._subscriptions.covers.prepare(search=False)
        with self._changes:
            self._catch_up()
            with self._lock.write():
                found = self._subscriptions.covers.reduce(progress)
        names = self._subscriptions.names
        if names is None:
            return found
        cover: Any = {names.text(a): names.text(b) for a, b in found.cover.items()}
        return Reduction(names.texts(found.kept), cover)

    def _asked(self, expression: Source, *, covered: bool) -> Any:
        """The answer to a question about an expression, which teaches the schema nothing."""
        covers = self._subscriptions.covers
        compiled = covers.prepare(covered=covered)
        with self._changes:
            self._catch_up()
            mark = self.schema.mark()
            try:
                query = self._reader.query(expression)
                if compiled:
                    with self._lock.write():
                        return self._shown(covers.covered_by(query) if covered else covers.covering(query))
                with self._lock.read():
                    rows = covers.all_rows()
                return self._shown(compared(rows, query, self.schema, covered=covered))
            finally:
                with self._lock.write():
                    self.schema.forget_since(mark)
