"""What all parts of a tenant share. The thread of the tenant sets the fields of a group before it runs its commands."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matchwood.broker import outbox
from matchwood.broker.commands import Happening
from matchwood.broker.digest import Digests
from matchwood.broker.tracks import Tracks
from matchwood.broker.types import DeliveryOptions, TenantLimits
from matchwood.engine.journal import Journal
from matchwood.engine.owned import OwnedEngine
from matchwood.engine.records import Record
from matchwood.engine.tables import note

if TYPE_CHECKING:
    from matchwood.broker.metrics import Metrics

LOG = logging.getLogger("matchwood.broker")


class TenantCore:
    """The state of a tenant: that which lasts, and that of the group that is being run."""

    name: str
    limits: TenantLimits
    engine: OwnedEngine
    kafka: bool
    _metrics: Metrics
    _journal: Journal
    _connection: Any
    _routes: dict[str, DeliveryOptions]  # of subscriptions that are not delivered to streams alone
    _ids: OrderedDict[str, int]  # the number of the event of each id that is retained
    _digests: Digests
    _tracks: Tracks
    _waiting: int  # deliveries in the outbox
    _dead: int  # dead letters
    # of the group
    _first: int  # the number of its first record
    _time: int  # its instant, in microseconds since 1970
    _records: list[Record]
    _happenings: list[Happening]
    _woken: set[str]  # consumers that have new deliveries

    def _noted(self, records: list[Record]) -> int:
        """Take records into the group; return the number of the first."""
        first = self._first + len(self._records)
        self._records.extend(records)
        note(self._connection, first, records)
        return first

    def _route(self, id_: str, options: DeliveryOptions) -> None:
        if options == DeliveryOptions():
            self._routes.pop(id_, None)
        else:
            self._routes[id_] = options
        if options.track is not None:
            self._tracks.watch(id_, options.track)
        else:
            self._tracks.unwatch(id_)

    def _bury(self, numbers: Sequence[int], reason: str) -> None:
        """Make deliveries dead letters."""
        count = outbox.bury(self._connection, numbers, reason, self._time)
        self._waiting -= count
        self._died(count)

    def _died(self, count: int) -> None:
        """There are so many dead letters more. If they are too many now, the oldest are dropped, and counted."""
        self._dead += count
        excess = self._dead - self.limits.dead
        if excess > 0:
            outbox.drop_dead(self._connection, excess)
            self._dead -= excess
            self._metrics.shed.labels("dead").inc(excess)
            LOG.warning(
                "tenant %s has more than %d dead letters, its limit: the oldest %d were dropped",
                *(self.name, self.limits.dead, excess),
            )

    def describe(self, id_: str) -> Any:
        """The metadata of a subscription, None if it has none or is gone."""
        return self.engine.metadata_of(id_)

    def route_of(self, id_: str) -> DeliveryOptions | None:
        """How matches of a subscription are delivered, if not to streams."""
        return self._routes.get(id_)
