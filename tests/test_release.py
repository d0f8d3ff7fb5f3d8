"""The version stands in one place, and the changelog describes it."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

import matchwood
from matchwood.cli.main import main

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_package_metadata_takes_its_version_from_the_package() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    path = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    (version,) = re.findall(r"^__version__ = \"(.+)\"$", path.read_text(encoding="utf-8"), re.M)
    assert version == matchwood.__version__


def test_the_command_line_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"matchwood {matchwood.__version__}\n"


def test_the_changelog_dates_this_version_and_has_a_place_for_the_next() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", changelog, re.M)
    assert heads[0] == ("Unreleased", "")
    assert heads[1][0] == matchwood.__version__
    released = [date.fromisoformat(day) for _, day in heads[1:]]
    assert released == sorted(released, reverse=True)


def test_everything_that_the_source_distribution_names_exists() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"/src", "/tests", "/examples", "/docs"} <= set(included)
    assert [path for path in included if not list(ROOT.glob(path.removeprefix("/")))] == []
