"""Subscriptions of a tenant: added, changed and removed, under conditions and within quotas."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from matchwood.broker import stored_digests
from matchwood.broker.commands import Conditions, stored
from matchwood.broker.tenant_events import TenantEvents
from matchwood.broker.types import DeliveryOptions, Rejected
from matchwood.engine.records import Record, Subscribed, Updated
from matchwood.errors import (
    ConflictError,
    JournalError,
    MatchwoodError,
    QuotaError,
    RequestError,
    UnknownSubscriptionError,
)


class TenantSubscriptions(TenantEvents):
    """Methods of the tenant's thread."""

    def subscribe(self, given: dict[str, Any], options: DeliveryOptions) -> tuple[str, int, list[tuple[int, float]]]:
        """Add a subscription; return its id, revision, and the live events that match."""
        self._check_room(1)
        self._check_delivery(options)
        made = self.engine.subscribe(**given)
        records = self.engine.take()
        self._set_about(records, options)
        self._end_digest(str(made))  # of one of this id that has expired
        revision = self._noted(records)
        self._forget_stays(str(made))
        self._route(str(made), options)
        self._metrics.changes.inc()
        return str(made), revision, [(hit.event, hit.score) for hit in made.live]

    def subscribe_many(
        self, several: list[tuple[dict[str, Any], DeliveryOptions] | MatchwoodError]
    ) -> tuple[list[str | None], int, list[Rejected]]:
        """Add the subscriptions that can be used; return ids, the last revision, and what was rejected."""
        ids: list[str | None] = []
        try:
            at_once = self._subscribe_at_once(several)
        except MatchwoodError as error:  # one of them is refused: find out which
            if isinstance(error, JournalError) or self.engine.take():
                raise
            at_once = None
        if at_once is not None:
            return at_once, self._first + len(self._records) - 1, []
        rejected: list[Rejected] = []
        for position, one in enumerate(several):
            try:
                if isinstance(one, MatchwoodError):
                    raise one
                ids.append(self.subscribe(*one)[0])
            except MatchwoodError as error:
                if isinstance(error, JournalError) or self.engine.take():
                    raise
                ids.append(None)
                rejected.append(Rejected(position=position, problem=str(error)))
        return ids, self._first + len(self._records) - 1, rejected

    def _subscribe_at_once(self, several: list[Any]) -> list[str | None] | None:
        """Add all subscriptions by one insert and return their ids; None if they have to be looked at one by one."""
        if len(several) < 2 or any(isinstance(one, MatchwoodError) or "id" not in one[0] for one in several):
            return None
        self._check_room(len(several))
        for options in {id(options): options for _, options in several}.values():
            self._check_delivery(options)
        names = ("priority", "place", "radius", "until", "metadata")
        columns = {name: [given[name] for given, _ in several] for name in names}
        made = self.engine.subscribe_many(
            [given["expression"] for given, _ in several], ids=[given["id"] for given, _ in several], **columns
        )
        records = self.engine.take()
        for record, (given, options) in zip(records, several, strict=True):
            self._set_about([record], options)
            self._end_digest(given["id"])
            self._forget_stays(given["id"])
            self._route(given["id"], options)
        self._noted(records)
        self._metrics.changes.inc(len(several))
        return [str(id_) for id_ in made.tolist()]

    def replace(
        self, id_: str, given: dict[str, Any], options: DeliveryOptions, conditions: Conditions
    ) -> tuple[bool, int, list[tuple[int, float]]]:
        """Add or replace a subscription; return whether it is new, its revision, and the live events that match a new one."""
        if id_ not in self.engine:
            if conditions.revision is not None:
                raise _changed(f"subscription {id_!r} is not there")
            _, revision, live = self.subscribe({**given, "id": id_}, options)
            return True, revision, live
        self._check(id_, conditions)
        self._check_delivery(options)
        self.engine.update_many({id_: given})
        return False, self._changed(id_, options), []

    def change(self, id_: str, changes: dict[str, Any], conditions: Conditions) -> int:
        """Change a subscription; return its revision. `changes` are those of `update` and `delivery`, or `moved`, or `paused`."""
        self._check(id_, conditions)
        options, paused, moved = (changes.pop(name, None) for name in ("delivery", "paused", "moved"))
        if (bool(changes) or options is not None) + (paused is not None) + (moved is not None) > 1:
            raise RequestError("to pause or to move a subscription takes a request of its own")
        if options is not None:
            self._check_delivery(options)
        if moved is not None:
            self.engine.move(id_, moved)
        elif paused is not None:
            (self.engine.pause if paused else self.engine.resume)(id_)
            self._clear_stays(id_)
        else:
            self.engine.update_many({id_: changes})
        return self._changed(id_, options)

    def _changed(self, id_: str, options: DeliveryOptions | None) -> int:
        records = self.engine.take()
        if options is not None:
            self._set_about(records, options)
            known = self._routes.get(id_)
            if options != known:
                self._end_digest(id_)
            self._route(id_, options)
            if _objects(known) != _objects(options):
                self._clear_stays(id_)
        first = self._noted(records)
        self._metrics.changes.inc()
        return first + max(len(records), 1) - 1

    def unsubscribe(self, id_: str, conditions: Conditions) -> None:
        """Remove a subscription. What waits for it in the outbox is still delivered."""
        self._check(id_, conditions)
        self.engine.unsubscribe(id_)
        self._noted(self.engine.take())
        self._route(id_, DeliveryOptions())
        self._digests.remove(id_)
        stored_digests.forget(self._connection, id_)
        self._clear_stays(id_)
        self._metrics.changes.inc()

    def _set_about(self, records: list[Record], options: DeliveryOptions) -> None:
        for record in records:
            if isinstance(record, Subscribed | Updated):
                record.about = None if options == DeliveryOptions() else msgspec.to_builtins(options)

    def _check(self, id_: str, conditions: Conditions) -> None:
        if id_ not in self.engine:
            raise UnknownSubscriptionError(f"subscription {id_!r} is not there")
        if conditions.absent:
            raise _changed(f"subscription {id_!r} exists already")
        if conditions.revision is not None:
            found = self._connection.execute("SELECT revision FROM subscriptions WHERE id = ?", (id_,)).get
            if found != conditions.revision:
                raise _changed(f"subscription {id_!r} has revision {found}, not {conditions.revision}; read it again")

    def _check_room(self, count: int) -> None:
        if len(self.engine) + count > self.limits.subscriptions:
            self._metrics.refused.labels("subscriptions").inc()
            raise QuotaError(f"the tenant has {self.limits.subscriptions:,} subscriptions, its limit; remove some")

    def _check_delivery(self, options: DeliveryOptions) -> None:
        if options.track is not None:
            if options.digest is not None:
                raise RequestError("a subscription has a digest or tracks objects, not both")
            if ("dwell" in options.track.on) is not (options.track.dwell is not None):
                raise RequestError('to be told of a dwelling object takes both "dwell" in `on` and the seconds `dwell`')
        needed = {"webhook": options.hook, "kafka": options.topic}.get(options.type, "")
        if needed is None:
            raise RequestError(
                f"delivery {options.type!r} needs {'a hook' if options.type == 'webhook' else 'a topic'}"
            )
        if options.type == "kafka":
            self._check_topic(options.topic or "")
        if (
            options.type == "webhook"
            and not self._connection.execute("SELECT 1 FROM hooks WHERE name = ?", (options.hook,)).get
        ):
            raise RequestError(f"there is no hook {options.hook!r}; make it first: PUT /v1/hooks/{options.hook}")

    def _check_topic(self, topic: str) -> None:
        if not self.kafka:
            raise RequestError("this broker has no Kafka; start it with --kafka-servers")
        if self.name != "default" and not topic.startswith(f"{self.name}."):
            raise RequestError(f"topic {topic!r}: a topic of this tenant begins with {self.name!r} and a dot")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
            raise RequestError(f"topic {topic!r}: expected 1 to 249 letters, digits, dots, underscores or hyphens")

    def declare(self, attributes: dict[str, str], closed: bool) -> None:
        """Give attributes types."""
        self.engine.declare(attributes, closed=closed)
        self._noted(self.engine.take())

    def stored(self, id_: str) -> tuple[Any, int] | None:
        """A subscription as it is stored, and its revision. In a transaction, or by `read`."""
        return stored(self._connection, id_)


def _objects(options: DeliveryOptions | None) -> str | None:
    """The attribute that names the objects that are tracked."""
    return None if options is None or options.track is None else options.track.object


def _changed(message: str) -> ConflictError:
    error = ConflictError(message)
    error.status = 412
    return error
