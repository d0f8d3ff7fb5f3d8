"""What people see: names of jobs, progress, warnings about settings, explanations and plots."""

from __future__ import annotations

import io
import random
import time
from typing import Any

import pytest

from matchwood.spark import Lake, Profile, explain, index_subscriptions, jobs, progress, session_problems
from matchwood.spark.index_stage import build_index
from matchwood.spark.profile import profile
from tests.spark.tables import frames
from tests.spark.test_direct import frames as plain_frames
from tests.spark.test_direct import world
from tests.worlds import a_world, seeded_dice


class Recorder:
    """A file that remembers what was written."""

    def __init__(self) -> None:
        self.text = io.StringIO()

    def write(self, text: str) -> None:
        self.text.write(text)

    def flush(self) -> None:
        pass


def test_jobs_have_names_and_the_callers_own_come_back(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    subscriptions, _ = world(random.Random(3))
    table, _ = plain_frames(spark, subscriptions, [])
    seen: list[str] = []
    original = spark.sparkContext.setLocalProperty

    def noted(name: str, value: str) -> None:
        if name == "spark.job.description" and value:
            seen.append(value)
        original(name, value)

    spark.sparkContext.setJobDescription("mine")
    monkeypatch.setattr(spark.sparkContext, "setLocalProperty", noted)
    with index_subscriptions(table, id="name", index="scan"):
        pass
    assert [text for text in seen if text != "mine"] == [
        "matchwood: learn names and strings of subscriptions",
        "matchwood: encode subscriptions",
        "matchwood: build index scan in 1 shards",
    ]
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    spark.sparkContext.setJobDescription(None)


def test_a_bar_shows_the_tasks_of_running_jobs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "INTERVAL_S", 0.02)
    file = Recorder()

    def slowly(batches: Any) -> Any:
        time.sleep(0.3)
        yield from batches

    with progress(spark, file=file), jobs.described(spark, "count slowly"):  # type: ignore[arg-type]
        spark.range(8).repartition(4).mapInArrow(slowly, "id bigint").count()
    assert "/4 tasks" in file.text.getvalue()
    assert "s count slowly" in file.text.getvalue()
    assert file.text.getvalue().endswith("\r")


def test_costly_settings_are_warned_about_once(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_problems(spark) == []
    monkeypatch.setattr(jobs, "_checked", set())
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    try:
        with pytest.warns(RuntimeWarning, match="maxRecordsPerBatch is 100: many small batches; set it to 10000"):
            jobs.warn_about_session(spark)
        jobs.warn_about_session(spark)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_an_explanation_says_what_a_match_will_do(spark: Any, lake: Lake) -> None:
    subscriptions, _, codebook = frames(spark, a_world(seeded_dice(11), 60, 10))
    index = build_index(subscriptions, lake, codebook, index="scan", shards=3, by="space")
    text = explain(index, k=5, events=1_000_000)
    assert f"scan: {index.counts['subscriptions']:,.0f} subscriptions" in text
    assert "the cell of its place and the shard without places" in text
    assert "every task maps all shards; no shuffle" in text
    assert "the 5 best of each event" in text
    assert "1,000,000 events" in text
    assert "two shuffles" in explain(index, route=True, mode="any")


def test_a_profile_is_a_table_and_a_figure(spark: Any) -> None:
    subscriptions, events, codebook = frames(spark, a_world(seeded_dice(12), 60, 30))
    found = Profile.of(profile(subscriptions, events, codebook))
    names = [record["attribute"] for record in found.records]
    assert str(found).splitlines()[0].split() == [
        "attribute", "type", "subscriptions", "events", "distinct_values", "selectivity",
    ]  # fmt: skip
    assert len(str(found).splitlines()) == len(names) + 1
    pytest.importorskip("matplotlib")
    figure = found.plot()
    used = figure.axes[0]
    assert [label.get_text().partition(" (")[0] for label in used.get_yticklabels()] == names
    widths = [bar.get_width() for bar in used.patches[: len(names)]]
    assert widths == [record["subscriptions"] for record in found.records]
