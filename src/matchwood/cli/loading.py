"""The work of `matchwood bench`: connections that publish, one request after the other, and a summary of their times."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from pathlib import Path
from urllib.parse import urlsplit

from matchwood.broker.egress import literal
from matchwood.broker.types import Published, PublishedMany
from matchwood.client import Client
from matchwood.client.transport import NDJSON
from matchwood.errors import RequestError

_MADE = 10_000


def read_lines(path: Path | None) -> list[bytes]:
    """The events to publish: the lines of a file, or made-up offers."""
    if path is None:
        draw = random.Random(29)
        items = ["phone", "bike", "desk", "lamp", "boat"]
        made = [
            {"item": draw.choice(items), "price": draw.randrange(5000), "used": draw.random() < 0.5}
            for _ in range(_MADE)
        ]
        return [json.dumps(event).encode() for event in made]
    try:
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error}") from None
    if not lines:
        raise RequestError(f"{path} has no events")
    return lines


async def measured(mw: Client, lines: list[bytes], options: argparse.Namespace) -> None:
    """Publish until the time is over; print rate and latency."""
    url = mw._transport.url
    address = literal(urlsplit(url).hostname or "")
    local = urlsplit(url).hostname == "localhost" or (address is not None and address.is_loopback)
    if not local and not options.anywhere:
        raise RequestError(f"{url} is not on this machine; add --anywhere if you may put it under load")
    times: list[float] = []
    start = time.perf_counter()
    end = start + options.seconds
    await asyncio.gather(*(_connection(mw, lines, n, options.batch, end, times) for n in range(options.connections)))
    took = time.perf_counter() - start
    times.sort()
    p50, p99 = (times[min(len(times) - 1, int(len(times) * share))] * 1000 for share in (0.5, 0.99))
    rate = len(times) * options.batch / took
    print(f"{rate:,.0f} events/s in {len(times):,} requests of {options.batch} over {options.connections} connections")
    print(f"acknowledged after {p50:.2f} ms (p50), {p99:.2f} ms (p99), {times[-1] * 1000:.2f} ms (longest)")


async def _connection(mw: Client, lines: list[bytes], offset: int, batch: int, end: float, times: list[float]) -> None:
    position = offset * batch
    while (now := time.perf_counter()) < end or not times:
        group = [lines[(position + n) % len(lines)] for n in range(batch)]
        position += batch
        if batch == 1:
            await mw._transport.call("POST", "/v1/events", Published, body=group[0])
        else:
            body = b"\n".join(group)
            await mw._transport.call("POST", "/v1/events", PublishedMany, body=body, content_type=NDJSON)
        times.append(time.perf_counter() - now)
