"""The verbs that talk to a broker, against a broker in memory in another thread."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from matchwood import Engine
from matchwood.cli.main import main
from matchwood.cli.remote import event_of
from matchwood.errors import RequestError
from tests.client.double import KEY, Double, serving


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    started, ended = threading.Event(), asyncio.Event()
    found: list[Double] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving() as made:
            found.append(made)
            started.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(20)
    monkeypatch.setenv("MATCHWOOD_URL", found[0].url)
    monkeypatch.setenv("MATCHWOOD_KEY", KEY)
    yield found[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(20)
    loop.close()


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_event_is_published_as_pairs_or_as_json(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    double.engine.subscribe("price < 300 AND item = 'phone'", id="a")
    double.specs["a"] = {}
    assert main(["pub", "price=250", "item=phone", "--wait"]) == 0
    assert main(["pub", '{"price": 250, "item": "desk"}']) == 0
    first, second = lines(capsys.readouterr().out)
    assert first["matches"] == [{"subscription": "a", "score": 2.0}]
    assert "matched" not in second


def test_lines_of_standard_input_are_published_and_bad_ones_reported(
    double: Double, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    double.engine.subscribe("price < 300", id="a")
    double.specs["a"] = {}
    monkeypatch.setattr("sys.stdin", io.StringIO('{"price": 1}\n\n{"price": "x"}\n{"price": 2}\n'))
    assert main(["pub"]) == 3
    shown = capsys.readouterr()
    assert len(lines(shown.out)) == 2
    assert "line 2:" in shown.err
    assert "expected a number, got 'x'" in shown.err


def test_hits_are_printed_and_acknowledged(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sub", "price < 300", "--durable", "me", "--timeout", "0.1"]) == 0
    for price in (100, 200, 400):
        main(["pub", f"price={price}"])
    capsys.readouterr()
    assert main(["sub", "price < 300", "--durable", "me", "-n", "2"]) == 0
    assert [hit["event"] for hit in lines(capsys.readouterr().out)] == [{"price": 100}, {"price": 200}]
    assert len(double.acked) == 2


def test_tail_prints_matches_from_a_position_on(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    main(["sub", "price < 300", "--durable", "me", "--timeout", "0.1"])
    main(["pub", "price=7"])
    capsys.readouterr()
    assert main(["tail", "--after", "0", "-n", "1"]) == 0
    [hit] = lines(capsys.readouterr().out)
    assert (hit["subscription"], hit["score"], hit["event"]) == ("me", 1.0, {"price": 7})
    assert double.acked == []


def test_explain_says_why_and_ends_with_one_if_there_is_no_match(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    double.engine.subscribe("price < 300", id="a")
    assert main(["explain", "a", "price=250"]) == 0
    assert "matches with score 1" in capsys.readouterr().out
    assert main(["explain", "a", "price=350"]) == 1
    assert main(["explain", "a"]) == 2
    assert "explain needs an event" in capsys.readouterr().err


def test_an_error_of_the_engine_is_printed_with_its_caret(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sub", "price <"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("^")


def test_what_the_broker_lacks_is_one_line_and_code_two(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["key", "list"], ["hook", "list"], ["dead", "list"], ["snapshot"]):
        assert main(arguments) == 2
        assert "there is nothing at /v1/" in capsys.readouterr().err
    assert main(["dead", "replay"]) == 2
    assert "which ones?" in capsys.readouterr().err


def test_bench_measures_and_refuses_other_machines(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--seconds", "0.2", "--connections", "2"]) == 0
    assert main(["bench", "--seconds", "0.2", "--connections", "2", "--batch", "10"]) == 0
    out = capsys.readouterr().out
    assert "requests of 1 over 2 connections" in out
    assert "requests of 10 over 2 connections" in out
    assert out.count("(p99)") == 2
    assert main(["bench", "--url", "http://192.0.2.1:8080"]) == 2
    assert "is not on this machine" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["bench", "--seconds", "301"])


def test_a_key_may_come_from_a_file_and_a_missing_broker_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["pub", "a=1", "--key-file", str(tmp_path / "none")]) == 2
    assert "the key cannot be read" in capsys.readouterr().err
    monkeypatch.setattr("matchwood.client.backoff.Backoff.delay", lambda self, at_least=None: 9.0)
    assert main(["pub", "a=1", "--url", "http://127.0.0.1:1"]) == 2
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["price"], ["=5"], ["a=1", "a.b=2"], ["{broken"]])
def test_words_that_are_no_event_are_refused(words: list[str]) -> None:
    with pytest.raises(RequestError):
        event_of(words)


def test_verify_reads_a_folder_and_finds_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "engine"
    with Engine.open(folder) as engine:
        for price in range(20):
            engine.subscribe(f"price < {price}")
        engine.snapshot()
        engine.subscribe("price > 3")
        assert main(["verify", str(folder)]) == 0  # while it is in use
        assert "engine: ok; 21 records, 21 subscriptions, 1 snapshots" in capsys.readouterr().out
    [array] = [path for path in (folder / "snapshots").rglob("*.npy") if "priorit" in path.name][:1] or [
        next((folder / "snapshots").rglob("*.npy"))
    ]
    raw = bytearray(array.read_bytes())
    raw[-1] ^= 0xFF
    array.write_bytes(bytes(raw))
    assert main(["verify", str(folder)]) == 3
    assert "snapshot 20:" in capsys.readouterr().out
    assert main(["verify", str(tmp_path)]) == 2
    assert "has no journal" in capsys.readouterr().err
