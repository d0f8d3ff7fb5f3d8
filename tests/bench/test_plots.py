"""Figures are drawn from rows alone; what a figure needs and does not find is an error in the papers' sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.plots import draw_all, drawn
from bench.results import Experiment, Results

pytest.importorskip("matplotlib", reason="plots need the extra `bench`")


def row(workload: str, system: str, value: float, *, n: int = 10, metric: str = "us_per_event") -> dict[str, Any]:
    return {"workload": workload, "system": system, "n": n, "metric": metric, "value": value}


def experiment(name: str, *rows: dict[str, Any], preset: str = "paper") -> Experiment:
    return Experiment(name, preset, {}, {}, list(rows))


def test_each_experiment_that_was_run_gets_its_figures(tmp_path: Path) -> None:
    systems = ("scan", "vcr", "auto")
    auto = experiment("auto", *(row(w, s, v) for w in ("v", "w") for v, s in enumerate(systems, 1)))
    scan = experiment("scan", row("BEGen uniform", "scan", 3.0), row("BEGen uniform", "C++ scan", 4.0))
    paths = draw_all(Results({"auto": auto, "scan": scan}), tmp_path / "figures")
    assert [path.name for path in paths] == ["auto.png", "scan.png"]
    assert all(1_000 < path.stat().st_size < 200_000 for path in paths)


def test_a_figure_without_its_rows_ends_the_run_in_the_papers_sizes_and_is_left_out_of_quick_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (row("covering-heavy", "k-d tree, k=1", 1.0, metric="total_s"),)
    with pytest.raises(SystemExit, match=r"covering\.json cannot be drawn"):
        drawn(experiment("covering", *rows), tmp_path)
    assert drawn(experiment("covering", *rows, preset="quick"), tmp_path) == []
    assert "no figures from the preset quick" in capsys.readouterr().err


def test_the_same_rows_make_the_same_file(tmp_path: Path) -> None:
    scan = experiment("scan", row("BEGen uniform", "scan", 3.0))
    path = drawn(scan, tmp_path)[0]
    content = path.read_bytes()
    assert drawn(scan, tmp_path) == [path]
    assert path.read_bytes() == content
