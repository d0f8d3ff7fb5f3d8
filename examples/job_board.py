"""A job board: people who subscribe late still hear of the jobs that are open.

A job is published with the instant at which it closes; until then it stays alive. Whoever subscribes meanwhile is told at once,
best first. The clock is set by hand here, so that the story always goes the same way.

Prints:

    09:00  electrician published, 1 is told: ann
    10:00  gardener published, nobody is told
    11:00  bob subscribes and is told of: electrician 3.0, gardener 1.0
    13:00  cat subscribes and is told of: gardener 2.0
    14:00  the gardener is found: 0 open jobs for cat
"""

from datetime import UTC, datetime

from matchwood import Engine, Event, ManualClock

START = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
JOBS = {
    1: ("electrician", {"trade": "electric", "hourly_rate": 41, "remote": False}, "2026-05-04T12:00:00Z"),
    2: ("gardener", {"trade": "garden", "hourly_rate": 27, "remote": False}, "2026-05-05T09:00:00Z"),
}


def main() -> None:
    clock = ManualClock(START)
    engine = Engine(clock=clock)
    people = {engine.subscribe("trade IN ('electric', 'plumbing') AND hourly_rate >= 35"): "ann"}

    def publish(number: int) -> None:
        title, values, closes = JOBS[number]
        told = [people[hit.id] for hit in engine.publish(Event(values, id=number), until=closes)]
        who = f"{len(told)} is told: {', '.join(told)}" if told else "nobody is told"
        print(f"{clock():%H:%M}  {title} published, {who}")

    def subscribe(name: str, text: str) -> int:
        number = engine.subscribe(text)
        people[number] = name
        jobs = ", ".join(f"{JOBS[job.event][0]} {job.score}" for job in number.live)
        print(f"{clock():%H:%M}  {name} subscribes and is told of: {jobs}")
        return number

    publish(1)
    clock.advance(hours=1)
    publish(2)
    clock.advance(hours=1)
    subscribe("bob", "hourly_rate > 25 OR trade = 'electric' ^2 AND hourly_rate > 40")
    clock.advance(hours=2)
    cat = subscribe("cat", "hourly_rate > 20 AND remote = FALSE")
    clock.advance(hours=1)
    engine.retract(2)
    print(f"{clock():%H:%M}  the gardener is found: {len(engine.live(cat))} open jobs for cat")


if __name__ == "__main__":
    main()
