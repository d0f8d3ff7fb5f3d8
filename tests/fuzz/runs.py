"""`python -m tests.fuzz [--inputs N] [--jobs N] [--seed N] [--target NAME]`: damaged inputs by the million, counted.

Every round is seeded by (seed, target, number), so a failure is repeated by the command that is printed with it.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import sys
import time
from random import Random
from typing import NamedTuple

from tests.fuzz.targets import TARGETS

SLOW_S = 5.0
"""Of CPU time: an input that takes longer is taken for a hang."""


class Part(NamedTuple):
    """Some rounds of one target."""

    target: str
    seed: int
    first: int
    inputs: int


class Outcome(NamedTuple):
    target: str
    inputs: int
    slowest: float


def run_part(part: Part) -> Outcome:
    """Rounds until the part's inputs have been made; an AssertionError names the round that failed."""
    made, number, slowest = 0, part.first, 0.0
    while made < part.inputs:
        inputs, took = _round(part, number)
        if took >= SLOW_S:  # it may have compiled a kernel, which nobody does twice
            inputs, took = _round(part, number)
        made += inputs
        slowest = max(slowest, took)
        number += 1
    faulthandler.cancel_dump_traceback_later()
    assert slowest < SLOW_S, f"{part.target}: an input took {slowest:.1f} s of CPU time"
    return Outcome(part.target, made, slowest)


def _round(part: Part, number: int) -> tuple[int, float]:
    """One round of the part's target: how many inputs it made, and the CPU time they took."""
    target, _ = TARGETS[part.target]
    faulthandler.dump_traceback_later(12 * SLOW_S, exit=True)
    start = time.process_time()
    try:
        made = target(Random(f"{part.seed} {part.target} {number}"))
    except BaseException as error:
        again = f"python -m tests.fuzz --target {part.target!r} --seed {part.seed} --round {number}"
        raise AssertionError(f"{again}: {type(error).__name__}: {error}") from error
    return made, time.process_time() - start


def parts_of(inputs: int, seed: int, only: str | None) -> list[Part]:
    """The inputs, shared among the targets, in parts that processes take one by one."""
    total = sum(share for _, share in TARGETS.values())
    parts = []
    for name, (_, share) in TARGETS.items():
        if only is not None and name != only:
            continue
        left, first = inputs if only is not None else -(-inputs * share // total), 0
        while left > 0:
            size = min(left, 2_000)
            parts.append(Part(name, seed, first, size))
            first += size
            left -= size
    return parts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=list(TARGETS))
    parser.add_argument("--round", type=int, help="repeat this one round of the target")
    options = parser.parse_args()
    faulthandler.enable()
    if options.round is not None:
        TARGETS[options.target][0](Random(f"{options.seed} {options.target} {options.round}"))
        return 0
    start = time.perf_counter()
    counts = dict.fromkeys(TARGETS, 0)
    slowest = 0.0
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        parts = parts_of(options.inputs, options.seed, options.target)
        for done, outcome in enumerate(pool.imap_unordered(run_part, parts), 1):
            counts[outcome.target] += outcome.inputs
            slowest = max(slowest, outcome.slowest)
            if done % 10 == 0:
                print(
                    f"{sum(counts.values()):>9,} inputs, {time.perf_counter() - start:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    for name, count in counts.items():
        print(f"{count:>9,}  {name}")
    print(
        f"{sum(counts.values()):>9,}  inputs in {time.perf_counter() - start:.0f} s, the slowest {slowest:.2f} s, none escaped"
    )
    return 0
