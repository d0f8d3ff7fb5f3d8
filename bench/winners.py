"""The table of winners in the README, written anew from the rows of `bench auto`."""

from __future__ import annotations

from collections.abc import Sequence

from bench.formatting import number
from bench.results import Experiment

BEGIN, END = "<!-- made by `make report` from auto.json -->", "<!-- end of what `make report` made -->"


SHOWN = {
    "BEGen uniform": "8 of 400 attributes each, about 320 matches an event",
    "City k6": "a square and 4 ranges, 110 matches",
    "Marketplace": "places, products and tags, a third kind of search each",
    "Retail": "real invoices, 120 matches",
    "Papers": "real titles, lists of terms, 2,100 matches",
    "Ranked d = 2": "2 wide ranges, 24,000 matches",
    "VCR 90-10": "2 ranges, 7,200 matches",
}
"""Workloads that differ in which index is best, and what they are. The others are on the page."""


def winners(experiment: Experiment, metric: str = "us_per_event") -> list[str]:
    """For each workload that is shown: the best two indexes by name, `auto` and Scan; and where and when that was measured."""
    lines = ["| workload | subscriptions | best | next | `auto` | `scan` |", "|---|---|---|---|---|---|"]
    values: dict[tuple[str, int], dict[str, float]] = {}
    for row in experiment.rows:
        if row["metric"] == metric and row["workload"] in SHOWN:
            values.setdefault((row["workload"], row["n"]), {})[row["system"]] = float(row["value"])
    for (workload, n), found in values.items():
        named = sorted((value, system) for system, value in found.items() if system != "auto")
        cells = [f"`{system}` {number(value)}" for value, system in named[:2]] + [""] * (2 - len(named[:2]))
        rest = [number(found[system]) if system in found else "" for system in ("auto", "scan")]
        lines.append(f"| {workload}: {SHOWN[workload]} | {n:,} | {' | '.join(cells + rest)} |")
    about = experiment.environment
    return [*lines, "", f"Measured {about['time'][:10]}, {about['cpu']}, one thread."]


def with_block(text: str, lines: Sequence[str]) -> str:
    """The text with these lines between its two marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"README.md: expected the marks {BEGIN!r} and {END!r} around the table of winners")
    return "\n".join([f"{before}{begin}", *lines, f"{end}{after}"])
