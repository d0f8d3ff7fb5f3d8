"""The public names are few, and importing them brings in nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

import matchwood


def test_the_public_names_are_these() -> None:
    assert sorted(matchwood.__all__) == [
        "Engine",
        "Event",
        "Explanation",
        "ManualClock",
        "Match",
        "MatchwoodError",
        "Point",
        "Range",
        "Schema",
        "attr",
        "parse",
    ]


def test_every_public_name_is_there_and_documented() -> None:
    for name in matchwood.__all__:
        assert getattr(matchwood, name).__doc__, name


@pytest.mark.parametrize("module", ["pyspark", "starlette", "uvicorn", "pandas", "matplotlib", "hypothesis"])
def test_importing_matchwood_does_not_import(module: str) -> None:
    script = f"import sys, matchwood; raise SystemExit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_error_is_a_matchwood_error_and_drawn_in_the_tree() -> None:
    from matchwood import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 10
    for class_ in classes:
        assert issubclass(class_, errors.MatchwoodError)
        assert class_.__name__ in (errors.__doc__ or "")
