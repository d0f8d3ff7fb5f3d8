"""The stages from the command line, one after the other on one lake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import matchwood.spark.session
from matchwood.cli.main import main
from matchwood.spark.lake import Lake
from tests.spark.stream_world import events, expected, put, write_base
from tests.spark.tables import ranked


class Kept:
    """The shared session, which a verb must not end."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        pass


def test_every_stage_has_a_verb(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matchwood.spark.session, "local_session", lambda **_: Kept(spark))
    folder = str(tmp_path / "lake")

    def stage(*arguments: str) -> None:
        assert main(["spark", arguments[0], folder, *arguments[1:]]) == 0

    base = write_base(tmp_path / "s.jsonl", 30)
    published = events(0, 12)
    (tmp_path / "e.jsonl").write_text(
        "".join(json.dumps({**record, "until": "2100-01-01"}) + "\n" for record in published)
    )
    stage("ingest", "subscriptions", str(tmp_path / "s.jsonl"))
    stage("ingest", "events", str(tmp_path / "e.jsonl"))
    stage("profile")
    stage("weigh")
    stage("weigh", "--weight", "price=0.5")
    stage("cover", "--groups", "2")
    stage("index", "--covered")
    stage("match", "-k", "3")
    stage("evaluate")
    stage("match-subscriptions", "--at", "2026-01-01T00:00:00Z", "-k", "2")
    lake = Lake(folder)
    found = ranked(lake.read(spark, "matches"))
    assert {(e, id_, score) for e, hits in found.items() for id_, score in hits} == expected(base, published, 3)
    assert lake.read(spark, "matches_of_subscriptions").count() > 0
    put(tmp_path / "in", "0.json", published)
    stage("stream", str(tmp_path / "in"), "-k", "3", "--once")
    assert "judgements" in capsys.readouterr().out
    stage("index")
    stage("vacuum", "index", "--keep", "1")
    assert lake.versions("index") == [2]
    (tmp_path / "bad.jsonl").write_text('{"id": 1, "values": {"price": 3}}\nnonsense\n')
    assert main(["spark", "ingest", folder, "events", str(tmp_path / "bad.jsonl")]) == 3
    assert main(["spark", "index", folder, "--table", "nothing"]) == 2
    assert "has no published version" in capsys.readouterr().err
