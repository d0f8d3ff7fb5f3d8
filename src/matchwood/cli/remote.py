"""What the verbs that talk to a broker share: its address, the key, events as arguments, JSON lines as output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matchwood.errors import RequestError

if TYPE_CHECKING:
    from matchwood.client import Client

URL = "http://127.0.0.1:8440"
_KEY_HELP = "a file with the key (default: $MATCHWOOD_KEY; a key on the command line could be seen by others)"


def add_broker(parser: argparse.ArgumentParser, *, patience: float = 5.0) -> None:
    """Add the options that every such verb has."""
    parser.add_argument("--url", metavar="URL", help=f"the broker (default: $MATCHWOOD_URL, else {URL})")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help=_KEY_HELP)
    parser.set_defaults(patience=patience)


def with_broker(options: argparse.Namespace, work: Callable[[Client], Coroutine[Any, Any, int | None]]) -> int:
    """Connect, do the work, return its exit code (None: 0)."""
    import asyncio
    import os

    from matchwood.client import connect

    async def connected() -> int | None:
        url = options.url or os.environ.get("MATCHWOOD_URL") or URL
        async with connect(url, key=key_of(options), patience=options.patience) as mw:
            return await work(mw)

    return asyncio.run(connected()) or 0


def key_of(options: argparse.Namespace) -> str | None:
    """The key of `--key-file`; None to take that of the environment."""
    if options.key_file is None:
        return None
    try:
        return str(options.key_file.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"the key cannot be read from {options.key_file}: {error}") from None


def event_of(words: Sequence[str]) -> dict[str, Any]:
    """An event from arguments: one JSON object, or NAME=VALUE pairs, where VALUE is JSON or else a string.

    >>> event_of(["price=250", "item=phone", "place.lon=10.5"])
    {'price': 250, 'item': 'phone', 'place': {'lon': 10.5}}
    >>> event_of(['{"price": 250}'])
    {'price': 250}
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            event = json.loads(words[0])
        except ValueError as error:
            raise RequestError(f"the event is not JSON: {error}") from None
        assert isinstance(event, dict)
        return event
    made: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise RequestError(f"expected NAME=VALUE or a JSON object, got {word!r}")
        *outer, last = name.split(".")
        inner = made
        for part in outer:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise RequestError(f"{word!r}: {part!r} has a value already")
        inner[last] = _value(value)
    return made


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def show(record: object) -> None:
    """Print a record as a line of JSON; fields that are empty are left out."""
    import msgspec

    plain = msgspec.to_builtins(record)
    print(json.dumps(plain, ensure_ascii=False), flush=True)


def note(text: str) -> None:
    """Print to standard error: for people, not for pipes."""
    print(text, file=sys.stderr, flush=True)
