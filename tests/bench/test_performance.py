"""The performance page: figures are looked up, losses are listed, and what is missing is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import NAMES
from bench.claims import CHAPTERS
from bench.claims.forms import (
    Chapter,
    Claim,
    Rival,
    Section,
    at,
    at_least,
    at_most,
    beside,
    by_system,
    choice,
    everything,
    over_best,
    saved,
    times,
    worst_over,
    worst_over_best,
)
from bench.formatting import number
from bench.performance import Page
from bench.plots import MODULES
from bench.results import Experiment, MissingFigureError, Results
from bench.winners import BEGIN, END, winners, with_block

ABOUT = {
    "cpu": "a processor",
    "cores": 2,
    "python": "3.13.0",
    "packages": {"numpy": "2.4"},
    "commit": "abc",
    "time": "now",
}


def row(workload: str, system: str, value: float, *, n: int = 10, metric: str = "us_per_event") -> dict[str, Any]:
    return {"workload": workload, "system": system, "n": n, "metric": metric, "value": value, "verified": True}


def experiment(*rows: dict[str, Any], preset: str = "paper") -> Experiment:
    return Experiment("tiny", preset, ABOUT, {}, list(rows))


def page(section: Section, *rows: dict[str, Any], preset: str = "paper", figures: Path = Path("nowhere")) -> str:
    chapter = Chapter("tiny", "Tiny", "About it.", [section])
    return Page(Results({"tiny": experiment(*rows, preset=preset)}), figures).text([chapter])


ROWS = (row("w", "ours", 2.0), row("w", "theirs", 5.0), row("w", "quick one", 1.0))


def test_a_claim_shows_our_figure_the_papers_the_target_and_the_competitor() -> None:
    claim = Claim(
        "saved",
        saved(at("w", "theirs"), at("w", "ours")),
        "%",
        paper="50 %",
        target=at_least(55),
        rival=Rival("Theirs", at("w", "theirs"), at("w", "ours")),
    )
    text = page(Section("Figure 1", "It is faster.", [claim]), *ROWS)
    assert "| saved | 50 % | 60 % | at least 55 %: met | Theirs 5 µs, ours 2 µs (2.50 x) |" in text
    assert "None in these figures." in text


def test_a_missed_target_is_marked_and_listed_with_its_reason() -> None:
    claim = Claim("time", at("w", "ours"), "µs", target=at_most(1.5), why="It is late.")
    text = page(Section("Figure 1", "", [claim]), *ROWS)
    losses, _, rest = text.partition('<a id="tiny"></a>')
    assert "[Figure 1](#tiny-1) | time | 2 µs | target: at most 1.50 µs | It is late. |" in losses
    assert "**missed**" in rest
    assert 'id="tiny-1"' in rest


def test_a_competitor_that_is_faster_is_a_loss_whatever_the_target() -> None:
    claim = Claim(
        "time", at("w", "ours"), "µs", target=at_most(9), rival=Rival("Quick", at("w", "quick one"), at("w", "ours"))
    )
    losses = page(Section("Figure 1", "", [claim]), *ROWS).partition('<a id="tiny"></a>')[0]
    assert "**Quick 1 µs, ours 2 µs** (0.50 x)" in losses


def test_every_figure_that_is_missing_is_named_with_names_near_to_it() -> None:
    section = Section("Figure 1", "", [Claim("a", at("w", "our"), ""), Claim("b", at("w", "ours", "bytes"), "")])
    with pytest.raises(MissingFigureError) as caught:
        page(section, *ROWS)
    assert "tiny.json has no row w | our | us_per_event; similar rows: w | ours | us_per_event" in str(caught.value)
    assert "tiny.json has no row w | ours | bytes" in str(caught.value)


def test_a_plot_that_was_not_drawn_is_missing_too(tmp_path: Path) -> None:
    section = Section("Figure 1", "", plots=[("a.png", "A plot")])
    with pytest.raises(MissingFigureError, match=r"the plot a\.png has not been drawn"):
        page(section, *ROWS, figures=tmp_path)
    (tmp_path / "a.png").touch()
    assert "![A plot](figures/a.png)" in page(section, *ROWS, figures=tmp_path)


def test_the_quick_preset_goes_without_what_it_does_not_measure() -> None:
    section = Section("Figure 1", "", [Claim("a", at("w", "other"), "µs", target=at_most(1))], plots=[("a.png", "")])
    text = page(section, *ROWS, preset="quick")
    assert "| a | not measured | at most 1 µs |" in text
    assert "None in these figures." in text


def test_an_experiment_without_a_file_is_not_measured_and_says_how_to() -> None:
    chapter = Chapter("other", "Other", "", [Section("Figure 1", "A claim.", [Claim("a", at("w", "ours"), "")])])
    text = Page(Results({"tiny": experiment(*ROWS)}), Path("nowhere")).text([chapter])
    assert "not measured; run `python -m bench other --preset paper`." in text


def test_a_table_has_the_best_in_bold_an_empty_cell_where_nothing_ran_and_no_empty_line() -> None:
    rows = (row("w", "a", 1.0), row("w", "b", 2.0), row("w", "b", 30.0, n=20))
    lines = [("10", "w", 10), ("20", "w", 20), ("30", "w", 30)]
    text = page(Section("Table 1", "", grids=[by_system("µs", lines, [("a", "A"), ("b", "B")])]), *rows)
    assert "| µs | A | B |\n|---|---|---|\n| 10 | **1** | 2 |\n| 20 |  | **30** |\n\n" in text + "\n"


def test_a_table_column_without_any_figure_is_a_wrong_name() -> None:
    grid = by_system("µs", [("10", "w", 10)], [("ours", "Ours"), ("thiers", "Theirs")])
    with pytest.raises(MissingFigureError, match="nothing for 'Theirs'"):
        page(Section("Table 1", "", grids=[grid]), *ROWS)


def test_the_table_of_everything_follows_the_rows() -> None:
    top = row("w", "ours", 4.0, metric="us_per_event_top_10")
    rows = (*ROWS, row("v", "ours", 7.0, n=3), row("v", "ours", 9.0, metric="bytes"), top)
    text = page(Section("Table 1", "", grids=[everything("us_per_event")]), *rows)
    assert "| µs an event | `ours` | `theirs` | `quick one` |" in text
    assert "| µs an event top 10 | `ours` |" in text
    assert "| w, 10 | 2 | 5 | **1** |\n| v, 3 | **7** |  |  |" in text


def test_a_sentence_may_name_numbers_that_are_looked_up() -> None:
    section = Section(
        "Figure 1", "", differs="It is {x} times.", numbers={"x": times(at("w", "theirs"), at("w", "ours"))}
    )
    assert "It is 2.50 times." in page(section, *ROWS)


def test_stars_of_names_are_no_emphasis() -> None:
    text = page(Section("BE*-Tree", "R*-tree and G* here.", [Claim("**x**", at("w", "ours"), "µs")]), *ROWS)
    assert "### BE\\*-Tree" in text
    assert "R\\*-tree and G\\* here" in text
    assert "**x**" in text


def test_a_figure_is_of_the_largest_n_unless_one_is_named() -> None:
    rows = experiment(
        row("w", "a", 1.0, n=10), row("w", "a", 2.0, n=20), row("w", "b", 5.0, n=10), row("w", "b", 6.0, n=20)
    )
    assert at("w", "a")(rows) == 2.0
    assert at("w", "a", n=10)(rows) == 1.0
    with pytest.raises(MissingFigureError, match="n=15"):
        at("w", "a", n=15)(rows)


def test_two_systems_are_compared_at_the_size_the_first_ran_with() -> None:
    rows = experiment(row("w", "slow", 9.0, n=10), row("w", "ours", 1.0, n=10), row("w", "ours", 3.0, n=20))
    slow, ours = beside("w", "slow", "ours")
    assert times(slow, ours)(rows) == 9.0


def test_the_latest_of_two_rows_of_one_name_counts_and_a_pattern_finds_either_name() -> None:
    rows = experiment(row("city, real places", "a", 1.0), row("city, real places", "a", 3.0))
    assert at("city, *", "a")(rows) == 3.0


def test_the_planner_is_judged_by_its_worst_workload() -> None:
    rows = experiment(
        row("v", "auto", 2.0), row("v", "scan", 4.0), row("v", "vcr", 1.0), row("w", "auto", 3.0), row("w", "scan", 2.0)
    )
    assert worst_over_best("auto")(rows) == 2.0
    assert worst_over("auto", "scan")(rows) == 1.5


def test_the_planner_is_judged_by_every_way_of_asking() -> None:
    rows = experiment(
        row("w", "auto", 2.0),
        row("w", "vcr", 2.0),
        row("w", "auto", 6.0, metric="us_per_event_any"),
        row("w", "scan", 4.0, metric="us_per_event_any"),
    )
    assert worst_over_best("auto")(rows) == 1.5


def test_the_planner_is_shown_beside_the_best_of_every_workload() -> None:
    rows = (row("w", "auto", 3.0), row("w", "vcr", 2.0), row("w", "auto", 4.0, metric="us_per_event_any"))
    rows = (*rows, row("w", "scan", 4.0, metric="us_per_event_any"), row("v", "auto", 1.0), row("v", "scan", 2.0))
    text = page(Section("Table 1", "", grids=[over_best("`auto`", "auto", "us_per_event")]), *rows)
    assert "| `auto` | all matches | any |\n|---|---|---|\n| w, 10 | 1.50 | 1 |\n| v, 10 | 0.50 |  |" in text


def test_the_winners_of_the_shown_workloads_are_named_with_the_next_and_what_auto_makes_of_it() -> None:
    systems = {"auto": 2.1, "scan": 40.0, "vcr": 2.0, "ranked": 3.0}
    rows = experiment(*[row(w, system, value) for w in ("Retail", "not shown") for system, value in systems.items()])
    about, measured = (
        "Retail: real invoices, 120 matches",
        f"Measured {ABOUT['time'][:10]}, {ABOUT['cpu']}, one thread.",
    )
    assert winners(rows)[2:] == [f"| {about} | 10 | `vcr` 2 | `ranked` 3 | 2.10 | 40 |", "", measured]


def test_the_block_between_the_marks_is_replaced_and_nothing_else() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_block(text, ["new"]) == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(SystemExit):
        with_block("no marks", ["new"])


def test_the_best_parameter_is_the_one_with_the_least_figure() -> None:
    figures = {1: at("w", "ours"), 2: at("w", "quick one"), 3: at("w", "theirs")}
    assert choice(figures)(experiment(*ROWS)) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.5, "1,234"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.0123, "0.0123"), (3.0, "3")],
)
def test_numbers_have_about_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_results_are_read_as_they_were_kept(tmp_path: Path) -> None:
    kept = {"environment": ABOUT, "preset": "quick", "parts": {}, "workloads": {}, "rows": list(ROWS)}
    (tmp_path / "scan.json").write_text(json.dumps(kept), encoding="utf-8")
    results = Results.load(tmp_path, ["scan", "vcr"])
    assert [found.name for found in results] == ["scan"]
    assert results.get("vcr") is None


def test_every_chapter_has_its_experiment_and_titles_and_plots_are_named_once() -> None:
    names = [chapter.experiment for chapter in CHAPTERS]
    assert len(set(names)) == len(names)
    assert set(MODULES) <= set(names)
    sections = [section for chapter in CHAPTERS for section in chapter.sections]
    assert len({section.title for section in sections}) == len(sections)
    plots = [name for section in sections for name, _ in section.plots]
    assert len(set(plots)) == len(plots)


def test_the_published_page_is_what_the_kept_figures_give() -> None:
    docs = Path(__file__).parents[2] / "docs"
    made = Page(Results.load(docs / "figures", NAMES), docs / "figures", lenient=True).text(CHAPTERS)
    assert made == (docs / "performance.md").read_text(encoding="utf-8"), "run `make report`"
