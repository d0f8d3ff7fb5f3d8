"""An ad server in front of the broker: campaigns are subscriptions with weights and bids, and a page view asks for the best ad.

Needs a broker, and the two variables that `matchwood serve` prints: MATCHWOOD_URL and MATCHWOOD_KEY. The server asks with
`match`, so that nothing is published, and answers with the metadata of the best campaign. A paused one is not shown. Prints:

    age=27&interest=bikes   Nordic Bikes: ride to work
    age=64&interest=travel  Fjord Lines: sail in May
    age=15&interest=chess   our own ad
    age=27&interest=bikes   Bank: your first home
"""

import asyncio

import aiohttp
from aiohttp import web

import matchwood

CAMPAIGNS = [
    {"id": "bikes", "expression": "age BETWEEN 18 AND 70 ^0.2 AND interest = 'bikes' ^0.8", "priority": 1.5},
    {"id": "bank", "expression": "age BETWEEN 22 AND 36", "priority": 0.9},
    {"id": "fjord", "expression": "age >= 40 ^0.5 AND interest IN ('travel', 'food') ^0.5", "priority": 1.1},
]
TEXTS = {"bikes": "Nordic Bikes: ride to work", "bank": "Bank: your first home", "fjord": "Fjord Lines: sail in May"}
VIEWS = ["age=27&interest=bikes", "age=64&interest=travel", "age=15&interest=chess"]


async def main() -> None:
    async with matchwood.connect() as mw, aiohttp.ClientSession() as browser:
        for campaign in CAMPAIGNS:
            await mw.put({**campaign, "metadata": TEXTS[campaign["id"]], "delivery": {"type": "none"}})

        async def ad(request: web.Request) -> web.Response:
            view = {"age": int(request.query["age"]), "interest": request.query["interest"]}
            best = await mw.match(view, k=1)
            return web.Response(text=best[0].metadata if best else "our own ad")

        app = web.Application()
        app.router.add_get("/ad", ad)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/ad"

        async def show(view: str) -> None:
            async with browser.get(f"{url}?{view}") as answer:
                print(f"{view:<23} {await answer.text()}")

        for view in VIEWS:
            await show(view)
        await mw.update("bikes", paused=True)
        await show(VIEWS[0])
        await mw.update("bikes", paused=False)
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
