"""Small random worlds: a schema, subscriptions and events that collide often. Hypothesis-made, or seeded for larger ones.

Domains are tiny on purpose: ends of intervals, ties of scores and equal keys must happen all the time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numba
import numpy as np
from hypothesis import strategies as st

from matchwood.encode.arrays import Events, Matches, Rows
from matchwood.encode.events import encode_events
from matchwood.encode.objects import RowsBuilder
from matchwood.errors import NeverMatchesError, TooComplexError
from matchwood.lang.decay import Curve, Decay, Distance
from matchwood.lang.evaluate import Combine, Mode, add, rank
from matchwood.lang.event import Event, event_keys
from matchwood.lang.expression import Constant, Expression, Not, Predicate, all_of, any_of
from matchwood.lang.geometry import GeometryType
from matchwood.lang.list_predicates import ListCount, Lists
from matchwood.lang.operators import ListOperator, Operator, Quantifier, Shape, SpatialOperator
from matchwood.lang.place_predicates import BBox, DWithin, Spatial
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.rows import Row, normalise
from matchwood.lang.wkt import read_wkt
from matchwood.schema import Point, Range, Schema


def examples(count: int) -> int:
    """So many Hypothesis examples, or a few where kernels check their bounds: every kernel once is what that run is for."""
    return min(count, 10) if numba.core.config.BOUNDSCHECK else count


DAY = datetime(2026, 3, 1, tzinfo=UTC)
TYPES = {
    "age": "number",
    "price": "number",
    "rare": "number",
    "plan": "string",
    "city": "string",
    "vip": "bool",
    "seen": "timestamp",
    "place": "point",
    "home": "point",
}
NUMBERS: list[float] = [-math.inf, -3, -1, 0, 0.5, 1, 1.0000000000000002, 2, 3, 7, 1e300, math.inf]
WORDS = ["free", "trial", "pro", "it's", ""]
INSTANTS = [DAY + timedelta(microseconds=us) for us in (0, 1, 2, 4, 3_600_000_000)]
POINTS = [Point(x, y) for x in (-180.0, -74.01, -74.0, -73.99, 180.0) for y in (-90.0, 40.7, 40.71, 40.72, 90.0)]
WEIGHTS = [0.0, 0.1, 0.25, 0.3, 1.0, 3.0]
RADII = [500.0, 1200.0, 3000.0, 2e6, 3e7]
GEOMETRIES = [
    read_wkt(text)
    for text in (
        "POLYGON((-74.01 40.7, -73.99 40.7, -74 40.72, -74.01 40.7))",
        "POLYGON((-74.02 40.69, -73.98 40.69, -73.98 40.73, -74.02 40.73, -74.02 40.69),"
        " (-74.01 40.7, -74.01 40.72, -73.99 40.72, -73.99 40.7, -74.01 40.7))",
        "MULTIPOLYGON(((-75 40.7, -74 40.7, -74 40.71, -75 40.7)), ((-74 40.71, -73 40.71, -73 41, -74 40.71)))",
        "POLYGON((170 -90, 190 -90, 200 90, 160 90, 170 -90))",
        "POLYGON((-180 40.705, 180 40.705, 180 90, -180 90, -180 40.705))",
        "LINESTRING(-74.01 40.7, -74 40.7, -74 40.72, 0 40.72)",
        "MULTILINESTRING((-180 90, 180 90), (-74 40.71, -73.99 40.71), (-74 40.71, -74.01 40.7))",
        "MULTIPOINT(-74 40.7, 180 90, -74 40.71)",
        "POINT(-74 40.71)",
        "GEOMETRYCOLLECTION(POINT(-74 40.7), POLYGON((-74.01 40.71, -73.99 40.71, -74 40.72, -74.01 40.71)))",
    )
]
OPTIONS: dict[str, list[Any]] = {
    "number": NUMBERS,
    "string": WORDS,
    "bool": [True, False],
    "timestamp": INSTANTS,
    "point": POINTS,
}
SCALES: dict[str, list[float]] = {
    "number": [0.5, 2, 5.0, 1e300],
    "timestamp": [1, 3.0, 5e9],
    "point": [700.0, 2000, 3e7],
}


class Dice:
    """One source of choices for both Hypothesis (`draw`) and seeded runs (`random.Random`)."""

    def __init__(self, pick: Any, *, grades: bool = False) -> None:
        self._pick = pick
        self.grades = grades

    def one(self, options: Sequence[Any]) -> Any:
        return options[self._pick(len(options))]

    def some(self, options: Sequence[Any], most: int) -> list[Any]:
        return [self.one(options) for _ in range(1 + self._pick(most))]

    def chance(self, one_in: int) -> bool:
        return self._pick(one_in) == 0

    def below(self, n: int) -> int:
        return int(self._pick(n))


@dataclass(eq=False)
class World:
    """A schema, subscriptions (id, priority, expression, rows) and events, and their arrays."""

    schema: Schema
    subscriptions: dict[int, tuple[float, Expression, tuple[Row, ...]]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def put(self, id_: int, priority: float, expression: Expression) -> None:
        self.subscriptions[id_] = (priority, expression, normalise(expression, self.schema))

    def rows(self, ids: Sequence[int] | None = None) -> Rows:
        builder = RowsBuilder(self.schema)
        for id_ in self.subscriptions if ids is None else ids:
            priority, _, rows = self.subscriptions[id_]
            builder.add(id_, priority, rows)
        return builder.build()

    def event_arrays(self) -> Events:
        return encode_events(self.events, self.schema)

    def expected(
        self, *, mode: str = Mode.ALL, k: int | None = None, combine: Combine = add
    ) -> list[list[tuple[int, float]]]:
        """What the oracle says: for each event (id, score), best first."""
        subscriptions = [(id_, priority, rows) for id_, (priority, _, rows) in self.subscriptions.items()]
        return [
            rank(subscriptions, event_keys(event, self.schema), k=k, mode=mode, combine=combine)
            for event in self.events
        ]


def ranked(matches: Matches) -> list[list[tuple[int, float]]]:
    """The hits of each event as (id, score), best first."""
    per_event = []
    for e in range(len(matches.offsets) - 1):
        ids, scores = matches.of(e)
        order = np.lexsort((ids, -scores))
        per_event.append([(int(ids[i]), float(scores[i])) for i in order])
    return per_event


def listed(matches: Matches) -> list[list[tuple[int, float]]]:
    """The hits of each event as (id, score), in the order given."""
    spans = [matches.of(e) for e in range(len(matches.offsets) - 1)]
    return [[(int(i), float(s)) for i, s in zip(ids, scores, strict=True)] for ids, scores in spans]


def a_value(dice: Dice, name: str) -> Any:
    return dice.one(OPTIONS[TYPES[name]])


def a_predicate(dice: Dice, names: Sequence[str] = ()) -> Predicate:
    """A predicate; if the dice grade, one in three of those that can be is graded."""
    predicate = an_ungraded_predicate(dice, names)
    # IS NOT NULL may be graded too, but not where a NOT makes an absence of it.
    if (
        not dice.grades
        or isinstance(predicate, IsNull)
        or not predicate.takes_decay
        or TYPES[predicate.attribute] in ("string", "bool")
    ):
        return predicate
    return replace(predicate, grade=a_decay(dice, predicate)) if dice.chance(3) else predicate


def a_decay(dice: Dice, predicate: Predicate) -> Decay:
    """A DECAY that fits the predicate; small distances, so that closeness is often strictly between 0 and 1."""
    type_ = TYPES[predicate.attribute]
    curve, to = dice.one(list(Curve)), dice.one([None, 0.1, 0.5, 0.9])
    if isinstance(predicate, DWithin) and dice.chance(2):
        return Decay(curve, to=to)
    unit = {"point": "m", "timestamp": "us", "number": ""}[type_]
    origin = dice.one([value for value in OPTIONS[type_] if not isinstance(value, float) or math.isfinite(value)])
    offset = dice.one([None, None, Distance(1, unit), Distance(0.25, unit)])
    return Decay(curve, origin, Distance(dice.one(SCALES[type_]), unit), offset, to)


def an_ungraded_predicate(dice: Dice, names: Sequence[str] = ()) -> Predicate:
    name = dice.one(names or list(TYPES))
    weight = dice.one(WEIGHTS)
    if dice.chance(8):
        return IsNull(name, weight, negated=dice.chance(2))
    if TYPES[name] == "point":
        return a_place(dice, name, weight)
    if dice.chance(5):
        return a_test_of_lists(dice, name, weight)
    quantifier = dice.one([None, None, None, *Quantifier])
    kind = dice.below(4)
    if kind == 0:
        values = tuple(dice.some([a_value(dice, name) for _ in range(4)], 12))
        return In(name, weight, values=values, negated=quantifier is None and dice.chance(3), quantifier=quantifier)
    if kind == 1 and TYPES[name] != "string":
        lo, hi = sorted((a_value(dice, name), a_value(dice, name)))
        negated = quantifier is None and dice.chance(3)
        return Between(name, weight, lo=lo, hi=hi, negated=negated, quantifier=quantifier)
    operators = [Operator.EQ, Operator.NE] if TYPES[name] == "string" else list(Operator)
    value = a_value(dice, name)
    return Compare(name, weight, operator=dice.one(operators), value=value, quantifier=quantifier)


def a_test_of_lists(dice: Dice, name: str, weight: float) -> Predicate:
    values = tuple(dice.some([a_value(dice, name) for _ in range(3)], 4))
    if dice.chance(2):
        return Lists(name, weight, operator=dice.one(list(ListOperator)), values=values)
    return ListCount(name, weight, values=values, operator=dice.one(list(Operator)), count=dice.below(4))


def a_place(dice: Dice, name: str, weight: float) -> Predicate:
    if dice.chance(3):
        geometry, operator = dice.one(GEOMETRIES), dice.one(list(SpatialOperator)[:6])
        if geometry.type is GeometryType.COLLECTION:
            operator = dice.one([SpatialOperator.INTERSECTS, SpatialOperator.DISJOINT])
        return Spatial(name, weight, operator=operator, geometry=geometry)
    if dice.chance(3):
        (west, south), (east, north) = dice.one(POINTS), dice.one(POINTS)
        return BBox(name, weight, west=west, south=min(south, north), east=east, north=max(south, north))
    shape = dice.one([Shape.CIRCLE, Shape.CIRCLE, Shape.SQUARE])
    return DWithin(name, weight, centre=dice.one(POINTS), radius=dice.one(RADII), shape=shape)


def an_expression(dice: Dice, depth: int = 3, names: Sequence[str] = ()) -> Expression:
    """A tree of predicates on these attributes, or on any."""
    kind = dice.below(8)
    if depth == 0 or kind < 2:
        return Constant(True) if dice.chance(40) else a_predicate(dice, names)
    children = [an_expression(dice, depth - 1, names) for _ in range(2 + dice.below(3))]
    if kind < 6:
        return all_of(*children)
    return any_of(*children) if kind == 6 else Not(children[0])


def an_event(dice: Dice) -> Event:
    values: dict[str, object] = {}
    for name in TYPES:
        if dice.chance(3):
            continue
        if TYPES[name] != "point" and dice.chance(6):
            values[name] = dice.some([a_value(dice, name) for _ in range(3)], 4)
        elif TYPES[name] in ("number", "timestamp", "bool") and dice.chance(6):
            lo, hi = a_value(dice, name), a_value(dice, name)
            values[name] = Range(min(lo, hi), max(lo, hi))
        else:
            values[name] = a_value(dice, name)
    weights = {name: dice.one(WEIGHTS) for name in TYPES if dice.chance(2)}
    return Event(values, weights)


def a_subscription(dice: Dice, world: World, id_: int) -> None:
    """Give the world a subscription of that id; expressions that can never match are drawn again."""
    while True:
        try:
            world.put(id_, dice.one([0.0, 0.0, 1.0, -2.5]), an_expression(dice))
            return
        except (NeverMatchesError, TooComplexError):
            continue


def types_apart(apart: int) -> dict[str, str]:
    """The attributes, after each of them so many that nobody uses: the same worlds in larger dimensions."""
    types = {}
    for name, type_ in TYPES.items():
        types[name] = type_
        types |= {f"{name} {i}": "number" for i in range(apart)}
    return types


def a_world(dice: Dice, subscriptions: int, events: int, *, apart: int = 0) -> World:
    world = World(Schema(types_apart(apart)))
    for id_ in range(subscriptions):
        a_subscription(dice, world, id_ * 3)
    world.events = [an_event(dice) for _ in range(events)]
    return world


def seeded_dice(seed: int, *, grades: bool = False) -> Dice:
    return Dice(random.Random(seed).randrange, grades=grades)


@st.composite
def worlds(draw: st.DrawFn, *, subscriptions: int = 8, events: int = 4, grades: bool = False) -> World:
    """Hypothesis chooses every subscription and event, and shrinks them. `grades`: some predicates have a DECAY."""
    dice = Dice(lambda n: draw(st.integers(0, n - 1)), grades=grades)
    return a_world(dice, draw(st.integers(0, subscriptions)), draw(st.integers(0, events)))
