"""A first answer in a fresh process, as JSON: import, text subscriptions, one match. `python bench/frontdoor_cold.py SIZE`

It is run by its path and imports nothing of `bench`, so that only Matchwood counts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(size: int) -> None:
    """Measure in this process and print the figures."""
    start = time.perf_counter()
    import matchwood

    engine = matchwood.Engine()
    imported = time.perf_counter()
    engine.subscribe_many(
        f"age BETWEEN {i % 60} AND {i % 60 + 9} AND city = 'c{i % 500}' AND price < {i % 97}" for i in range(size)
    )
    subscribed = time.perf_counter()
    engine.match({"age": 30, "city": "c7", "price": 20})
    matched = time.perf_counter()
    figures = {
        "first_answer_s": matched - start,
        "import_s": imported - start,
        "subscribe_many_s": subscribed - imported,
        "match_s": matched - subscribed,
        "peak_mb": peak_mb(),
    }
    if hasattr(engine, "ready"):
        engine.ready(600)
        figures["ready_s"] = time.perf_counter() - start
        figures["ready_peak_mb"] = peak_mb()
    print(json.dumps(figures), flush=True)


def peak_mb() -> float:
    """The peak of the resident memory. Unlike `ru_maxrss`, it does not count the process that started this one."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1000


if __name__ == "__main__":
    main(int(sys.argv[1]))
