"""The demo's main job: generate, ingest with a few bad rows, profile, weigh, index, match, evaluate, report; on local Spark."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from matchwood.cli import demo_report
from matchwood.cli.compiling import compile_parts
from matchwood.cli.demo_city import offers_of, saved_searches
from matchwood.errors import UnsupportedError
from matchwood.structures import INDEXES
from matchwood.workloads import City

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from matchwood.spark.ingest_worker import Kind
    from matchwood.spark.lake import Lake

DAY_S = 86_400
SHOWN = 3
BAD_SEARCHES = (
    '{"id": 9000000, "expression": "item = \'phone\' AND price <="}',
    '{"id": 9000001, "expression": "price BETWEEN \'low\' AND \'high\'"}',
    '{"id": 9000002, "expression": "price < 10 AND price > 20"}',
    '{"id": 9000003, "expresion": "item = \'phone\'"}',
    '{"id": -4, "expression": "item = \'sofa\'"}',
    '{"id": 0, "expression": "item = \'desk\'"}',
    '{"id": 9000004, "expression": "DWITHIN(place, POINT(-73.9 140.7), 1 km)"}',
    '{"id": 9000005, "expression": "item > \'a\'", "priority": 1}',
    '{"id": 9000006, "expression": "item = \'piano\'", "priority": "high"}',
    '{"id": 9000007, ...',
)
BAD_OFFERS = (
    '{"id": 9000000, "values": {"item": "phone", "price": "cheap"}}',
    '{"id": 9000001, "values": {"item": "phone"}, "place": [-73.9, 95.0]}',
    '{"values": {"item": "sofa", "price": 100}}',
    '{"id": 9000002, "values": {"item": "sofa"}, "until": "tomorrow"}',
    "<event id=5/>",
)


class Stages:
    """Runs stages one after the other, says which, and remembers how long each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[list[str]]:
        """Time the body; what it appends is said beside the time."""
        said: list[str] = []
        start = time.perf_counter()
        if sys.stderr.isatty():
            print(f"  {name:<22} ...", end="", file=sys.stderr, flush=True)
        yield said
        self.seconds[name] = time.perf_counter() - start
        lead = "\r" if sys.stderr.isatty() else ""
        print(f"{lead}  {name:<22} {self.seconds[name]:6.1f} s  {'; '.join(said)}", file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> None:
    """Run all stages and write the report; its path is the last line printed."""
    if find_spec("pyspark") is None:
        raise UnsupportedError(
            "the demo runs on Spark, which is not installed: pip install 'matchwood[spark]', or use matchwood demo --local"
        )
    from matchwood.spark.lake import Lake
    from matchwood.spark.session import local_session
    from matchwood.store.locations import local_path

    out = local_path(options.out, "--out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    print(
        f"A seeded city: {options.subscriptions:,} saved searches, {options.events:,} offers of one day, "
        f"Spark on {options.master}."
    )
    stages = Stages()
    with stages("generate") as said:
        city = City(size=options.subscriptions, source="synthetic", seed=options.seed)
        sizes = write_city(city, options.events, options.seed, out)
        said.append(f"{sizes[0]:,} lines of searches, {sizes[1]:,} of offers")
    if options.index in INDEXES:
        compile_parts(["scan", options.index])  # the workers of a local Spark use the same cache
    with stages("start Spark"):
        spark = local_session(master=options.master)
    lake = Lake(out / "lake")
    try:
        facts = pipeline(spark, lake, options, out, stages)
        report = out / "report.html"
        report.write_text(demo_report.page(city, facts, stages.seconds), encoding="utf-8")
    finally:
        spark.stop()
    verdict = facts["evaluation"]
    faults = "no fault" if verdict.passed else f"FAULTS: {verdict.faults}"
    print(f"\nThe oracle judged {verdict.judged:,} pairs of {verdict.events} sampled offers: {faults}.")
    print(f"{facts['matched']:,} of {facts['events']:,} offers found somebody, {facts['matches']:,} matches in all.")
    print(f"Report: {report.resolve()}")


def pipeline(spark: SparkSession, lake: Lake, options: argparse.Namespace, out: Path, stages: Stages) -> dict[str, Any]:
    """The stages from raw files to evaluated matches; what the report shows."""
    from matchwood.spark import ingest, pipeline
    from matchwood.spark.evaluate import evaluate
    from matchwood.spark.index_stage import open_index
    from matchwood.spark.showcase import gather

    rejects = []
    kinds: tuple[tuple[Kind, dict[str, str] | None], ...] = (("subscriptions", {"place": "point"}), ("events", None))
    for kind, schema in kinds:
        with stages(f"ingest {kind}") as said:
            raw, form = ingest.read_raw(spark, out / f"{kind}.jsonl")
            made = pipeline.ingest_table(
                lake, raw.repartition(4), kind, form=form, source=f"{kind}.jsonl", schema=schema
            )
            rejects += lake.read(spark, "rejects", made.upstream["rejects"]).limit(50).collect()
            said.append("{read:,} read = {records:,} kept + {rejected:,.0f} rejected".format(**made.counts))
    with stages("profile") as said:
        attributes = pipeline.profile_tables(lake, spark)
        said.append(f"{attributes.counts['records']:,} dimensions")
    with stages("weigh") as said:
        weighed = pipeline.weigh_table(lake, spark)
        said.append(f"{weighed.counts['records']:,} subscriptions, by inverse frequency")
    with stages("index") as said:
        index = pipeline.index_table(lake, spark, table="weighed", index=options.index)
        said.append(
            f"{index.index}, {index.counts['rows']:,.0f} rows, {index.bytes / 1e6:,.0f} MB, version {index.version}"
        )
    with stages(f"match, best {options.k}") as said:
        made = pipeline.match_table(lake, spark, k=options.k, tasks=4)
        said.append(f"{made.counts['records']:,} matches")
    events, matches = lake.read(spark, "events"), lake.read(spark, "matches")
    with stages("evaluate") as said:
        verdict = evaluate(
            matches,
            lake.read(spark, "weighed"),
            events,
            open_index(lake),
            k=options.k,
            seed=options.seed,
            seconds=stages.seconds,
        )
        said.append(f"{verdict.judged:,} judgements, {len(verdict.faults)} faults")
    with stages("report"):
        facts = gather(spark, lake, index, SHOWN)
    return {**facts, "evaluation": verdict, "rejects": rejects, "k": options.k, "index": index}


def write_city(city: City, events: int, seed: int, out: Path) -> tuple[int, int]:
    """The city as two files of JSON lines, a few of them bad; how many lines each has."""
    searches = saved_searches(city, np.random.default_rng(seed))
    lines = [json.dumps({"id": i, "expression": text}) for i, text in enumerate(searches)]
    _write(out / "subscriptions.jsonl", _with(lines, BAD_SEARCHES, seed))
    published = np.sort(np.random.default_rng(seed + 2).uniform(0, DAY_S, events)) + city.start
    offers = []
    for offer, second in zip(offers_of(city, events, np.random.default_rng(seed + 1)), published.tolist(), strict=True):
        assert offer.place is not None
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second + 3600))
        place = [round(side, 6) for side in offer.place]
        offers.append(json.dumps({"id": offer.id, "values": dict(offer.values), "place": place, "until": until}))
    _write(out / "events.jsonl", _with(offers, BAD_OFFERS, seed + 3))
    return len(lines), len(offers)


def _with(lines: list[str], bad: tuple[str, ...], seed: int) -> list[str]:
    """The lines with bad ones among them, none before the first."""
    for line, at in zip(bad, np.random.default_rng(seed).integers(1, len(lines) + 1, len(bad)), strict=True):
        lines.insert(int(at), line)
    return lines


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
