"""Conditions of other languages -> Expression, and back (docs/converters.md). One file for each language.

    reading      places in the input, values and their types: what the readers of JSON share
    logic        two-valued logic and lists "by any element" in the terms of Matchwood
    eventbridge, mongodb, elasticsearch, cesql
    writing      Expression -> MongoDB, Elasticsearch, CloudEvents SQL

A converter keeps the meaning or refuses: a `ConversionError` names the construct, its place in the input and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matchwood.convert.cesql import from_cesql
from matchwood.convert.elasticsearch import from_elasticsearch
from matchwood.convert.eventbridge import from_eventbridge
from matchwood.convert.mongodb import from_mongodb
from matchwood.convert.writing import to_cesql, to_elasticsearch, to_mongodb
from matchwood.lang.expression import Expression

__all__ = [
    "READERS",
    "WRITERS",
    "from_cesql",
    "from_elasticsearch",
    "from_eventbridge",
    "from_mongodb",
    "to_cesql",
    "to_elasticsearch",
    "to_mongodb",
]

READERS: dict[str, Callable[[object], Expression]] = {
    "eventbridge": from_eventbridge,
    "mongodb": from_mongodb,
    "elasticsearch": from_elasticsearch,
    "cesql": from_cesql,
}
"""The function of each language, by the name that the command line uses."""

WRITERS: dict[str, Callable[[Expression], Any]] = {
    "mongodb": to_mongodb,
    "elasticsearch": to_elasticsearch,
    "cesql": to_cesql,
}
"""The way back, for the languages that have one."""
