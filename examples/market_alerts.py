"""Market alerts: ranges as values, alerts that expire, and alerts that fire once.

The value of an event may be a range: the low and the high of an hour. An alert matches if its interval overlaps that range. An
alert with `until` expires; one that should fire once is unsubscribed after its first match.

Prints:

    10:00  NORD 98..103: ann (breaks 100), bob (10 above plan)
    11:00  NORD 104..106: bob (10 above plan)
    12:00  NORD 88..97: cat (back below 90)
    12:00  SYD 40..41: dan (any small company that moves by 5%)
    3 alerts are left
"""

from datetime import UTC, datetime

from matchwood import Engine, ManualClock, Range

ALERTS = [  # who, what for, the condition, until when, does it fire once?
    ("ann", "breaks 100", "symbol = 'NORD' AND price >= 100", None, True),
    ("bob", "10 above plan", "symbol = 'NORD' AND price BETWEEN 102 AND 110", "2026-05-04T12:00:00Z", False),
    ("cat", "back below 90", "symbol IN ('NORD', 'VEST') AND price < 90", None, False),
    ("dan", "any small company that moves by 5%", "cap < 5e8 AND (change >= 5 OR change <= -5)", None, False),
    ("eve", "a quiet day", "symbol = 'SYD' AND change BETWEEN -1 AND 1", None, False),
]
HOURS = [
    [{"symbol": "NORD", "price": Range(98, 103), "cap": 2e9, "change": 1.5}],
    [{"symbol": "NORD", "price": Range(104, 106), "cap": 2e9, "change": 3.0}],
    [
        {"symbol": "NORD", "price": Range(88, 97), "cap": 2e9, "change": -9.0},
        {"symbol": "SYD", "price": Range(40, 41), "cap": 1e8, "change": -5.5},
    ],
]


def main() -> None:
    clock = ManualClock(datetime(2026, 5, 4, 10, tzinfo=UTC))
    engine = Engine(clock=clock)
    for number, (_, _, condition, until, _) in enumerate(ALERTS):
        engine.subscribe(condition, id=number, until=until)
    for hour in HOURS:
        for quote in hour:
            hits = [hit.id for hit in engine.match(quote)]
            heard = ", ".join(f"{ALERTS[i][0]} ({ALERTS[i][1]})" for i in sorted(hits))
            price = quote["price"]
            print(f"{clock():%H:%M}  {quote['symbol']} {price.lo}..{price.hi}: {heard or 'nobody'}")
            engine.unsubscribe_many([i for i in hits if ALERTS[i][4]])
        clock.advance(hours=1)
    print(f"{len(engine)} alerts are left")


if __name__ == "__main__":
    main()
