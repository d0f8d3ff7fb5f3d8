"""A job board: people who subscribe late are still notified of the jobs that are open.

A job is published with the instant at which it closes, and is a live event until then. A new subscription returns the live events
that it matches, best first. The clock is set by hand, so that the output is always the same.

Prints:

    09:00  electrician published, notified: ann
    10:00  gardener published, notified: nobody
    11:00  bob subscribes, open jobs: electrician 3.0, gardener 1.0
    13:00  cat subscribes, open jobs: gardener 2.0
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
        notified = [people[hit.id] for hit in engine.publish(Event(values, id=number), until=closes)]
        print(f"{clock():%H:%M}  {title} published, notified: {', '.join(notified) or 'nobody'}")

    def subscribe(name: str, text: str) -> int:
        number = engine.subscribe(text)
        people[number] = name
        jobs = ", ".join(f"{JOBS[job.event][0]} {job.score}" for job in number.live)
        print(f"{clock():%H:%M}  {name} subscribes, open jobs: {jobs}")
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
