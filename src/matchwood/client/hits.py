"""What a subscriber iterates over: hits, and notices of what is missing."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from matchwood.broker.types import Delivery, DigestHit, Gap, Shed, TrackNotice

LOG = logging.getLogger("matchwood.client")
Notice = Gap | Shed


@dataclass(frozen=True, slots=True)
class Hit:
    """A match that was delivered. `id` is the same if it is delivered again: SUBSCRIPTION@SEQ.

    Of a digest, `digest` has its matches, best first, `event` is None, and `left_out` counts the others. Of a subscription that
    tracks objects, `track` says which object has entered, left or dwelt, and since when.
    """

    id: str
    subscription: str
    seq: int
    score: float
    event: Any
    metadata: Any = None
    event_id: str | None = None
    attempt: int = 1
    digest: list[DigestHit] = field(default_factory=list)
    left_out: int = 0
    track: TrackNotice | None = None
    _hits: Hits | None = field(default=None, repr=False, compare=False)

    async def ack(self) -> None:
        """Say that the hit is done: it is not delivered again. Acknowledgements go in groups; `Hits.flush` waits for them.

        Without `durable` there is nothing to acknowledge, and this does nothing.
        """
        if self._hits is not None:
            await self._hits._ack(self.id)

    async def nack(self, delay: float | None = None) -> None:
        """Give the hit back: it is delivered again after `delay` seconds (None: as the broker thinks fit)."""
        if self._hits is not None:
            await self._hits._nack(self.id, delay)


def hit_of(delivery: Delivery, hits: Hits) -> Hit:
    """The hit of a delivery."""
    return Hit(
        delivery.id,
        delivery.subscription,
        delivery.seq,
        delivery.score,
        delivery.event,
        delivery.metadata,
        delivery.event_id,
        delivery.attempt,
        delivery.digest or [],
        delivery.left_out or 0,
        delivery.track or None,
        hits,
    )


class Hits(ABC):
    """Hits as they come: `async with mw.subscribe(...) as hits: async for hit in hits: ...`.

    What the broker could not deliver is announced: `missed` counts the announcements, `on_notice` is called with each `Gap` or
    `Shed`, and without it they are logged (logger `matchwood.client`).
    """

    def __init__(self, on_notice: Callable[[Notice], None] | None) -> None:
        self.missed = 0
        self._on_notice = on_notice

    def __aiter__(self) -> AsyncIterator[Hit]:
        return self

    @abstractmethod
    async def __anext__(self) -> Hit: ...

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def flush(self) -> None:
        """Wait until the broker has taken every acknowledgement so far."""
        return

    async def _ack(self, id_: str) -> None:
        return

    async def _nack(self, id_: str, delay: float | None) -> None:
        return

    def _notify(self, notice: Notice) -> None:
        self.missed += 1
        if self._on_notice is not None:
            self._on_notice(notice)
        elif isinstance(notice, Shed):
            LOG.warning(
                "%d matches were left out, none with a score above %g: this client is too slow",
                notice.count,
                notice.below,
            )
        else:
            LOG.warning("matches after %d up to %d are lost: they are no longer retained", notice.from_, notice.to)
