"""The broker: tenants, keys and hubs of one data folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from matchwood.broker.commands import transport_of
from matchwood.broker.egress import Egress
from matchwood.broker.hooks import Hooks
from matchwood.broker.hub import Hub
from matchwood.broker.keys import Key, KeyRing, Scope, Secret, make_key, revoke, rotate
from matchwood.broker.metrics import Metrics
from matchwood.broker.tenant import Tenant
from matchwood.broker.types import TenantLimits
from matchwood.engine.clock import Clock, system_clock
from matchwood.errors import AuthenticationError, ForbiddenError, NotFoundError, StorageError

DEFAULT = "default"
_CACHED = 4096
CARE_SECONDS = 5.0


class _Settings(msgspec.Struct):
    """The file `keys.json`."""

    keys: list[dict[str, Any]] = []
    tenants: dict[str, TenantLimits] = {}


class Broker:
    """See the module's text. `open` it in the loop that serves, and `close` it there."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock = system_clock,
        index: str = "auto",
        egress: Egress | None = None,
        kafka: str | None = None,
        from_kafka: Iterable[str] = (),
    ) -> None:
        self.folder, self._clock, self._index = folder, clock, index
        self.metrics = Metrics()
        self.egress = egress or Egress()
        self.tenants: dict[str, Tenant] = {}
        self.hubs: dict[str, Hub] = {}
        self.hooks: dict[str, Hooks] = {}
        self._kafka, self._topics = kafka, tuple(from_kafka)
        self._connectors: list[Any] = []
        self._caring: asyncio.Task[None] | None = None
        self.stopping = asyncio.Event()
        self._authenticated: dict[bytes, Key] = {}
        self._settings = self._read()
        self.keys = KeyRing(Key.from_json(stored) for stored in self._settings.keys)
        self.metrics.before_scrape(self._refresh)

    # settings

    @property
    def _path(self) -> Path:
        return self.folder / "keys.json"

    def _read(self) -> _Settings:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Settings)
        except FileNotFoundError:
            return _Settings()
        except msgspec.MsgspecError as error:
            raise StorageError(f"{self._path} is damaged: {error}; restore a backup") from None

    def _save(self) -> None:
        """Replace the file as a whole; only its owner may read it."""
        self._settings.keys = [key.to_json() for key in self.keys]
        self._authenticated.clear()
        draft = self._path.with_suffix(".draft")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self._settings), indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path)
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    # life

    async def open(self) -> Secret | None:
        """Open all tenants; returns the text of the admin key if this is the first start."""
        made = None
        if not len(self.keys):
            made = self.new_key(DEFAULT, [Scope.ADMIN], "made at the first start")[1]
        for name in {DEFAULT, *self._settings.tenants}:
            await self._open_tenant(name)
        if self._kafka is not None:
            from matchwood.broker.kafka import Source  # an extra

            for topic in self._topics:
                source = Source(self.tenants[DEFAULT], self._kafka, topic)
                source.start()
                self._connectors.append(source)
        self._caring = asyncio.create_task(self._care())
        self.metrics.ready.set(1)
        return made

    async def _care(self) -> None:
        while True:
            await asyncio.sleep(CARE_SECONDS)
            for hub in list(self.hubs.values()):
                hub.look_after()

    async def _open_tenant(self, name: str) -> None:
        limits = self._settings.tenants.get(name, TenantLimits())
        folder = self.folder / "tenants" / name
        options: dict[str, Any] = {"clock": self._clock, "index": self._index}
        tenant = await asyncio.to_thread(Tenant, name, folder, limits, self.metrics, **options)
        hub = Hub(tenant, self.metrics)
        tenant.on_commit = hub.committed
        tenant.start(asyncio.get_running_loop())
        self.tenants[name], self.hubs[name] = tenant, hub
        self.hooks[name] = Hooks(tenant, hub, self.egress, self.metrics)
        await self.hooks[name].start()
        if self._kafka is not None:
            from matchwood.broker.kafka import Sink  # an extra

            tenant.kafka = True
            sink = Sink(tenant, hub, self._kafka, self.metrics)
            sink.start()
            self._connectors.append(sink)

    async def close(self) -> None:
        """End the streams, finish what was accepted, and close the files."""
        self.metrics.ready.set(0)
        self.stopping.set()
        if self._caring is not None:
            self._caring.cancel()
        for connector in self._connectors:
            await connector.stop()
        for name, tenant in self.tenants.items():
            self.hubs[name].close()
            await self.hooks[name].stop()
            await asyncio.to_thread(tenant.stop)

    # tenants and keys

    async def set_tenant(self, name: str, limits: TenantLimits, scoring: str | None = None) -> bool:
        """Add a tenant, or change its limits, and its scoring if it is given; True if it is new."""
        is_new = name not in self.tenants
        if not is_new and scoring is not None:
            await self.tenants[name].set_scoring(scoring)  # refused before anything is changed
        self._settings.tenants[name] = limits
        self._save()
        if not is_new:
            self.tenants[name].limits = limits
            return False
        await self._open_tenant(name)
        if scoring is not None:
            await self.tenants[name].set_scoring(scoring)
        return True

    def new_key(self, tenant: str, scopes: Iterable[str], name: str = "") -> tuple[Key, Secret]:
        """Make a key and store its hash."""
        if tenant != DEFAULT and tenant not in self._settings.tenants:
            raise NotFoundError(f"there is no tenant {tenant!r}; make it first: PUT /v1/tenants/{tenant}")
        key, secret = make_key(tenant, scopes, now=self._now(), note=name)
        self.keys.put(key)
        self._save()
        return key, secret

    def rotate_key(self, id_: str) -> tuple[Key, Secret]:
        """Give a key a new secret."""
        key, secret = rotate(self._key(id_), now=self._now())
        self.keys.put(key)
        self._save()
        return key, secret

    def revoke_key(self, id_: str) -> None:
        """Let a key be valid no longer."""
        self.keys.put(revoke(self._key(id_), now=self._now()))
        self._save()

    def _key(self, id_: str) -> Key:
        key = self.keys.get(id_)
        if key is None:
            raise NotFoundError(f"there is no key {id_!r}")
        return key

    def authenticate(self, authorization: bytes | None, scope: Scope) -> Key:
        """The key of a request, if it may be used for this."""
        key = self._authenticated.get(authorization or b"")
        if key is None:
            text = None if authorization is None else authorization.decode("latin-1")
            key = self.keys.authenticate(text, now=self._now())
            lasting = key.until is None and len(key.secrets) == 1
            if authorization is not None and lasting and len(self._authenticated) < _CACHED:
                self._authenticated[authorization] = key
        if not key.allows(scope):
            key.require(scope)
        if key.tenant not in self.tenants:
            raise AuthenticationError(f"the tenant of key {key.id!r} is not there")
        return key

    def check_administrator(self, key: Key) -> None:
        """Refuse a key of another tenant than the default one: it administers nothing beyond its tenant."""
        if key.tenant != DEFAULT:
            raise ForbiddenError("tenants and keys are managed with an admin key of the tenant 'default'")

    def _now(self) -> datetime:
        return self._clock().astimezone(UTC)

    def problems(self) -> dict[str, str]:
        """The tenants that refuse changes, and why."""
        return {name: tenant.problem for name, tenant in self.tenants.items() if tenant.problem is not None}

    def _refresh(self) -> None:
        """Set the gauges that are not updated by events."""
        metrics = self.metrics
        tenants = list(self.tenants.values())
        metrics.subscriptions.set(sum(len(tenant.engine) for tenant in tenants))
        metrics.live_events.set(sum(tenant.engine.live_count for tenant in tenants))
        paths = [path for path in (self.folder / "tenants").glob("*/journal.db*") if path.exists()]
        metrics.journal_bytes.set(sum(path.stat().st_size for path in paths))
        metrics.ready.set(float(not self.problems() and not self.stopping.is_set()))
        waiting = {"pull": 0, "webhook": 0, "kafka": 0}
        lag = dict.fromkeys(waiting, 0.0)
        dead = 0
        for tenant in tenants:
            for view in tenant.consumer_views():
                transport = transport_of(f"{view.transport}:")
                waiting[transport] += view.waiting
                lag[transport] = max(lag[transport], view.lag)
                dead += view.dead
        for transport, count in waiting.items():
            metrics.waiting.labels(transport).set(count)
            metrics.lag.labels(transport).set(lag[transport])
        metrics.dead_letters.set(dead)
        metrics.open_circuits.set(sum(hooks.open_circuits() for hooks in self.hooks.values()))
