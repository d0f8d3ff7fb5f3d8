"""Couriers: each listens to orders near it, and an order goes to the best courier that is close enough.

Needs a broker, and the two variables that `matchwood serve` prints: MATCHWOOD_URL and MATCHWOOD_KEY. A courier is a subscription
with a place and a radius; its rating is the priority. `k=1` delivers an order to the best one only. Prints:

    order 1 to Grünerløkka: 1 courier
    eva rides to Grünerløkka: 2 parcels
    order 2 to Majorstuen: 1 courier
    ola rides to Majorstuen: 1 parcel
    order 3 to Drammen: 0 couriers
"""

import asyncio

import matchwood
from matchwood.client import Client

COURIERS = {  # place, rating
    "ola": ((10.715, 59.929), 4.1),
    "eva": ((10.757, 59.921), 4.8),
    "per": ((10.760, 59.924), 3.9),
}
ORDERS = [
    {"to": "Grünerløkka", "place": {"lon": 10.759, "lat": 59.923}, "parcels": 2},
    {"to": "Majorstuen", "place": {"lon": 10.713, "lat": 59.930}, "parcels": 1},
    {"to": "Drammen", "place": {"lon": 10.204, "lat": 59.744}, "parcels": 1},
]


async def ride(mw: Client, name: str, ready: asyncio.Barrier, rides: asyncio.Queue[str]) -> None:
    place, rating = COURIERS[name]
    async with mw.subscribe("parcels <= 3", place=place, radius=2000, priority=rating, metadata={"name": name}) as hits:
        await ready.wait()
        async for hit in hits:
            count = hit.event["parcels"]
            await rides.put(
                f"{hit.metadata['name']} rides to {hit.event['to']}: {count} parcel{'s' if count > 1 else ''}"
            )


async def main() -> None:
    ready, rides = asyncio.Barrier(len(COURIERS) + 1), asyncio.Queue()
    async with matchwood.connect() as mw:
        tasks = [asyncio.create_task(ride(mw, name, ready, rides)) for name in COURIERS]
        await ready.wait()
        for number, order in enumerate(ORDERS, 1):
            published = await mw.publish(order, k=1)
            print(
                f"order {number} to {order['to']}: {published.matched} courier{'' if published.matched == 1 else 's'}"
            )
            if published.matched:
                print(await rides.get())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
