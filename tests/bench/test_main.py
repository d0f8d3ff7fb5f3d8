"""The command line of the benchmarks: where figures are kept."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import __main__ as command
from bench.report import Report


def _measure(preset: str, report: Report) -> None:
    row = {"workload": "w", "system": "s", "n": 1, "metric": "us_per_event", "value": 2.0}
    report.part("only", lambda: report.row(**row))


@pytest.mark.parametrize(("out", "path"), [("figures.json", "figures.json"), ("figures", "figures/scan.json")])
def test_figures_go_to_the_file_or_into_the_folder_that_is_named(
    out: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "import_module", lambda name: SimpleNamespace(run=_measure))
    command.main(["scan", "--out", str(tmp_path / out)])
    assert f"written: {tmp_path / path}" in capsys.readouterr().out
    kept = json.loads((tmp_path / path).read_text())
    assert [(row["metric"], row["value"]) for row in kept["rows"]] == [("us_per_event", 2.0)]


def test_all_experiments_need_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["all", "--out", str(tmp_path / "figures.json")])
    assert "expected a folder" in capsys.readouterr().err
