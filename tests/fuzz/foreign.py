"""Damaged conditions of other languages: refused, or an expression that its own text and JSON give back."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

from matchwood.convert import READERS, WRITERS
from matchwood.errors import MatchwoodError, TooComplexError
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.parser import parse
from tests.convert import worlds
from tests.convert.evaluators import cesql_text
from tests.fuzz.mutation import mutated_json, mutated_text

PLACES = (
    {"p": {"$geoWithin": {"$centerSphere": [[1, 2], 0.1]}}, "t": {"$gt": {"$date": "2026-01-31T12:00:00Z"}}},
    {"p": {"$nearSphere": {"$geometry": {"type": "Point", "coordinates": [1, 2]}, "$maxDistance": 5}}},
    {"p": {"$geoWithin": {"$box": [[1, 2], [3, 4]]}}, "n": {"$lt": {"$numberLong": "5"}}},
)
GEO = (
    {"geo_distance": {"distance": "12km", "p": {"lat": 59.9, "lon": 10.7}}},
    {"geo_bounding_box": {"p": {"top_left": "2,1", "bottom_right": [3, 1]}}},
    {"range": {"t": {"gt": "2026-01-31", "lte": "2026-01-31T12:00:00Z", "boost": 2}}},
)


@cache
def samples(language: str) -> tuple[Any, ...]:
    random = Random(language)
    if language == "cesql":
        return tuple(cesql_text(worlds.a_cesql_tree(random)) for _ in range(100))
    make = {
        "eventbridge": worlds.an_eventbridge_pattern,
        "mongodb": worlds.a_mongodb_condition,
        "elasticsearch": worlds.an_elasticsearch_query,
    }[language]
    extra = {"mongodb": PLACES, "elasticsearch": GEO}.get(language, ())
    return (*(make(random) for _ in range(100)), *extra * 5)


def foreign(random: Random) -> int:
    language = random.choice(list(READERS))
    source = random.choice(samples(language))
    if language == "cesql":
        source = mutated_text(random, source, random.choice(samples(language)))
    else:
        source = mutated_json(random, source)
    try:
        found = READERS[language](source)
    except MatchwoodError:
        return 1
    assert parse(str(found)) == found, source
    assert from_json(json.loads(json.dumps(to_json(found)))) == found, source
    for name, write in WRITERS.items():
        try:
            written = json.dumps(write(found), allow_nan=False)
        except MatchwoodError:
            continue
        with suppress(TooComplexError):  # what is written may nest deeper than what was read
            READERS[name](json.loads(written))
    return 1
