"""What those who run a broker do through a client: webhooks, keys, dead letters. `mw.hooks`, `mw.keys`, `mw.dead`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import NoneType
from urllib.parse import quote

from matchwood.broker.types import (
    DeadAnswer,
    DeadChoice,
    DeadLetter,
    DeadPage,
    HookPage,
    HookView,
    KeyPage,
    KeyView,
    NewHook,
)
from matchwood.client.transport import Transport


class _Part:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Hooks(_Part):
    """Webhooks, by name. Needs the scope `manage`."""

    async def list(self) -> list[HookView]:
        """All webhooks."""
        return (await self._transport.call("GET", "/v1/hooks", HookPage)).hooks

    async def put(
        self, name: str, url: str, *, enabled: bool = True, ordered: bool = True, retries: int | None = None
    ) -> HookView:
        """Add a webhook or change it. A new one comes with its `secret`, once.

        The matches of a subscription are sent one after the other unless `ordered` is False. After so many `retries` a message
        is a dead letter: without it 6 (1 h 43 min) if ordered, 10 (27 hours) if not.
        """
        body = NewHook(url=url, enabled=enabled, ordered=ordered, retries=retries)
        return await self._transport.call("PUT", f"/v1/hooks/{quote(name, safe='')}", HookView, body=body)

    async def rotate(self, name: str) -> HookView:
        """Give the webhook a new secret, which the answer has; both sign for a day."""
        path = f"/v1/hooks/{quote(name, safe='')}/rotate"
        return await self._transport.call("POST", path, HookView, repeat=False)

    async def remove(self, name: str) -> None:
        """Remove the webhook."""
        await self._transport.call("DELETE", f"/v1/hooks/{quote(name, safe='')}", NoneType)


class Keys(_Part):
    """Keys. Needs the scope `admin`."""

    async def list(self) -> list[KeyView]:
        """All keys, without their secrets."""
        return (await self._transport.call("GET", "/v1/keys", KeyPage)).keys

    async def make(self, scopes: Iterable[str], *, tenant: str = "default", note: str = "") -> KeyView:
        """Make a key; the answer has its text as `key`, once."""
        body = {"scopes": list(scopes), "tenant": tenant, "note": note}
        return await self._transport.call("POST", "/v1/keys", KeyView, body=body, repeat=False)

    async def rotate(self, id: str) -> KeyView:
        """Give the key a new secret; the old one is valid for a day."""
        return await self._transport.call("POST", f"/v1/keys/{quote(id, safe='')}/rotate", KeyView, repeat=False)

    async def revoke(self, id: str) -> None:
        """End the key."""
        await self._transport.call("DELETE", f"/v1/keys/{quote(id, safe='')}", NoneType)


class Dead(_Part):
    """Dead letters: deliveries that were given up. Needs the scope `manage`."""

    async def list(self, *, consumer: str | None = None, limit: int | None = None) -> AsyncIterator[DeadLetter]:
        """The dead letters, of one consumer or webhook if it is named."""
        after: int | None = None
        while True:
            params = {"consumer": consumer, "after": after, "limit": limit}
            page = await self._transport.call("GET", "/v1/dead", DeadPage, params=params)
            for letter in page.dead:
                yield letter
            if page.next is None:
                return
            after = page.next

    async def replay(self, *, numbers: Iterable[int] | None = None, consumer: str | None = None) -> int:
        """Deliver dead letters again, by number or all of a consumer; return how many."""
        return await self._choose("replay", numbers, consumer)

    async def discard(self, *, numbers: Iterable[int] | None = None, consumer: str | None = None) -> int:
        """Forget dead letters, by number or all of a consumer; return how many."""
        return await self._choose("discard", numbers, consumer)

    async def _choose(self, verb: str, numbers: Iterable[int] | None, consumer: str | None) -> int:
        body = DeadChoice(numbers=None if numbers is None else [*numbers], consumer=consumer)
        return (await self._transport.call("POST", f"/v1/dead/{verb}", DeadAnswer, body=body)).count
