"""The tutorial notebook, cell by cell, in one namespace, as a notebook runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed; `pip install matchwood[plots]`")

NOTEBOOK = Path(__file__).parents[2] / "examples" / "spark_tutorial.ipynb"


def test_every_cell_of_the_tutorial_runs_and_says_what_its_text_says(spark: Any) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "the notebook is stored without outputs"
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), space)
    assert space["spark"] is spark
    assert set(space["found"]) == {(1, "bob/1", 2.5), (1, "eve/1", 3.0), (2, "ann/2", 1.0), (3, "bob/1", 2.5)}
    assert "4 subscriptions" in space["explanation"]
    assert space["lake"].manifest("rejects", 1).counts["records"] == 1
    assert sorted((row["event_id"], row["rank"]) for row in space["in_sql"].collect()) == [(1, 1), (2, 1), (3, 1)]
    streamed = [(row["event_id"], row["subscription_id"]) for row in space["stream"].matches(spark).collect()]
    assert sorted(streamed) == [(10, 2), (10, 7)]
