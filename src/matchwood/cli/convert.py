"""`matchwood convert FROM [FILE]`: conditions of another language as expressions (docs/converters.md).

The input is one condition, or one on each line (JSON lines; for `cesql` one filter on each line). Each becomes one line of text,
or of CQL2 JSON with `--to json`. A condition that is refused is reported on standard error with its line and left out; with
`--keep-lines` an empty line takes its place.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from matchwood.cli.codes import ERROR, REJECTED

if TYPE_CHECKING:
    from matchwood.lang.expression import Expression

LANGUAGES = ("eventbridge", "mongodb", "elasticsearch", "cesql")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "convert",
        help="convert conditions of EventBridge, MongoDB, Elasticsearch or CloudEvents SQL",
        epilog="Exit codes: 0 if every condition was converted, 3 if some were refused, 2 if none was, or for an error.",
    )
    parser.add_argument("language", choices=LANGUAGES, metavar="FROM", help=", ".join(LANGUAGES))
    parser.add_argument(
        "file", type=Path, nargs="?", help="one condition, or one on each line (default: standard input)"
    )
    parser.add_argument("--to", choices=["text", "json"], default="text", help="the form of the expressions")
    parser.add_argument("--keep-lines", action="store_true", help="write an empty line for a condition that is refused")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Convert the conditions; return the exit code."""
    from matchwood.errors import MatchwoodError, StorageError

    try:
        text = sys.stdin.read() if options.file is None else options.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(
            f"cannot read {options.file or 'standard input'}: {error}; give a readable file in UTF-8"
        ) from None
    converted = refused = 0
    for line, condition in conditions(text, options.language):
        try:
            print(written(condition, options.language, options.to))
            converted += 1
        except MatchwoodError as error:
            refused += 1
            print(f"line {line}: {error}", file=sys.stderr)
            if options.keep_lines:
                print()
    if not converted and not refused:
        print("matchwood: there is no condition in the input", file=sys.stderr)
        return ERROR
    return 0 if not refused else REJECTED if converted else ERROR


def conditions(text: str, language: str) -> Iterator[tuple[int, str]]:
    """The conditions with their lines, from 1. JSON that is one value, on however many lines, is one condition."""
    import json

    if language != "cesql":
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            yield 1, text
            return
    for line, content in enumerate(text.splitlines(), 1):
        if content.strip():
            yield line, content


def written(condition: str, language: str, form: str) -> str:
    """One condition as a line of output."""
    import json

    from matchwood.errors import ConversionError
    from matchwood.lang.json_form import to_json

    expression = converted(condition, language)
    if form == "json":
        return json.dumps(to_json(expression))
    text = str(expression)
    if len(text.splitlines()) > 1:
        raise ConversionError(
            "a string or a name contains a line end, which one line of text cannot hold; use --to json"
        )
    return text


def converted(condition: str, language: str) -> Expression:
    """The expression of a condition in the text of its language."""
    import json

    from matchwood.convert import READERS
    from matchwood.errors import ConversionError

    if language == "cesql":
        return READERS[language](condition)
    try:
        value = json.loads(condition)
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"expected JSON: {error}") from None
    return READERS[language](value)
