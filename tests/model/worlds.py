"""Random worlds: attributes, expressions, events and records of tables, biased to where systems go wrong.

Every attribute has a small pool of constants, so that subscriptions share their ends. Events take values from that pool, one
float beside it, below and above all of it, and the infinities; pools are small numbers, tiny ones (denormals), huge ones,
neighbours, or one value alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.model.conditions import TEMPORAL, Area, Counted, Decay, Each, Folded, Listed, Pattern, Ring, Timed
from tests.model.forms import Record
from tests.model.model import (
    And,
    Between,
    Box,
    Circle,
    Compare,
    Constant,
    Expression,
    Happening,
    In,
    IsNull,
    Not,
    Or,
    Span,
    Square,
    Subscription,
    alternatives,
)

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
NAMES = {
    "x": "number",
    "y": "number",
    "deep.z": "number",
    "two words": "number",
    "city": "string",
    "or": "string",
    "vip": "bool",
    "seen": "timestamp",
    "place": "point",
    "home": "point",
}
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.7, 1.0, 2.0, 0.0, 3.3, 1e-3, 1e15)
ONE_MORE = math.nextafter(1.0, 2.0)
NUMBERS = (
    (-3, -2, -1, 0, 1, 2, 3),
    (0.1, 0.2, 0.30000000000000004, 0.3, 0.5, 0.7, 1),
    (0.0, 5e-324, 1e-323, -5e-324, 2.2250738585072014e-308, -0.0),
    (5e-324, 0),
    (-1.7976931348623157e308, 1.7976931348623157e308, 1e300, 0, math.inf, -math.inf),
    (7.0,),
    (1.0, ONE_MORE, math.nextafter(ONE_MORE, 2.0), math.nextafter(1.0, 0.0)),
    (2**53, 2**53 - 1, -(2**53), float(2**60), 10),  # an integer beyond 2^53 would make the attribute an id
    tuple(range(0, 1000, 37)),
)
STRINGS = ("Oslo", "Bergen", "", "it's", 'a "b"', "two\nlines", "Ålesund", "NULL", "oslo", "ALESUND", "10.0.0.1", "::1")
INSTANTS = tuple(
    START + delta
    for delta in (
        timedelta(0),
        timedelta(microseconds=1),
        timedelta(microseconds=-1),
        timedelta(hours=-12),
        timedelta(days=30),
        timedelta(days=-30_000),
    )
)
POINTS = (
    (0.0, 0.0),
    (10.0, 45.0),
    (-73.98, 40.75),
    (180.0, 0.0),
    (-180.0, 10.0),
    (0.0, 90.0),
    (5.0, -90.0),
    (179.5, 60.0),
)
RADII = (1.0, 500.0, 1000.0, 100_000.0, 2_000_000.0, 30_000_000.0)
MOST_ALTERNATIVES = 60
REGEXES = ("^O", "o$", "s.o", "[0-9]+", "e|Å", ".", "^$", "(?:i|t).s")
NETWORKS = ("10.0.0.0/8", "10.0.0.1/32", "::/64", "192.168.0.0/16")
SHAPES: tuple[tuple[Ring, ...], ...] = (
    (((-1.0, -1.0), (3.0, 0.0), (0.5, 2.5), (-1.0, -1.0)),),
    (((0.0, 40.0), (20.0, 40.0), (20.0, 50.0), (10.0, 45.0), (0.0, 50.0), (0.0, 40.0)),),
    (
        ((-80.0, 30.0), (-60.0, 30.0), (-60.0, 50.0), (-81.0, 50.0), (-80.0, 30.0)),
        ((-75.0, 40.0), (-73.0, 40.0), (-74.0, 42.0), (-75.0, 40.0)),
    ),
    (((170.0, -20.0), (190.0, -10.0), (185.0, 20.0), (170.0, -20.0)),),
    (((-200.0, 50.0), (-170.0, 55.0), (-180.0, 70.0), (-200.0, 50.0)),),
    (((-180.0, 60.0), (180.0, 60.0), (180.0, 90.0), (0.0, 89.0), (-180.0, 90.0), (-180.0, 60.0)),),
)
"""Polygons with corners and edges on places that events have; one with a hole, two across the antimeridian."""


class World:
    """The attributes of a world and everything random about it. One seed, one world."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        names = rng.sample(sorted(NAMES), rng.randint(1, len(NAMES)))
        if not any(NAMES[name] == "number" for name in names):
            names.append("x")
        self.types = {name: NAMES[name] for name in names}
        self.pools: dict[str, list[Any]] = {name: self._pool(type_) for name, type_ in self.types.items()}
        # Most subscriptions of real systems ask for the same one or two attributes, and structures live on that.
        self.favourites = rng.sample(names, min(2, len(names)))

    def _pool(self, type_: str) -> list[Any]:
        rng = self.rng
        if type_ == "number":
            pool = rng.choice(NUMBERS)
            return rng.sample(pool, rng.randint(1, min(8, len(pool))))
        if type_ == "bool":
            return [False, True]
        pools = {"string": STRINGS, "timestamp": INSTANTS, "point": POINTS}
        return rng.sample(pools[type_], rng.randint(1, 4))

    # Expressions

    def expression(self) -> Expression:
        """Any expression of which it is clear whether an event can match it (of two shapes on one place that is hard to tell)."""
        while True:
            found = self._tree(self.rng.randint(1, 3)) if self.rng.random() < 0.4 else self.conjunction()
            if self.clear(found):
                return found

    @staticmethod
    def clear(expression: Expression) -> bool:
        rows = alternatives(expression)
        return len(rows) <= MOST_ALTERNATIVES and all(p.can_hold() is not None for row in rows for p in row)

    def matchable(self, make: Any = None) -> Expression:
        """An expression that some event can match."""
        while True:
            found: Expression = (make or self.expression)()
            if self.clear(found) and any(all(p.can_hold() for p in row) for row in alternatives(found)):
                return found

    def conjunction(self) -> Expression:
        rng = self.rng
        names = list(dict.fromkeys([*self.favourites[: rng.randint(0, 2)], *self._some_names(3)]))
        rng.shuffle(names)
        parts = tuple(self.graded(self.leaf(name)) for name in names)
        return parts[0] if len(parts) == 1 else And(parts)

    def graded(self, leaf: Any) -> Any:
        """At times with a DECAY whose steps are powers of two, so that no rounding is left to chance."""
        rng = self.rng
        if not isinstance(leaf, Compare | Between) or self.types.get(leaf.attribute) != "number" or rng.random() < 0.9:
            return leaf
        if leaf.weight > 4 or any(abs(v) > 1000 or v * 8 != int(v * 8) for v in self.pools[leaf.attribute]):
            return leaf
        to, offset = rng.choice((0.0, 0.5)), rng.choice((0.0, 0.5, 2.0))
        decay = Decay(rng.choice(self.pools[leaf.attribute]), rng.choice((1.0, 4.0, 64.0)), offset, to)
        return replace(leaf, decay=decay)

    def _some_names(self, most: int) -> list[str]:
        return self.rng.sample(list(self.types), self.rng.randint(1, min(most, len(self.types))))

    def _tree(self, depth: int) -> Expression:
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return Constant(rng.random() < 0.5) if rng.random() < 0.05 else self.leaf(rng.choice(list(self.types)))
        kind = rng.random()
        if kind < 0.2:
            return Not(self._tree(depth - 1))
        children = tuple(self._tree(depth - 1) for _ in range(rng.randint(2, 3)))
        kind_of = And if kind < 0.6 else Or
        flat: list[Expression] = []
        for child in children:  # an AND in an AND is one AND
            flat.extend(child.children if isinstance(child, kind_of) else (child,))
        return kind_of(tuple(flat))

    def weight(self) -> float:
        return 1.0 if self.rng.random() < 0.5 else self.rng.choice(WEIGHTS)

    def leaf(self, name: str) -> Any:
        rng, type_, weight = self.rng, self.types[name], self.weight()
        if rng.random() < 0.08:
            return IsNull(name, rng.random() < 0.5, weight)
        if type_ == "point":
            return self._area(name, weight) if rng.random() < 0.3 else self._shape(name, weight)
        if rng.random() < 0.15:
            return self._whole(name, weight)
        negated = rng.random() < 0.2
        if type_ == "string" and rng.random() < 0.12:
            return self._folded(name, negated, weight)
        if type_ == "string" and rng.random() < 0.35:
            return self._pattern(name, negated, weight)
        kind = rng.random()
        if kind < 0.25:
            size = rng.randint(1, min(4, len(self.pools[name])))
            return In(name, tuple(rng.sample(self.pools[name], size)), negated, weight)
        if type_ == "string":
            return Compare(name, rng.choice(("=", "=", "!=")), self.constant(name), weight)
        if kind < 0.6:
            ends = [self.constant(name), self.constant(name)]
            if rng.random() < 0.95:
                ends.sort()
            return Between(name, *ends, negated, weight)
        return Compare(name, rng.choice(("=", "!=", "<", "<=", ">", ">=")), self.constant(name), weight)

    def _pattern(self, name: str, negated: bool, weight: float) -> Pattern:
        rng = self.rng
        if rng.random() < 0.1:
            return Pattern(name, "CIDR", rng.choice(NETWORKS), weight=weight)
        if rng.random() < 0.15:
            return Pattern(name, "REGEX", rng.choice(REGEXES), weight=weight)
        text = rng.choice((*self.pools[name], *STRINGS))
        begin, end = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        function = rng.choice(("LIKE", "LIKE", "STARTS_WITH", "ENDS_WITH", "CONTAINS"))
        if function != "LIKE":
            part = {"STARTS_WITH": text[:end], "ENDS_WITH": text[begin:], "CONTAINS": text[begin:end]}[function]
            return Pattern(name, function, part, weight=weight)
        marks = [rng.choice((c, c, c, "_", "%", f"\\{c}")) for c in text[begin:end]]
        pattern = rng.choice(("", "%")) + "".join(marks) + rng.choice(("", "%"))
        return Pattern(name, function, pattern, negated, weight)

    def _folded(self, name: str, negated: bool, weight: float) -> Any:
        """A condition on the attribute in functions of strings."""
        rng = self.rng
        functions = rng.choice((("CASEI",), ("ACCENTI",), ("CASEI", "ACCENTI")))
        leaf = rng.choice(
            (
                Compare(name, rng.choice(("=", "!=")), rng.choice(STRINGS), weight),
                In(name, tuple(rng.sample(STRINGS, 2)), negated, weight),
                self._pattern(name, negated, weight),
            )
        )
        return replace(leaf, attribute=Folded.of(functions, name))

    def _whole(self, name: str, weight: float) -> Any:
        rng, type_ = self.rng, self.types[name]
        kind = rng.random()
        if type_ == "timestamp" and kind < 0.4:
            lo, hi = sorted((self.constant(name), self.constant(name)))
            return Timed(name, rng.choice(TEMPORAL), lo, hi, weight)
        if kind < 0.7:
            values = tuple(rng.sample(self.pools[name], rng.randint(1, min(3, len(self.pools[name])))))
            if rng.random() < 0.4:
                operator = rng.choice(("=", "!=", "<", "<=", ">", ">="))
                return Counted(name, values, operator, rng.randint(0, len(values)), weight)
            function = rng.choice(("A_CONTAINS", "A_CONTAINEDBY", "A_EQUALS", "A_OVERLAPS"))
            return Listed(name, function, values, weight)
        if type_ == "string" and kind < 0.85:
            return Each(rng.choice(("ANY", "ALL")), self._pattern(name, False, weight))
        operators = ("=", "!=") if type_ == "string" else ("=", "!=", "<", "<=", ">", ">=")
        return Each(rng.choice(("ANY", "ALL")), Compare(name, rng.choice(operators), self.constant(name), weight))

    def _area(self, name: str, weight: float) -> Area:
        rng = self.rng
        function = rng.choice(("S_INTERSECTS", "S_INTERSECTS", "S_WITHIN", "S_DISJOINT", "S_TOUCHES"))
        return Area(name, function, tuple(rng.sample(SHAPES, rng.choice((1, 1, 2)))), weight)

    def constant(self, name: str) -> Any:
        if self.types[name] == "number" and self.rng.random() < 0.03:
            return self.rng.choice((math.inf, -math.inf))
        return self.rng.choice(self.pools[name])

    def _shape(self, name: str, weight: float) -> Any:
        rng = self.rng
        lon, lat = rng.choice(self.pools[name])
        kind = rng.random()
        if kind < 0.45:
            return Circle(name, lon, lat, rng.choice(RADII), weight)
        if kind < 0.6:
            return Square(name, lon, lat, rng.choice(RADII[:-1]), weight)
        wide, high = rng.choice((0.0, 0.5, 1.0, 20.0, 90.0, 170.0, 180.0)), rng.choice((0.0, 0.5, 1.0, 20.0, 90.0))
        west, east = max(lon - wide, -180.0), min(lon + wide, 180.0)
        if lon + wide > 180 and rng.random() < 0.5:
            west, east = lon - wide, lon + wide - 360  # across the antimeridian
        return Box(name, west, max(lat - high, -90.0), east, min(lat + high, 90.0), weight)

    # Events

    def event(self) -> Happening:
        rng = self.rng
        values = {}
        for name in self.types:
            if rng.random() < (0.9 if name in self.favourites else 0.7):
                values[name] = self.value(name)
        weights = {}
        if rng.random() < 0.3:
            weights = {name: rng.choice(WEIGHTS) for name in self._some_names(4)}
        return Happening(values, weights)

    def value(self, name: str) -> Any:
        rng, type_ = self.rng, self.types[name]
        kind = rng.random()
        if kind < 0.04:
            return rng.choice((None, math.nan)) if type_ == "number" else None
        if type_ == "point":
            return self.point(name)
        if kind < 0.08:
            return []
        if kind < 0.2:
            parts = [self._part(name) for _ in range(rng.randint(1, 4))]
            return [*parts, None] if rng.random() < 0.1 else parts
        return self._part(name)

    def _part(self, name: str) -> Any:
        if self.types[name] == "string" or self.rng.random() < 0.85:
            return self.scalar(name)
        lo, hi = sorted((self.scalar(name), self.scalar(name)))
        open_end = self.rng.random()
        return Span(None if open_end < 0.1 else lo, None if open_end > 0.9 else hi)

    def scalar(self, name: str) -> Any:
        rng, type_, pool = self.rng, self.types[name], self.pools[name]
        kind = rng.random()
        if type_ == "bool" or (kind < 0.55 and type_ != "string"):
            return rng.choice(pool)
        if type_ == "string":
            return rng.choice(pool) if kind < 0.8 else rng.choice((*STRINGS, "nobody asks for this"))
        if type_ == "timestamp":
            return rng.choice(pool) + timedelta(microseconds=rng.choice((-1, 1, 10**6, -(10**12))))
        if kind < 0.75:
            return math.nextafter(rng.choice(pool), rng.choice((-math.inf, math.inf)))
        if kind < 0.85:
            return math.nextafter(*rng.choice(((min(pool), -math.inf), (max(pool), math.inf))))
        if kind < 0.9:
            return rng.choice((math.inf, -math.inf))
        finite = [v for v in pool if abs(v) < 1e308] or [0.0]
        return min(finite) + (max(finite) - min(finite)) * rng.random()

    def point(self, name: str) -> tuple[float, float]:
        rng = self.rng
        lon, lat = rng.choice(self.pools[name])
        kind = rng.random()
        if rng.random() < 0.15:
            return self._near_a_shape()
        if kind < 0.3:  # on a corner or an edge of some box
            lon += rng.choice((0.0, 0.5, -0.5, 1.0, -1.0, 20.0, -20.0, 90.0, -90.0))
            lat += rng.choice((0.0, 0.5, -0.5, 1.0, -1.0, 20.0, -20.0))
        elif kind < 0.45:
            lon = math.nextafter(lon + rng.choice((0.5, -0.5, 1.0)), rng.choice((-math.inf, math.inf)))
        elif kind < 0.8:
            lon += rng.gauss(0, rng.choice((1e-5, 0.01, 1.0, 30.0)))
            lat += rng.gauss(0, rng.choice((1e-5, 0.01, 1.0, 30.0)))
        if rng.random() < 0.1:
            return (
                rng.choice(((-180.0, lat), (180.0, lat), (lon, 90.0), (lon, -90.0)))
                if -90 <= lat <= 90 and abs(lon) <= 180
                else (180.0, 0.0)
            )
        return (lon + 180) % 360 - 180 if abs(lon) > 180 else lon, min(max(lat, -90.0), 90.0)

    def _near_a_shape(self) -> tuple[float, float]:
        """A corner of a polygon, or half way along an edge, or just beside that."""
        ring = self.rng.choice(self.rng.choice(SHAPES))
        at = self.rng.randrange(len(ring) - 1)
        (ax, ay), (bx, by) = ring[at], ring[at + self.rng.randint(0, 1)]
        lon, lat = (ax + bx) / 2, (ay + by) / 2
        if self.rng.random() < 0.4:
            lon = math.nextafter(lon, self.rng.choice((-math.inf, math.inf)))
        return (lon + 180) % 360 - 180 if abs(lon) > 180 else lon, lat

    def place(self) -> tuple[float, float]:
        """Where a subscriber may move: to a pole, to where others are, anywhere."""
        lon, lat = self.rng.choice((*self.pools.get("place", ()), *POINTS))
        if self.rng.random() < 0.5:
            return lon, lat
        return self.rng.uniform(-180, 180), self.rng.uniform(-90, 90)

    def event_near(self, place: tuple[float, float]) -> Happening:
        """An event at most so far from the place that a shape around it may hold or not."""
        event = self.event()
        if "place" not in self.types:
            return event
        far = self.rng.choice((0.0, 1e-3, 0.4, 1.0, 8.0, 15.0, 60.0))
        lon, lat = (x + self.rng.uniform(-far, far) for x in place)
        point = (lon + 180) % 360 - 180 if abs(lon) > 180 else lon, min(max(lat, -90.0), 90.0)
        return Happening(event.values | {"place": point}, event.weights)

    # Records of tables

    def record(self, id: int, *, form: str, now: datetime) -> Record:
        rng = self.rng
        circle = None
        if self.types.get("place") == "point" and rng.random() < 0.2:
            circle = (*rng.choice(self.pools["place"]), rng.choice(RADII))
        while True:
            if form in ("text", "json"):
                said = self.matchable()
            else:
                said = self.matchable(lambda: self._plain(twice=form == "list"))
            record = Record(
                id,
                said,
                priority=rng.choice((None, 0.0, 1.5, -2.0)),
                until=now + timedelta(minutes=rng.randint(1, 10)) if rng.random() < 0.2 else None,
                circle=circle,
            )
            if self.clear(record.whole()) and any(
                all(p.can_hold() for p in row) for row in alternatives(record.whole())
            ):
                return record

    def _plain(self, *, twice: bool) -> Expression:
        """Closed intervals and equalities, each attribute once and in the order of the columns, or (`twice`) in any order."""
        rng = self.rng
        names = [name for name, type_ in self.types.items() if type_ != "point" and rng.random() < 0.5]
        if twice:
            rng.shuffle(names)
            names += names[: rng.randint(0, 1)] if rng.random() < 0.2 else []
        parts = tuple(self._plain_leaf(name, lists=twice) for name in names)
        if not parts:
            return Constant(True)
        return parts[0] if len(parts) == 1 else And(parts)

    def _plain_leaf(self, name: str, *, lists: bool) -> Any:
        rng, weight = self.rng, self.weight()
        if lists and rng.random() < 0.05:
            return IsNull(name, negated=True, weight=weight)
        if self.types[name] == "string" and rng.random() < 0.3:
            return In(name, tuple(rng.sample(self.pools[name], rng.randint(1, len(self.pools[name])))), weight=weight)
        if self.types[name] in ("string", "bool") or rng.random() < 0.2:
            return Compare(name, "=", self.constant(name), weight)
        lo, hi = sorted((self.constant(name), self.constant(name)))
        return rng.choice(
            (Between(name, lo, hi, weight=weight), Compare(name, ">=", lo, weight), Compare(name, "<=", hi, weight))
        )


def subscription_of(record: Record) -> Subscription:
    return Subscription.of(record.whole(), record.priority or 0.0, record.until)
