"""`matchwood match`: tables in, ranked matches out, rejects told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from matchwood.cli.main import main
from matchwood.engine import Engine

TEXTS = ["age >= 18 ^0.5 AND plan = 'pro'", "age < 40", "plan = 'free'", "city = 'Oslo' OR age > 60"]
EVENTS: list[dict[str, Any]] = [{"age": 30, "plan": "pro"}, {"age": 70, "plan": "free"}, {"age": 5}]


def expected(k: int | None = None, mode: str = "all") -> list[tuple[int, int, float, int]]:
    engine = Engine()
    engine.subscribe_many(TEXTS)
    hits = [engine.match(event, mode=mode) if k is None else engine.top_k(event, k, mode=mode) for event in EVENTS]
    return [(at, hit.id, hit.score, rank) for at, found in enumerate(hits) for rank, hit in enumerate(found, 1)]


def written(folder: Path, format_: str) -> tuple[str, str]:
    """The subscriptions and the events in a format."""
    subscriptions, events = folder / f"subscriptions.{format_}", folder / f"events.{format_}"
    table = pa.table({"id": range(len(TEXTS)), "expression": TEXTS})
    wide = pa.Table.from_pylist([{"age": None, "plan": None, **event} for event in EVENTS])
    if format_ == "csv":
        csv.write_csv(table, subscriptions)
        csv.write_csv(wide, events)
    elif format_ == "parquet":
        pq.write_table(table, subscriptions)
        pq.write_table(wide, events)
    else:
        subscriptions.write_text("".join(json.dumps(record) + "\n" for record in table.to_pylist()))
        events.write_text("".join(json.dumps({"values": event}) + "\n" for event in EVENTS))
    return str(subscriptions), str(events)


def told(text: str) -> list[tuple[Any, ...]]:
    return [tuple(json.loads(line).values()) for line in text.splitlines()]


@pytest.mark.parametrize("format_", ["csv", "parquet", "jsonl"])
def test_every_format_gives_the_engines_matches(
    format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", *written(tmp_path, format_)]) == 0
    output = capsys.readouterr()
    assert told(output.out) == expected()
    assert "3 events, 4 subscriptions" in output.err


@pytest.mark.parametrize(
    "options", [["--top-k", "1"], ["--top-k", "1", "--index", "mo-tree"], ["-k", "2", "--mode", "any"]]
)
def test_k_index_and_mode_are_passed_on(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", *written(tmp_path, "jsonl"), *options]) == 0
    assert told(capsys.readouterr().out) == expected(int(options[1]), "any" if "any" in options else "all")


@pytest.mark.parametrize("name", ["matches.parquet", "matches.jsonl"])
def test_matches_go_to_the_file_that_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / name
    assert main(["match", *written(tmp_path, "parquet"), "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    found = (
        told(out.read_text()) if name.endswith("jsonl") else [tuple(r.values()) for r in pq.read_table(out).to_pylist()]
    )
    assert found == expected()


def test_rejects_are_told_with_reasons_and_kept_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subscriptions, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    subscriptions.write_text('{"id": 1, "expression": "age >"}\n{"id": 2, "expression": "age > 3"}\n')
    events.write_text('{"id": 7, "values": {"age": 5}}\n{"values": {"age": "old"}}\nnonsense\n')
    kept = tmp_path / "rejects.jsonl"
    assert main(["match", str(subscriptions), str(events), "--rejects", str(kept)]) == 0
    output = capsys.readouterr()
    assert told(output.out) == [(7, 2, 1.0, 1)]
    assert "rejected subscription, s.jsonl, line 1: expected a value" in output.err
    assert "rejected event, e.jsonl, line 3: the line is not JSON" in output.err
    records = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [record["kind"] for record in records] == ["subscription", "event", "event"]
    assert records[1]["content"] == '{"values": {"age": "old"}}'


def test_subscriptions_that_have_expired_by_the_instant_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subscriptions, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    lines = [
        {"id": 1, "expression": "a = 1", "until": "2026-01-01"},
        {"id": 2, "expression": "a = 1", "until": "2027-01-01"},
    ]
    subscriptions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    events.write_text('{"values": {"a": 1}}\n')
    assert main(["match", str(subscriptions), str(events), "--at", "2026-01-01T00:00:00Z"]) == 0
    assert [hit[1] for hit in told(capsys.readouterr().out)] == [2]


def test_a_declared_schema_decides_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subscriptions, events = written(tmp_path, "jsonl")
    schema = tmp_path / "schema.json"
    schema.write_text('{"age": "string"}')
    assert main(["match", subscriptions, events, "--schema", str(schema)]) == 0
    assert "rejected subscription" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": "events.txt"}, "expected a name that ends in"),
        ({"events": "missing.jsonl"}, "cannot be read"),
        ({"events": "missing.parquet"}, "no such file"),
        ({"events": "missing.csv"}, "not a readable CSV file"),
        ({"out": "matches.csv"}, "ends in .parquet or .jsonl"),
        ({"index": "b-tree"}, "expected an index out of"),
        ({"at": "soon"}, "expected a timestamp"),
        ({"schema": "missing.json"}, "not a schema"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    change: dict[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subscriptions, events = written(tmp_path, "jsonl")
    events = str(tmp_path / change.pop("events")) if "events" in change else events
    options = [word for key, value in change.items() for word in (f"--{key}", value)]
    assert main(["match", subscriptions, events, *options]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
