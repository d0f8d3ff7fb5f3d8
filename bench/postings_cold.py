"""A first answer of `postings` in a fresh process, as JSON: ads as arrays, one match. `python bench/postings_cold.py SIZE`

Generating the ads is not counted, importing Matchwood is.
"""

from __future__ import annotations

import json
import sys
import time


def main(size: int) -> None:
    """Measure in this process and print the figures."""
    start, processor = time.perf_counter(), time.process_time()
    from matchwood import Engine

    imported, imported_processor = time.perf_counter() - start, time.process_time() - processor
    from matchwood.workloads import Targeting

    workload = Targeting(size=size)
    schema, rows, events = workload.schema(), workload.subscriptions(), workload.events(1)
    start, processor = time.perf_counter(), time.process_time()
    engine = Engine(schema, index="postings")
    engine.subscribe_rows(rows)
    engine.match_many(events)
    figures = {
        "first_answer_s": imported + time.perf_counter() - start,
        "first_answer_cpu_s": imported_processor + time.process_time() - processor,
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
