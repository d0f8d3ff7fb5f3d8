"""Each example prints what its docstring says, and stays short."""

from __future__ import annotations

import runpy
from pathlib import Path
from textwrap import dedent

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_the_examples_are_these() -> None:
    names = [path.stem for path in EXAMPLES]
    assert names == ["ad_targeting", "geofence_alerts", "job_board", "log_routing", "market_alerts"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = runpy.run_path(str(path), run_name="__main__")["__doc__"].split("Prints:\n")[1]
    assert capsys.readouterr().out.strip() == dedent(said).strip()
    assert len(path.read_text().splitlines()) < 60
