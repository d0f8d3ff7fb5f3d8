"""Prefixes and contained texts on events of ten strings: the engine beside Aho-Corasick automata, and beside a plain loop.

Half of the subscriptions ask for a prefix, half for a contained text, of one or two words, each on one of ten attributes; the
strings of events have five words. The automata (pyahocorasick, one for each attribute) have all texts, and a hit of a prefix
counts at the beginning of the string; they cannot take another text without being built again. Metrics, in processor time:

    us_per_event     all matches of a batch of mappings (`match_many`)
    match_us         single calls with a mapping
    subscribe_us     a subscription from its text, one after the other; of the automata, adding all and building once

Before anything is timed, the answers are compared with those of the loop.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from bench.report import Report
from matchwood import Engine

WORKLOAD = "L1 patterns"
SIZES = {"quick": 5_000, "paper": 100_000}
EVENTS = {"quick": 100, "paper": 1_000}
COMPARED = 20
ATTRIBUTES = 10
WORDS = 20_000
ROUNDS = 5


class Pattern(NamedTuple):
    """A subscription: the attribute, the text, and whether it is a prefix."""

    attribute: str
    text: str
    is_prefix: bool

    @property
    def expression(self) -> str:
        return f"{self.attribute} LIKE '{self.text}%'" if self.is_prefix else f"{self.attribute} LIKE '%{self.text}%'"

    def holds(self, event: dict[str, str]) -> bool:
        value = event[self.attribute]
        return value.startswith(self.text) if self.is_prefix else self.text in value


def run(preset: str, report: Report) -> None:
    """One part."""
    report.part(f"patterns, {SIZES[preset]:,}", partial(measure, preset, report))


def made(size: int, events: int) -> tuple[list[Pattern], list[dict[str, str]]]:
    """Patterns and events, seeded."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(4, 9))) for _ in range(WORDS)]
    patterns = []
    for number in range(size):
        text = " ".join(rng.choices(words, k=rng.randint(1, 2)))
        patterns.append(Pattern(f"s{rng.randrange(ATTRIBUTES)}", text, number % 2 == 1))
    values = [{f"s{at}": " ".join(rng.choices(words, k=5)) for at in range(ATTRIBUTES)} for _ in range(events)]
    return patterns, values


def measure(preset: str, report: Report) -> None:
    """The engine, the automata and the loop on one workload."""
    size = SIZES[preset]
    patterns, events = made(size, EVENTS[preset])
    report.workload(f"{WORKLOAD}, {size:,}", size=size, events=len(events), words=WORDS, seed=1)
    start = time.process_time()
    engine = Engine()
    for pattern in patterns:
        engine.subscribe(pattern.expression)
    subscribing = (time.process_time() - start) / size * 1e6
    systems: dict[str, Callable[[dict[str, str]], list[int]]] = {
        "engine": lambda event: sorted(int(match.id) for match in engine.match(event))
    }
    start = time.process_time()
    automata = automata_of(patterns)
    building = (time.process_time() - start) / size * 1e6
    if automata is not None:
        systems["Aho-Corasick"] = automata
    for event in events[:COMPARED]:
        expected = [number for number, pattern in enumerate(patterns) if pattern.holds(event)]
        for name, answer in systems.items():
            if answer(event) != expected:
                raise SystemExit(f"{name} answers {answer(event)}, expected {expected}")
    engine.match_many(events)
    engine.replan()  # now, so that no trial runs beside what is timed
    record = partial(report.row, workload=WORKLOAD, n=size, verified=True)
    loop = cpu_us(lambda: [[pattern.holds(event) for pattern in patterns] for event in events[:3]], 3)
    record(system="loop", metric="us_per_event", value=loop)
    theirs = loop
    if automata is not None:
        theirs = cpu_us(lambda: [automata(event) for event in events], len(events))
        record(system="Aho-Corasick", metric="us_per_event", value=theirs, baseline="loop", ratio=loop / theirs)
        record(system="Aho-Corasick", metric="subscribe_us", value=building)
    rival = "loop" if automata is None else "Aho-Corasick"
    batch = cpu_us(lambda: engine.match_many(events), len(events))
    record(system="auto", metric="us_per_event", value=batch, baseline=rival, ratio=theirs / batch)
    single = cpu_us(lambda: [engine.match(event) for event in events], len(events))
    record(system="auto", metric="match_us", value=single, baseline=rival, ratio=theirs / single)
    record(system="auto", metric="subscribe_us", value=subscribing)


def automata_of(patterns: list[Pattern]) -> Callable[[dict[str, str]], list[int]] | None:
    """What answers an event by an automaton for each attribute; None if pyahocorasick is not installed."""
    try:
        import ahocorasick
    except ImportError:
        print("pyahocorasick is not installed; left out")
        return None
    texts: dict[str, dict[str, list[int]]] = {}
    for number, pattern in enumerate(patterns):
        texts.setdefault(pattern.attribute, {}).setdefault(pattern.text, []).append(number)
    built: dict[str, Any] = {}
    for attribute, found in texts.items():
        built[attribute] = automaton = ahocorasick.Automaton()
        for text, numbers in found.items():
            anywhere = [number for number in numbers if not patterns[number].is_prefix]
            automaton.add_word(text, (len(text), anywhere, numbers))
        automaton.make_automaton()

    def answer(event: dict[str, str]) -> list[int]:
        hits: set[int] = set()
        for attribute, automaton in built.items():
            for end, (length, anywhere, numbers) in automaton.iter(event[attribute]):
                hits.update(numbers if end + 1 == length else anywhere)
        return sorted(hits)

    return answer


def cpu_us(call: Callable[[], object], events: int) -> float:
    """Microseconds of processor time for each event: the median of some rounds."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        found.append((time.process_time() - start) / events * 1e6)
    return statistics.median(found)
