"""A webhook receiver for tests: a real HTTP server on a loopback address, whose answers the test decides."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

CERTIFICATE = Path(__file__).with_name("certificate.pem")
"""A key and a certificate for 127.0.0.1, for tests."""


@dataclass
class Receiver:
    """What arrived, and how to answer. `answers` are used one after the other, the last one from then on."""

    answers: list[web.Response | Callable[[web.Request], Awaitable[web.StreamResponse]]]
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    at_once: int = 0
    most_at_once: int = 0
    pause: float = 0.0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.requests.append((dict(request.headers), await request.read()))
            await asyncio.sleep(self.pause)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, web.Response):
                return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
            return await answer(request)
        finally:
            self.at_once -= 1


@asynccontextmanager
async def receiving(
    *answers: web.Response | Callable[[web.Request], Awaitable[web.StreamResponse]],
    tls: bool = False,
) -> AsyncIterator[Receiver]:
    """A receiver that runs until the block ends; with `tls` it has a certificate that nobody has signed."""
    receiver = Receiver(list(answers) or [web.Response(status=204)])
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATE)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    receiver.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()
