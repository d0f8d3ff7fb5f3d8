"""The pipeline on Spark: our targets."""

from __future__ import annotations

from bench.claims.forms import Chapter, Claim, Rival, Section, at, at_least, at_most, more, scaled, times

WORK, ROUTED = "6 intervals", "6 intervals, small places"
JOIN = "Spark's range join, from 1000 events"

KINDS = (("all", "all matches"), ("top-10", "the 10 best"))
SYSTEMS = (
    ("all in every task", "17 shards, every task visits those it needs"),
    ("events routed", "17 shards, events sent to their shards"),
)
HOT = (
    ("all in every task", "every task visits the shards it needs"),
    ("events routed", "events sent to their shards"),
    ("events routed, not adaptive", "the same without adaptive execution"),
)

CHAPTER = Chapter(
    "spark",
    "The pipeline on Spark",
    "`python -m bench spark`. 1M subscriptions of 6 intervals, about 25 matches an event, index `mo-tree`; wall "
    "time. [The pipeline](spark.md).",
    [
        Section(
            "Against Spark's own join",
            "",
            [
                Claim(
                    "10,000 events, all matches: times faster",
                    times(at(WORK, JOIN, "s"), at(WORK, "all, warm", "s")),
                    "x",
                    target=at_least(600),
                    rival=Rival(
                        "range join (nested loop over a broadcast)",
                        at(WORK, JOIN, "s"),
                        at(WORK, "all, warm", "s"),
                        unit="s",
                    ),
                ),
                Claim(
                    "the same as the first job of a session",
                    times(at(WORK, JOIN, "s"), at(WORK, "all, first in session", "s")),
                    "x",
                    target=at_least(100),
                ),
                Claim(
                    "10,000 events, the 10 best, times the time of all matches",
                    times(at(WORK, "top-10, warm", "s"), at(WORK, "all, warm", "s")),
                    "x",
                    target=at_most(1),
                    why="Both take less than a second, most of which is Spark's.",
                ),
            ],
            plots=[("spark_join.png", "Against Spark's own join")],
        ),
        Section(
            "Against the same index in one process",
            "",
            [
                *(
                    Claim(
                        f"1M events, {what}: share of the throughput of two threads in one process",
                        scaled(
                            times(at(WORK, f"in process, two threads, {what}"), at(WORK, f"Spark, local[2], {what}")),
                            100,
                        ),
                        "%",
                        target=at_least(75),
                        why="Spark reads, moves and writes as well.",
                    )
                    for what in ("all", "top-10")
                ),
                *(
                    Claim(f"1M events, the 10 best, `{master}`", at(WORK, f"Spark, {master}, top-10"), "µs an event")
                    for master in ("local[1]", "local[2]", "local-cluster[2,1,2048]")
                ),
            ],
            plots=[("spark_throughput.png", "Throughput beside one process, and by cores")],
        ),
        Section(
            "Index and memory",
            "",
            [
                Claim(
                    "build and publish an index of 1M",
                    at(WORK, "mo-tree, warm", "build_and_publish_s"),
                    "s",
                    target=at_most(20),
                ),
                Claim(
                    "the first index of a session, times a later one",
                    times(
                        at(WORK, "mo-tree, first in session", "build_and_publish_s"),
                        at(WORK, "mo-tree, warm", "build_and_publish_s"),
                    ),
                    "x",
                    target=at_most(1.5),
                ),
                Claim("a worker's first match", at(WORK, "a worker's first match", "s"), "s", target=at_most(2)),
                Claim("size of the index", scaled(at(WORK, "mo-tree", "bytes"), 1e-6), "MB"),
                Claim("a worker of two: its own memory", scaled(at(WORK, "worker of 2, private", "bytes"), 1e-6), "MB"),
                Claim("a worker of two: shared memory", scaled(at(WORK, "worker of 2, shared", "bytes"), 1e-6), "MB"),
            ],
            differs="The index is mapped from disk once for all workers of a machine: it is among what they share.",
        ),
        Section(
            "Ingest",
            "",
            [
                Claim(
                    "CPU of a worker to encode a text of a known shape, 6 ranges",
                    at(WORK, "text of a known shape, 6 ranges", "us_cpu"),
                    "µs",
                    target=at_most(20),
                ),
            ],
        ),
        Section(
            "10M subscriptions",
            "",
            [
                Claim("build and publish, 4 shards by hash", at(WORK, "Spark, build and publish", "build_s"), "s"),
                Claim("size of the index", scaled(at(WORK, "index", "bytes"), 1e-9), "GB"),
                Claim("10,000 events, the 10 best", at(WORK, f"Spark, {'top-10'}", n=10_000_000), "µs an event"),
                Claim("a worker: its own memory", scaled(at(WORK, "worker, private", "bytes"), 1e-6), "MB"),
                Claim("a worker: shared memory", scaled(at(WORK, "worker, shared", "bytes"), 1e-6), "MB"),
                Claim("the driver's Python, peak", scaled(at(WORK, "driver's Python, peak", "bytes"), 1e-9), "GB"),
                Claim("the JVM, peak", scaled(at(WORK, "JVM, peak", "bytes"), 1e-9), "GB"),
            ],
            differs="The driver's peak includes the subscriptions as arrays and a scan over them, to verify the matches.",
        ),
        Section(
            "Streaming",
            "",
            [
                Claim(
                    f"micro-batch of 1,000 events{what}: more than one that only writes",
                    more(at(WORK, f"{unit}, bare: to Parquet", "ms"), at(WORK, f"{unit}, matching", "ms")),
                    "%",
                    target=at_most(30),
                    why="What matching adds is a fixed cost of small steps beside Spark's own.",
                )
                for unit, what in (
                    ("micro-batch of 1,000", " of a table"),
                    ("micro-batch of 1,000 lines", " as lines of JSON"),
                )
            ]
            + [
                Claim(f"micro-batch of 1,000 events{what}", at(WORK, f"{unit}, matching", "ms"), "ms")
                for unit, what in (
                    ("micro-batch of 1,000", " of a table"),
                    ("micro-batch of 1,000 lines", " as lines of JSON"),
                )
            ],
            plots=[("spark_stream.png", "Micro-batches with and without matching")],
        ),
        Section(
            "Shards by place",
            "",
            [
                Claim(
                    f"{what}: {how}",
                    at(ROUTED, f"17 shards, {system}, {metric}"),
                    "µs an event",
                    rival=Rival(
                        "one shard",
                        at(ROUTED, f"one shard, {metric}"),
                        at(ROUTED, f"17 shards, {system}, {metric}"),
                    ),
                    why="Where one machine can hold the index, shards only add visits; they are for indexes that it cannot.",
                )
                for metric, what in KINDS
                for system, how in SYSTEMS
            ]
            + [
                Claim(
                    f"{what}: {how}, times the time of one shard",
                    times(at(ROUTED, f"17 shards, {system}, {metric}"), at(ROUTED, f"one shard, {metric}")),
                    "x",
                    target=at_most(1.3),
                )
                for metric, what in KINDS
                for system, how in SYSTEMS
            ],
        ),
        Section(
            "A hot place",
            "",
            [
                Claim(
                    f"the 10 best: {how}",
                    at(ROUTED, f"17 shards, {system}, hot place"),
                    "µs an event",
                )
                for system, how in HOT
            ],
            differs="Four fifths of 300,000 events fall into one place, a four hundredth of the plane: one or two of the 17 "
            "cells. An event goes to the task of its cell.",
        ),
    ],
)
