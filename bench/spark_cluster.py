"""A simulation of the queues of a cluster that matches a stream in micro-batches: machines, shards, skew and failures.

    python -m bench.spark_cluster [--machines 3] [--cores 16] [--events 1000000] [--trigger 1.0] ...

It checks the plan of docs/design/spark.md. It takes as given the constants that `python -m bench spark --preset paper` has found
on one machine (`--figures`, by default those that are kept), and adds what a sum of means leaves out: tasks of different lengths
that wait for a core, cells of the plane that many events fall into, machines that fail and come back without their cache, and
micro-batches that queue up behind a slow one.

A micro-batch arrives every `trigger` seconds. Its events are divided into tasks; a task takes the time of its events (lognormal
around the mean, more for hot cells), runs on the machine that has the fewest tasks waiting, and is repeated elsewhere if that
machine fails. The micro-batch is finished with its last task; the next one begins then, with all events that came meanwhile.
"""

from __future__ import annotations

import argparse
import heapq
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Plan:
    """A cluster and its load. Times in seconds."""

    machines: int = 3
    cores: int = 16
    events: float = 1_000_000.0
    """A second."""
    trigger: float = 1.0
    tasks: int = 0
    """Of a micro-batch; 0 for two a core."""
    visit: float = 20e-6
    """Of a core for an event: one visit of a spatial shard of 1M subscriptions and a small one of `wide`."""
    floor: float = 0.235
    """Of a micro-batch that matches nothing."""
    skew: float = 0.8
    """Exponent of the popularity of cells (Zipf); 0 for none."""
    cells: int = 100
    heat: float = 0.5
    """How much longer an event of the most popular cell takes: its shard has more subscriptions nearby."""
    jitter: float = 0.25
    """Standard deviation of the logarithm of the time of a task."""
    failures: float = 1 / 3600
    """Of a machine, a second."""
    repair: float = 60.0
    """Until a machine is back."""
    shard_bytes: float = 30e9
    network: float = 1e9
    """Bytes a second; a machine that comes back downloads all shards while it works, at half speed."""
    seconds: float = 600.0
    seed: int = 1


SUBSCRIPTIONS = 100_000_000
KEPT = Path(__file__).parent.parent / "docs" / "figures" / "spark.json"


def measured(figures: Path = KEPT) -> Plan:
    """The plan with the constants of stored figures: of two cores, an event that visits the shards of its place."""
    rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]

    def value(ending: str, metric: str) -> float:
        return float(next(row["value"] for row in rows if row["system"].endswith(ending) and row["metric"] == metric))

    visit = 2 * value("shards, all in every task, top-10", "us_per_event") / 1e6
    size = next(row["value"] / row["n"] for row in rows if row["system"] == "mo-tree" and row["metric"] == "bytes")
    copies = value("shards", "copies_per_subscription")
    floor = value("micro-batch of 1,000, bare: to Parquet", "ms") / 1e3
    return Plan(visit=visit, floor=floor, shard_bytes=SUBSCRIPTIONS * size * copies)


class Outcome(NamedTuple):
    """What the simulation found. Latency is that of an event: from its arrival to the end of its micro-batch."""

    batches: int
    median_batch: float
    p99_batch: float
    median_latency: float
    p99_latency: float
    utilisation: float
    backlog: float
    """Events that wait at the end, in seconds of load; it grows without bound if the cluster is too small."""
    failures: int
    repeated_tasks: int


def simulate(plan: Plan) -> Outcome:
    """Run the stream for `plan.seconds`. O(tasks log tasks)."""
    rng = np.random.default_rng(plan.seed)
    tasks = plan.tasks or 2 * plan.machines * plan.cores
    popularity = np.arange(1, plan.cells + 1) ** -plan.skew
    popularity /= popularity.sum()
    warm = np.zeros(plan.machines)  # until when a machine downloads shards
    down = np.zeros(plan.machines)  # until when it is down
    next_failure = rng.exponential(1 / max(plan.failures, 1e-12), plan.machines)
    now = begun = 0.0
    durations: list[float] = []
    latencies: list[float] = []
    busy, failures, repeated = 0.0, 0, 0
    while now < plan.seconds:
        start = max(now, begun + plan.trigger)
        count = plan.events * (start - begun)  # what has arrived since the micro-batch before began
        lengths = _lengths(plan, rng, tasks, count, popularity)
        end, used, failed, again = _run(plan, rng, lengths, start + plan.floor, warm, down, next_failure)
        durations.append(end - start)
        latencies += [end - begun, end - (begun + start) / 2, end - start]  # first, middle and last event
        busy, failures, repeated = busy + used, failures + failed, repeated + again
        begun, now = start, end
    backlog = now - begun
    return Outcome(
        len(durations),
        *(float(np.percentile(durations, share)) for share in (50, 99)),
        *(float(np.percentile(latencies, share)) for share in (50, 99)),
        busy / (now * plan.machines * plan.cores),
        backlog,
        failures,
        repeated,
    )


def _lengths(plan: Plan, rng: np.random.Generator, tasks: int, count: float, popularity: np.ndarray) -> np.ndarray:
    """The seconds of each task, of one core: its events, the cells they fall into, and chance."""
    cells = rng.multinomial(max(int(count / tasks), 1), popularity, size=tasks)
    heat = 1.0 + plan.heat * popularity / popularity[0]
    noise = rng.lognormal(-(plan.jitter**2) / 2, plan.jitter, tasks)
    lengths: np.ndarray = (cells * heat).sum(axis=1) * plan.visit * noise
    return lengths


def _run(
    plan: Plan,
    rng: np.random.Generator,
    lengths: np.ndarray,
    start: float,
    warm: np.ndarray,
    down: np.ndarray,
    next_failure: np.ndarray,
) -> tuple[float, float, int, int]:
    """Run the tasks of a micro-batch: (its end, seconds of cores, failures, repeated tasks)."""
    free = [(max(start, down[machine]), machine) for machine in range(plan.machines) for _ in range(plan.cores)]
    heapq.heapify(free)
    waiting = sorted(lengths.tolist())
    end, used, failures, repeated = start, 0.0, 0, 0
    while waiting:
        length = waiting.pop()
        begin, machine = heapq.heappop(free)
        while begin < down[machine]:  # it has failed since this core was noted as free
            heapq.heappush(free, (down[machine], machine))
            begin, machine = heapq.heappop(free)
        speed = 0.5 if begin < warm[machine] else 1.0
        finish = begin + length / speed
        if next_failure[machine] < finish:
            failures += 1
            repeated += 1
            down[machine] = max(next_failure[machine], begin) + plan.repair
            warm[machine] = down[machine] + plan.shard_bytes / plan.network
            next_failure[machine] = down[machine] + rng.exponential(1 / max(plan.failures, 1e-12))
            waiting.append(length)
            heapq.heappush(free, (down[machine], machine))
            continue
        used += length / speed
        end = max(end, finish)
        heapq.heappush(free, (finish, machine))
    return end, used, failures, repeated


def main() -> None:
    """Simulate a plan that the command line describes, and print it with its outcome as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_cluster", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--figures", type=Path, default=KEPT, help="figures of `python -m bench spark` to take constants from"
    )
    for name, value in asdict(Plan()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value))
    given = vars(parser.parse_args())
    plan = replace(
        measured(given.pop("figures")), **{name: value for name, value in given.items() if value is not None}
    )
    print(json.dumps({"plan": asdict(plan), "outcome": simulate(plan)._asdict()}, indent=1))


if __name__ == "__main__":
    main()
