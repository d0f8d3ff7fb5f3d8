"""Property alerts by webhook: saved searches live at the broker, and a program of yours is called for each home that fits.

Start a broker that may reach this machine, and set the two variables that it prints:

    matchwood serve --data build/broker --allow-webhooks-to 127.0.0.0/8 --allow-http-webhooks
    export MATCHWOOD_URL=http://127.0.0.1:8440 MATCHWOOD_KEY=mw_...

Every message is signed; the receiver accepts nothing else. Prints:

    published 3 homes
    ann: 3 rooms in Oslo for 4,100,000 (score 3)
    bob: 2 rooms in Bergen for 2,900,000 (score 1)
    bob: 3 rooms in Oslo for 4,100,000 (score 1)
"""

import asyncio
import json
import time

from aiohttp import web

import matchwood
from matchwood.broker.signatures import verify

SEARCHES = {
    "ann": "city = 'Oslo' AND rooms >= 3 AND price < 5000000",
    "bob": "price < 4500000",
}
HOMES = [
    {"city": "Oslo", "rooms": 3, "price": 4_100_000},
    {"city": "Oslo", "rooms": 5, "price": 9_800_000},
    {"city": "Bergen", "rooms": 2, "price": 2_900_000},
]


async def main() -> None:
    received: asyncio.Queue[str] = asyncio.Queue()
    secrets: list[str] = []

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        verify(secrets, request.headers, body, now=time.time())  # raises if somebody else sent it
        hit = json.loads(body)
        home = hit["event"]
        about = f"{home['rooms']} rooms in {home['city']} for {home['price']:,}"
        await received.put(f"{hit['subscription']}: {about} (score {hit['score']:g})")
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/alerts", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async with matchwood.connect() as mw:
        hook = await mw.hooks.put("alerts", f"http://127.0.0.1:{runner.addresses[0][1]}/alerts")
        secrets.append(hook.secret or (await mw.hooks.rotate("alerts")).secret)
        for name, search in SEARCHES.items():
            await mw.put(search, id=name, delivery={"type": "webhook", "hook": "alerts"})
        answer = await mw.publish_many(HOMES)
        print(f"published {len(answer.events)} homes")
        print("\n".join(sorted([await received.get() for _ in range(3)])))
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
