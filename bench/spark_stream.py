"""Micro-batches of the Spark experiment, with and without matching."""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from typing import Any

from bench.spark_setup import K, Setup
from bench.spark_world import DIMS, sum_here, sum_there, write_stream

BATCH = 1_000


def stream(setup: Setup, lines: bool) -> None:
    """Measure micro-batches with and without matching, alternating so that both see the same noise; the first round warms up."""
    spark, batches = setup.session(), setup.sizes["batches"]
    _ = setup.index
    what = "lines" if lines else "table"
    write_stream(setup.events, setup.folder / what, files=batches, size=BATCH, lines=lines)
    source = partial(_source, spark, lines, setup.folder / what)
    times: dict[str, list[float]] = {"bare: to Parquet": [], "matching": []}
    for number in range(setup.sizes["rounds"] + 1):
        for name, start in (("bare: to Parquet", _bare), ("matching", _matching)):
            query = start(setup, source(), f"{what}-{number}")
            query.awaitTermination()
            took = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
            assert len(took) == batches, f"expected {batches} micro-batches, got {len(took)}"
            times[name] += took[2:] if number else []
    verified = _streamed(setup, spark, f"{what}-{setup.sizes['rounds']}", batches * BATCH)
    floor = statistics.median(times["bare: to Parquet"])
    unit = f"micro-batch of 1,000{' lines' if lines else ''}"
    for name, took in times.items():
        value = statistics.median(took)
        quarter = statistics.quantiles(took, n=4)
        setup.row(f"{unit}, {name}", "ms", value, n=BATCH, baseline="bare", ratio=floor / value,
                  verified=verified and name == "matching", spread=quarter[2] - quarter[0])  # fmt: skip


def _source(spark: Any, lines: bool, folder: Path) -> Any:
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    if lines:
        return reader.text(str(folder))
    return reader.schema("id bigint, " + ", ".join(f"d{d} double" for d in range(DIMS))).parquet(str(folder))


def _bare(setup: Setup, stream: Any, name: str) -> Any:
    out = setup.folder / "bare" / name

    def write(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").option("compression", "zstd").parquet(str(out / f"batch={number}"))

    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(out / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def _matching(setup: Setup, stream: Any, name: str) -> Any:
    from matchwood.spark.streaming import MatchStream

    checkpoint = setup.folder / "matching" / name
    return MatchStream(setup.lake, name, k=K).start(stream, checkpoint, availableNow=True)


def _streamed(setup: Setup, spark: Any, name: str, n: int) -> bool:
    from matchwood.spark import columns
    from matchwood.spark.streaming import MatchStream

    found = MatchStream(setup.lake, name, k=K).matches(spark).select(*columns.MATCHES.names)
    assert sum_there(found) == sum_here(setup.local_indexes[0], setup.events.take(0, n), K), (
        "the matches of the stream differ from those of the index in this process"
    )
    return True
