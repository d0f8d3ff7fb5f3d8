"""The command line as a whole: help is instant, and errors end with a code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from matchwood.cli.main import main

VERBS = "bench dead demo explain hook key match pub snapshot spark sub tail verify warm".split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["match", "--help"],
        ["demo", "--help"],
        ["spark", "ingest", "--help"],
        ["pub", "--help"],
        ["key", "make", "--help"],
        ["verify", "--help"],
        ["bench", "--help"],
    ],
)
def test_help_and_version_import_neither_numpy_nor_a_compiler(arguments: list[str]) -> None:
    """A tenth of a second is promised, mostly the start of Python; the bound is on CPU time, and generous."""
    script = (
        "import sys, time\n"
        "from matchwood.cli.main import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as stopped: assert stopped.code == 0\n"
        "heavy = {'numpy', 'numba', 'pyarrow', 'pyspark', 'pandas', 'aiohttp', 'msgspec', 'asyncio'} & set(sys.modules)\n"
        "print(time.process_time(), *heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    took, *heavy = done.stderr.splitlines()[-1].split()
    assert heavy == []
    assert float(took) < 1.0
    assert done.stdout


def test_every_verb_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"    {verb} " in text for verb in VERBS)


def test_the_codes_are_in_the_help_of_match(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["match", "--help"])
    assert "3 if some were rejected" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_verb_is_an_error_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["mtach"])
    assert stopped.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
