"""The documentation tells the truth: links lead somewhere, examples run, commands exist. Examples with `>>>` run as doctests."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.__main__ import NAMES
from matchwood.cli.main import main
from tests.systems import SYSTEMS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NEEDS_SPARK = {"spark.md"}
PLACEHOLDERS = {"NAME", "VERB"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def found(pattern: str) -> list[tuple[str, str]]:
    """(page, first group) of every match in the documentation."""
    return [
        (name_of(page), match[1])
        for page in PAGES
        for match in re.finditer(pattern, page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [link.partition("#")[0] for link in links if "://" not in link and not link.startswith("#")]
    assert [link for link in local if not (page.parent / link).exists()] == []


def plain_examples(page: Path) -> list[str]:
    """The blocks of Python that are no doctests."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if ">>>" not in block]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in NEEDS_SPARK and plain_examples(page)], ids=name_of
)
def test_plain_examples_of_a_page_run_from_top_to_bottom(page: Path) -> None:
    names: dict[str, object] = {}
    for block in plain_examples(page):
        exec(compile(block, name_of(page), "exec"), names)  # an example that raises fails here
    assert len(names) > 1, "the examples define nothing"


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = found(r"(?:^    |`)make (?:[A-Z]+=\S+ )?([a-z]+(?: [a-z]+)*)(?=`|  |$| [A-Z]+=)")
    assert {target for _, target in named} >= {"demo", "test", "report", "docs"}
    assert [(page, line) for page, line in named if not set(line.split()) <= targets] == []


def test_every_experiment_and_module_of_bench_that_is_named_exists() -> None:
    names = found(r"python -m bench (\w+)")
    assert [(page, name) for page, name in names if name not in {*NAMES, *PLACEHOLDERS, "all"}] == []
    modules = found(r"python -m (bench\.\w+)")
    assert [(page, name) for page, name in modules if find_spec(name) is None] == []


@pytest.mark.parametrize("verb", sorted({command for _, command in found(r"`matchwood ((?:spark )?[a-z-]+)")}))
def test_every_verb_that_is_named_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*verb.split(), "--help"])
    assert ended.value.code == 0
    assert verb.split()[-1] in capsys.readouterr().out


def test_every_index_has_a_page_with_a_drawing_its_cost_when_it_wins_and_when_it_loses() -> None:
    for name in [*SYSTEMS, "live-events", "beq-tree", "r-star-tree"]:
        text = (ROOT / "docs" / "indexes" / f"{name}.md").read_text(encoding="utf-8")
        assert re.search(r"^    \S", text, re.MULTILINE), f"{name}: no drawing"
        for word in ("ost", "**Wins**", "**Loses**", "aper"):
            assert word in text, f"{name}: nothing about {word}"


def test_the_overview_and_the_site_name_every_page_of_an_index() -> None:
    overview = (ROOT / "docs" / "indexes" / "README.md").read_text(encoding="utf-8")
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "indexes").glob("*.md"):
        if page.name != "README.md":
            assert f"({page.name})" in overview
            assert f"indexes/{page.name}" in site
