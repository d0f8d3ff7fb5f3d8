"""Damaged geometries, patterns and decays: the small languages inside the language, each with a reader of its own."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from matchwood.errors import MatchwoodError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.geometry import Geometry, geojson_of, geometry_of
from matchwood.lang.json_form import from_json, to_json
from matchwood.lang.parser import parse
from matchwood.lang.regions import BOUNDARY, INSIDE, OUTSIDE, location_of, parts_of
from matchwood.lang.rows import normalise
from matchwood.lang.wkt import read_wkt, wkt_of
from matchwood.patterns import like_test, read_test, written_test
from matchwood.schema import Point, Schema
from tests.fuzz.mutation import mutated_json, mutated_text

GEOMETRIES = (
    "POINT(4.35 50.85)",
    "MULTIPOINT((1 2), (3 4))",
    "LINESTRING(0 0, 1 1, 2 0)",
    "MULTILINESTRING((0 0, 1 1), (2 2, 3 3, 4 2))",
    "POLYGON((0 0, 8 0, 8 8, 0 8, 0 0), (2 2, 2 4, 4 4, 4 2, 2 2))",
    "POLYGON Z ((170 -10 5, 190 -10 5, 190 10 5, 170 -10 5))",
    "MULTIPOLYGON(((0 0, 8 0, 8 8, 0 0), (5 2, 6 2, 6 3, 5 2)), ((9 9, 10 9, 9 10, 9 9)))",
    "GEOMETRYCOLLECTION(POINT(1 2), POLYGON((0 0, 1 0, 0 1, 0 0)), LINESTRING(0 0, 1 1))",
)
PATTERNS = ("Ann%", "%index_of%", "100\\%", "%.tmp", "_%_", "", "a%b%c", "\\_\\\\", "ß%Å_")
EXPRESSIONS = ("GET /api/v[0-9]+", "^a|b$", "(x+y*)?z", "[^a-c]{2,5}", "\\d+\\.\\w*", "(?i)time.?out", "")
NETWORKS = ("10.0.0.0/8", "::1/128", "2001:db8::/32", "::ffff:10.0.0.0/104", "192.168.1.7")
TEXTS = (
    "",
    "Ann",
    "an index of it",
    "100%",
    "a.tmp",
    "GET /api/v12",
    "10.1.2.3",
    "::ffff:10.0.0.1",
    "2001:db8::5",
    "ß",
)
DECAYS = (
    "price <= 300 ^2 DECAY(LINEAR, ORIGIN 100, SCALE 200)",
    "DWITHIN(place, POINT(-73.98 40.75), 1 km) ^5 DECAY",
    "seen >= DATE('2026-01-01') DECAY(EXP, ORIGIN TIMESTAMP('2026-01-31T12:00:00Z'), SCALE 6 h)",
    "price BETWEEN 36 AND 40 DECAY(GAUSS, ORIGIN 38, SCALE 1, OFFSET 0.5, TO 0.25)",
    "BBOX(place, 1, 2, 3, 4) DECAY(EXP, ORIGIN POINT(2 3), SCALE 10 km, OFFSET 1 mi)",
    "price IS NOT NULL ^0.5 DECAY(LINEAR, ORIGIN -1e3, SCALE 0.5, TO 0)",
)
EVENT = {"price": 150.0, "place": {"lon": 2.5, "lat": 3.0}, "seen": "2026-01-31T00:00:00Z"}


def geometries(random: Random) -> int:
    """Damaged WKT or GeoJSON: refused, or a geometry that its WKT and GeoJSON give back, in which every place has a location."""
    source = random.choice(GEOMETRIES)
    try:
        if random.random() < 0.5:
            found = read_wkt(mutated_text(random, source, random.choice(GEOMETRIES)))
        else:
            found = geometry_of(mutated_json(random, geojson_of(read_wkt(source))))
    except MatchwoodError:
        return 1
    assert read_wkt(wkt_of(found)) == found if found.type != "BBox" else True, found
    assert geometry_of(json.loads(json.dumps(geojson_of(found)))) == found, found
    locate(found, random)
    return 1


def locate(geometry: Geometry, random: Random) -> None:
    """The location of some place in a geometry that was accepted."""
    try:
        parts = parts_of(geometry)
    except MatchwoodError:  # rings that cross
        return
    place = Point(random.choice((-180.0, 0.0, 1.0, 2.5, 180.0)), random.choice((-90.0, 0.0, 1.0, 2.5)))
    assert location_of(parts, place) in (OUTSIDE, BOUNDARY, INSIDE), geometry


def patterns(random: Random) -> int:
    """A damaged pattern, regular expression or network: refused, or a test that its text gives back."""
    function, sources = random.choice(
        (("LIKE", PATTERNS), ("REGEX", EXPRESSIONS), ("CIDR", NETWORKS), ("STARTS_WITH", PATTERNS))
    )
    source = mutated_text(random, random.choice(sources), random.choice(sources))
    quoted = "'" + source.replace("'", "''") + "'"
    written = f"x LIKE {quoted}" if function == "LIKE" else f"{function}(x, {quoted})"
    try:
        found = parse(written)
        if function == "LIKE":
            test = like_test(source)
            text = random.choice(TEXTS)
            assert read_test(written_test(test)).holds(text) is test.holds(text), (source, text)
    except MatchwoodError:
        return 1
    assert parse(str(found)) == found, source
    assert from_json(json.loads(json.dumps(to_json(found)))) == found, source
    schema = Schema({"x": "string"})
    judge(normalise(found, schema), event_keys({"x": random.choice(TEXTS)}, schema))
    return 1


def decays(random: Random) -> int:
    """A damaged DECAY, in text or JSON: refused, or one that its text and JSON give back, with a closeness from 0 to 1."""
    try:
        if random.random() < 0.5:
            found = parse(mutated_text(random, random.choice(DECAYS), random.choice(DECAYS)))
        else:
            tree: Any = to_json(parse(random.choice(DECAYS)))
            tree["decay"] = mutated_json(random, tree.get("decay") or {"curve": "exp"})
            found = from_json(tree)
    except MatchwoodError:
        return 1
    assert parse(str(found)) == found, found
    assert from_json(json.loads(json.dumps(to_json(found)))) == found, found
    schema = Schema({"price": "number", "place": "point", "seen": "timestamp"})
    try:
        rows, keys = normalise(found, schema), event_keys(EVENT, schema)
    except MatchwoodError:
        return 1
    score = judge(rows, keys).score
    assert score is None or 0.0 <= score < float("inf"), found
    return 1
