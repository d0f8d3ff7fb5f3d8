"""The client of a broker: `matchwood.connect(...)`, and `connect_sync` for code without `async`. Needs the extra `client`.

    async with matchwood.connect("http://127.0.0.1:8440", key="mw_...") as mw:
        await mw.publish({"item": "phone", "price": 250})
        async with mw.subscribe("price < 300", durable="me") as hits:
            async for hit in hits:
                print(hit.score, hit.event)
                await hit.ack()

Errors are those of the engine (`ParseError` with its caret, `UnknownSubscriptionError` ...) and of the service (`ServiceError`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matchwood.client.client import Client, connect
    from matchwood.client.hits import Hit, Hits
    from matchwood.client.sync import SyncClient, connect_sync

_MODULE_OF = {
    "Client": "client",
    "connect": "client",
    "Hit": "hits",
    "Hits": "hits",
    "SyncClient": "sync",
    "connect_sync": "sync",
}
__all__ = ["Client", "Hit", "Hits", "SyncClient", "connect", "connect_sync"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
