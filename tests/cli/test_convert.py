"""`matchwood convert`: one condition or lines of them, text or JSON, and what the exit code says."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from matchwood.cli.main import main
from matchwood.lang.json_form import from_json
from matchwood.lang.parser import parse


def test_one_condition_on_several_lines_becomes_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pattern.json"
    file.write_text(json.dumps({"source": ["orders"], "detail": {"price": [{"numeric": [">", 10]}]}}, indent=2))
    assert main(["convert", "eventbridge", str(file)]) == 0
    assert capsys.readouterr().out == "source = 'orders' AND detail.price > 10\n"


def test_lines_become_lines_and_a_refused_one_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = '{"a": {"$ne": 1}}\n\n{"a": {"$size": 3}}\nnot json\n{"b": true}\n'
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["convert", "mongodb", "--to", "json", "--keep-lines"]) == 3
    out, err = capsys.readouterr()
    first, second, third, last = out.splitlines()
    assert from_json(json.loads(first)) == parse("a != 1 OR a IS NULL")
    assert (second, third) == ("", "")
    assert from_json(json.loads(last)) == parse("b = TRUE")
    assert "line 3: $.a.$size" in err
    assert "line 4: expected JSON" in err


@pytest.mark.parametrize("text", ["", "a + 1 = 2\n"])
def test_nothing_converted_is_an_error(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["convert", "cesql"]) == 2
    assert capsys.readouterr().err


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "cesql", str(tmp_path / "none")]) == 2
    assert "cannot read" in capsys.readouterr().err
