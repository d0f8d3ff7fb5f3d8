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
from matchwood.store.scoring import NAMES
from tests.scorings import a_scored_world, judged

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


@pytest.mark.parametrize("scoring", NAMES)
@pytest.mark.parametrize("options", [[], ["-k", "3"], ["-k", "2", "--mode", "any"]])
def test_scorings_by_name_give_the_scores_of_the_oracle(
    scoring: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, priorities, made = a_scored_world(11, 30, 12)
    subscriptions, events = tmp_path / "s.csv", tmp_path / "e.jsonl"
    csv.write_csv(pa.table({"id": range(len(texts)), "expression": texts, "priority": priorities}), subscriptions)
    events.write_text("".join(json.dumps({"values": event}) + "\n" for event in made))
    words = ["match", str(subscriptions), str(events), "--index", "scan", "--scoring", scoring, *options]
    assert main(words) == 0
    k = int(options[1]) if options else None
    found = judged(texts, priorities, made, scoring, k=k, mode="any" if "any" in options else "all")
    assert told(capsys.readouterr().out) == [
        (at, id_, score, rank) for at, hits in enumerate(found) for rank, (id_, score) in enumerate(hits, 1)
    ]


def test_an_unknown_scoring_is_refused_with_the_names_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["match", *written(tmp_path, "jsonl"), "--scoring", "mean"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "invalid choice: 'mean'" in error
    assert all(name in error for name in NAMES)


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
    assert main(["match", str(subscriptions), str(events), "--rejects", str(kept)]) == 3
    output = capsys.readouterr()
    assert told(output.out) == [(7, 2, 1.0, 1)]
    assert "rejected subscription, s.jsonl, line 1: expected a value" in output.err
    assert "rejected event, e.jsonl, line 3: the line is not JSON" in output.err
    records = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [record["kind"] for record in records] == ["subscription", "event", "event"]
    assert records[1]["content"] == '{"values": {"age": "old"}}'


@pytest.mark.parametrize(
    ("options", "expected_ids"),
    [
        ([], [2, 3]),
        (["--at", "2026-01-01T00:00:00Z"], [2, 3]),
        (["--at", "2025-12-31"], [1, 2, 3]),
        (["--at", "2999-01-01T00:00:00Z"], [3]),
        (["--include-expired"], [1, 2, 3]),
    ],
)
def test_subscriptions_that_have_expired_are_left_out_unless_asked_for(
    options: list[str], expected_ids: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subscriptions, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    lines = [
        {"id": 1, "expression": "a = 1", "until": "2026-01-01"},
        {"id": 2, "expression": "a = 1", "until": "2999-01-01"},
        {"id": 3, "expression": "a = 1"},
    ]
    subscriptions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    events.write_text('{"values": {"a": 1}}\n')
    assert main(["match", str(subscriptions), str(events), *options]) == 0
    output = capsys.readouterr()
    assert [hit[1] for hit in told(output.out)] == expected_ids
    expired = 3 - len(expected_ids)
    assert (f"({expired} more have expired)" in output.err) == bool(expired)


def test_at_and_include_expired_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["match", *written(tmp_path, "jsonl"), "--at", "2026-01-01", "--include-expired"])
    assert stopped.value.code == 2
    assert "not allowed with argument --at" in capsys.readouterr().err


@pytest.mark.parametrize("format_", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("out", ["matches.jsonl", "matches.parquet"])
def test_string_ids_come_back_as_they_were(format_: str, out: str, tmp_path: Path) -> None:
    subscriptions, events = tmp_path / f"s.{format_}", tmp_path / f"e.{format_}"
    table = pa.table({"id": ["ann", "bob"], "expression": ["age > 18", "age > 65"]})
    if format_ == "jsonl":
        subscriptions.write_text("".join(json.dumps(record) + "\n" for record in table.to_pylist()))
        events.write_text('{"id": "e-1", "values": {"age": 70}}\n{"values": {"age": 20}}\n')
    else:
        write: Any = csv.write_csv if format_ == "csv" else pq.write_table
        write(table, subscriptions)
        write(pa.table({"id": ["e-1", None], "age": [70, 20]}), events)
    assert main(["match", str(subscriptions), str(events), "--out", str(tmp_path / out)]) == 0
    path = tmp_path / out
    records = (
        pq.read_table(path).to_pylist() if out.endswith("parquet") else map(json.loads, path.read_text().splitlines())
    )
    found = [(record["event_id"], record["subscription_id"]) for record in records]
    position: int | str = "1" if out.endswith("parquet") else 1
    assert found == [("e-1", "ann"), ("e-1", "bob"), (position, "ann")]


def test_a_column_that_is_no_condition_is_an_error_unless_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subscriptions, events = written(tmp_path, "parquet")
    table = pq.read_table(subscriptions)
    pq.write_table(table.append_column("email", pa.array(["a@b.c"] * len(table))), subscriptions)
    assert main(["match", subscriptions, events]) == 2
    assert "column 'email': not a column of the text form" in capsys.readouterr().err
    assert main(["match", subscriptions, events, "--ignore", "email"]) == 0
    assert told(capsys.readouterr().out) == expected()


def test_no_event_at_all_writes_an_empty_table(tmp_path: Path) -> None:
    subscriptions, _ = written(tmp_path, "jsonl")
    (tmp_path / "none.jsonl").write_text("")
    out = tmp_path / "matches.parquet"
    assert main(["match", subscriptions, str(tmp_path / "none.jsonl"), "--out", str(out)]) == 0
    assert pq.read_table(out).num_rows == 0


def test_a_declared_schema_decides_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subscriptions, events = written(tmp_path, "jsonl")
    schema = tmp_path / "schema.json"
    schema.write_text('{"age": "string"}')
    assert main(["match", subscriptions, events, "--schema", str(schema)]) == 3
    assert "rejected subscription" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": "events.txt"}, "expected a name that ends in"),
        ({"events": "missing.jsonl"}, "cannot be read"),
        ({"events": "missing.parquet"}, "no such file"),
        ({"events": "missing.csv"}, "not a readable CSV file"),
        ({"out": "matches.csv"}, "ends in .parquet or .jsonl"),
        ({"out": "no-such-folder/matches.parquet"}, "cannot be written: there is no folder"),
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
