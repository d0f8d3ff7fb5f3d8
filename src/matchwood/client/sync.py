"""The client for code without `async`: the same calls, run by an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from matchwood.client.client import Client, connect
from matchwood.client.hits import Hit, Hits
from matchwood.errors import RequestError

T = TypeVar("T")
_STREAMS = frozenset({"subscribe", "consume", "listen"})


def connect_sync(url: str | None = None, *, key: str | None = None, **options: Any) -> SyncClient:
    """`connect` without `async`. Every call of `Client` has its counterpart that waits; those that give hits are iterated.

        with matchwood.connect_sync("http://127.0.0.1:8440", key="mw_...") as mw:
            mw.publish({"price": 250})
            with mw.subscribe("price < 300", durable="me") as hits:
                for hit in hits:
                    hit.ack()

    >>> connect_sync("http://127.0.0.1:8440", key="mw_...")
    <SyncClient of http://127.0.0.1:8440>
    """
    return SyncClient(connect(url, key=key, **options))


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="matchwood-client", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop and wait. Ctrl-C cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Proxy:
    """Calls of an object that is used from the loop: a coroutine is awaited, an asynchronous iterator becomes a list."""

    def __init__(self, target: Any, loop: _Loop) -> None:
        self._target, self._loop = target, loop

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._target, name)
        if not callable(found):
            return _Proxy(found, self._loop)

        def call(*args: Any, **options: Any) -> Any:
            made = found(*args, **options)
            if isinstance(made, Coroutine):
                return self._loop.run(made)
            return self._loop.run(_listed(made)) if isinstance(made, AsyncIterator) else made

        call.__name__, call.__doc__ = name, found.__doc__
        return call


class SyncClient(_Proxy):
    """A client whose calls wait; made by `connect_sync`. Calls may come from several threads.

    Beside those of `Client` it has `hooks`, `keys` and `dead`. Calls that list (`subscriptions`, `events`, `dead.list`) return
    lists.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<Sync{repr(self._client)[1:]}"

    def __enter__(self) -> Self:
        super().__init__(self._client, _Loop())
        self._loop.run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self._client.__aexit__(kind, error, trace))
        finally:
            self._loop.close()
            del self._loop

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and "_loop" not in vars(self):
            raise RequestError("the client is not open; use it as `with matchwood.connect_sync(...) as mw`")
        if name in _STREAMS:
            return lambda *args, **options: SyncHits(lambda: getattr(self._client, name)(*args, **options), self._loop)
        return super().__getattr__(name)


class SyncHit:
    """A hit whose `ack` and `nack` wait. Everything else is that of `Hit`."""

    def __init__(self, hit: Hit, loop: _Loop) -> None:
        self._hit, self._loop = hit, loop

    def __repr__(self) -> str:
        return f"Sync{self._hit!r}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hit, name)

    def ack(self) -> None:
        """As `Hit.ack`."""
        self._loop.run(self._hit.ack())

    def nack(self, delay: float | None = None) -> None:
        """As `Hit.nack`."""
        self._loop.run(self._hit.nack(delay))


class SyncHits(AbstractContextManager["SyncHits"]):
    """Hits that are iterated with `for`."""

    def __init__(self, make: Any, loop: _Loop) -> None:
        self._make, self._loop = make, loop
        self._hits: Hits | None = None

    def __enter__(self) -> Self:
        async def made() -> Hits:
            return await self._make().__aenter__()  # type: ignore[no-any-return]  # within the loop

        self._hits = self._loop.run(made())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hits is not None:
            self._loop.run(self._hits.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[SyncHit]:
        assert self._hits is not None, "use hits in a `with` block"
        while True:
            try:
                yield SyncHit(self._loop.run(_next(self._hits)), self._loop)
            except (_Ended, CancelledError):
                return

    @property
    def missed(self) -> int:
        """As `Hits.missed`."""
        return 0 if self._hits is None else self._hits.missed

    def flush(self) -> None:
        """As `Hits.flush`."""
        if self._hits is not None:
            self._loop.run(self._hits.flush())


class _Ended(Exception):  # noqa: N818
    pass


async def _next(hits: Hits) -> Hit:
    try:
        return await hits.__anext__()
    except StopAsyncIteration:
        raise _Ended from None


async def _listed(source: AsyncIterator[T]) -> list[T]:
    return [one async for one in source]
