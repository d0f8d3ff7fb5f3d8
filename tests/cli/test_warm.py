"""`matchwood warm`: what is compiled, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from numba.core import config

from matchwood.cli.main import main
from matchwood.planner import RULES, compiling, warm
from matchwood.planner.exercise import COVER_UPDATES, COVERED, COVERS, LIVE
from matchwood.structures import INDEXES

USED = [contender.index for contender in RULES.contenders]


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled into an empty cache, without compiling."""
    done: list[str] = []

    def process(options: dict[str, list[str]], check: Callable[[], None]) -> None:
        for name, words in options.items():
            scoring = "--scoring" in words
            done.append(name + " for scoring" * scoring)
            path = compiling.stamp(name, scoring=scoring)
            assert path is not None
            path.touch()

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(compiling.VARIABLE, raising=False)
    monkeypatch.setattr(compiling, "_compile", process)
    return done


def test_everything_that_an_engine_uses_is_compiled_once(
    compiled: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["warm"]) == 0
    assert compiled == [*USED, LIVE, COVERS, COVERED, COVER_UPDATES]
    out, err = capsys.readouterr()
    assert "11 / 11" in err
    assert str(tmp_path) in out
    assert main(["warm"]) == 0
    assert len(compiled) == 11
    assert capsys.readouterr().err == ""


def test_with_all_the_other_indexes_and_scoring_functions_follow(compiled: list[str]) -> None:
    assert main(["warm", "--all"]) == 0
    assert set(compiled[11:]) == {"k-index", f"{LIVE} for scoring", *(f"{name} for scoring" for name in INDEXES)}


def test_without_a_process_to_start_this_one_compiles(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[str] = []
    monkeypatch.setenv(compiling.VARIABLE, "0")
    monkeypatch.setattr(warm, "exercise", lambda name, *, scoring: here.append(name))
    assert main(["warm"]) == 0
    assert (compiled, len(here)) == ([], 11)


def test_without_a_cache_to_write_to_it_says_so(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiling, "cache_folder", lambda *_: None)
    assert main(["warm"]) == 2
    assert "set NUMBA_CACHE_DIR" in capsys.readouterr().err
