"""A second model of what Matchwood means, in plain Python.

It was written from the documents alone (README.md, docs/language.md, docs/encoding.md, docs/operations.md) by somebody who has
not read `matchwood.lang`, so that a misunderstanding shared by the oracle and the structures shows. It knows no interval sets, no
keys of strings and no arrays: a condition is tested on a value, and a range by trying every value at which a condition can turn.

    alternatives   an expression as conjunctions, NOT pushed down to the predicates
    Subscription   the alternatives, a priority, an expiry
    Model          what an engine holds, and what each of its calls must give

`conditions` has those on strings, lists, times and areas. Nothing here may import matchwood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from itertools import chain, product
from typing import Any

from tests.model.conditions import (
    EARTH,
    WHOLE,
    Area,
    Counted,
    Decay,
    Each,
    Folded,
    Listed,
    Nested,
    Pattern,
    Timed,
    closeness,
    distance,
    fits,
    holds_of_all,
    lies,
    probes,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_ID = 2**63 - 1


class BorderlineError(Exception):
    """A point so close to the rim of a circle, a square or a moved box that rounding decides: nothing is promised there."""


class RefusedError(Exception):
    """The engine must refuse the call with an error of the class of this name, and change nothing."""

    def __init__(self, error: str, why: str = "") -> None:
        super().__init__(f"{error}: {why}")
        self.error = error


# Expressions


@dataclass(frozen=True)
class Compare:
    attribute: str
    operator: str  # = != < <= > >=
    value: Any
    weight: float = 1.0
    decay: Decay | None = None


@dataclass(frozen=True)
class Between:
    attribute: str
    lo: Any
    hi: Any
    negated: bool = False
    weight: float = 1.0
    decay: Decay | None = None


@dataclass(frozen=True)
class In:
    attribute: str
    values: tuple[Any, ...]
    negated: bool = False
    weight: float = 1.0


@dataclass(frozen=True)
class IsNull:
    attribute: str
    negated: bool = False
    weight: float = 1.0
    decay: Decay | None = None


@dataclass(frozen=True)
class Circle:
    attribute: str
    lon: float
    lat: float
    radius: float
    weight: float = 1.0
    decay: Decay | None = None


@dataclass(frozen=True)
class Box:
    """A box by its centre and half its sides in degrees where it was moved or made as a square; else by its borders, exactly."""

    attribute: str
    west: float
    south: float
    east: float
    north: float
    weight: float = 1.0
    exact: bool = True
    decay: Decay | None = None


@dataclass(frozen=True)
class Square:
    attribute: str
    lon: float
    lat: float
    radius: float
    weight: float = 1.0


@dataclass(frozen=True)
class And:
    children: tuple[Expression, ...]


@dataclass(frozen=True)
class Or:
    children: tuple[Expression, ...]


@dataclass(frozen=True)
class Not:
    child: Expression


@dataclass(frozen=True)
class Constant:
    value: bool


Leaf = Compare | Between | In | IsNull | Circle | Square | Box | Pattern | Area | WHOLE
Expression = Leaf | And | Or | Not | Constant


def leaves(expression: Expression) -> Iterator[Leaf]:
    """The predicates, from left to right."""
    match expression:
        case And(children) | Or(children):
            yield from chain.from_iterable(map(leaves, children))
        case Not(child):
            yield from leaves(child)
        case Constant():
            return
        case leaf:
            yield leaf


OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


# Values


def comparable(value: Any) -> Any:
    """Instants as microseconds since the epoch (a naive datetime is UTC, a date its midnight); all else as it is."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC) - EPOCH
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC) - EPOCH
    return value


def microseconds(value: Any) -> Any:
    value = comparable(value)
    return value // timedelta(microseconds=1) if isinstance(value, timedelta) else value


@dataclass(frozen=True)
class Span:
    """A range as an event's value, both ends included; None is an open end."""

    lo: Any
    hi: Any


@dataclass(frozen=True)
class Happening:
    """An event: values by attribute (a scalar, a Span, a point as a pair, an object, or a list of these), and weights."""

    values: dict[str, Any]
    weights: dict[str, float] = field(default_factory=dict)

    def value(self, attribute: str) -> Any:
        """Of an attribute, of functions of one, or what all objects of a list have under a name: `items.sku`."""
        if isinstance(attribute, Folded):
            return attribute.fold(self.value(attribute.base))
        if attribute in self.values:
            return self.values[attribute]
        owner, _, name = attribute.partition(".")
        found: list[Any] = []
        for element in elements_of(self.values.get(owner)) if name else ():
            value = element.value(name)
            found += value if isinstance(value, list) else [value]
        return found

    def present(self, attribute: str) -> bool:
        return not _absent(self.value(attribute))

    def weight(self, attribute: str) -> float:
        """Of an attribute that the event has. A weight given for one that it lacks has no effect."""
        named = attribute.base if isinstance(attribute, Folded) else attribute
        return self.weights.get(named, 1.0) if self.present(attribute) else 1.0


def elements_of(value: Any) -> list[Happening]:
    """The objects of a list, each as an event."""
    return [Happening(part) for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict)]


def _absent(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_absent, value))
    return value is None or (isinstance(value, float) and math.isnan(value))


# One condition and one value


def true_of(leaf: Leaf, value: Any) -> bool:
    """Is the condition true of one present value?"""
    match leaf:
        case Compare(operator=operator, value=constant):
            constant = microseconds(constant)
            return {
                "=": value == constant,
                "!=": value != constant,
                **({} if isinstance(value, str) else _ordered(value, constant)),
            }[operator]
        case Between(lo=lo, hi=hi, negated=negated):
            return (microseconds(lo) <= value <= microseconds(hi)) != negated
        case In(values=values, negated=negated):
            return (value in [microseconds(v) for v in values]) != negated
        case IsNull(negated=negated):
            return negated
        case Circle(lon=lon, lat=lat, radius=radius):
            return _at_most(distance((lon, lat), value), radius, 1e-6 + 1e-9 * radius)
        case Square():
            return true_of(square_box(leaf), value)
        case Box():
            return in_box(leaf, value)
        case Pattern(negated=negated):
            return fits(leaf, value) != negated
        case Area():
            return lies(leaf, value)
    raise TypeError(leaf)


def _ordered(value: Any, constant: Any) -> dict[str, bool]:
    return {"<": value < constant, "<=": value <= constant, ">": value > constant, ">=": value >= constant}


def _at_most(value: float, limit: float, tolerance: float) -> bool:
    if abs(value - limit) <= tolerance:
        raise BorderlineError
    return value < limit


def square_box(square: Square) -> Box:
    """The box of a square: r / R up and down, r / (R cos latitude) to the sides; round a pole, the whole cap."""
    up = math.degrees(square.radius / EARTH)
    south, north = square.lat - up, square.lat + up
    # A square that just reaches the pole, or all the way round, turns by rounding.
    if min(abs(south + 90), abs(north - 90)) < 1e-9:
        raise BorderlineError
    side = up / math.cos(math.radians(square.lat)) if abs(square.lat) < 90 else 180.0
    if south < -90 or north > 90 or side >= 180:
        west, east = -180.0, 180.0
    else:
        west, east = wrapped(square.lon - side), wrapped(square.lon + side)
    return Box(square.attribute, west, max(south, -90.0), east, min(north, 90.0), square.weight, exact=False)


def wrapped(lon: float) -> float:
    """The same meridian from -180 to 180."""
    if lon < -180:
        return lon + 360
    return lon - 360 if lon > 180 else lon


def in_box(box: Box, point: tuple[float, float]) -> bool:
    """Borders included; where west is greater than east it crosses the antimeridian, which is one line, -180 and 180."""
    lon, lat = point
    if not box.exact:
        _keep_off(lat, (box.south, box.north))
        if not (box.west == -180 and box.east == 180):
            _keep_off(lon, (box.west, box.east))
    if not box.south <= lat <= box.north:
        return False
    lons = (-180.0, 180.0) if abs(lon) == 180 else (lon,)
    if box.west <= box.east:
        # A box that ends at 180 touches -180, which is the same line.
        return any(box.west <= x <= box.east for x in lons)
    return any(x >= box.west or x <= box.east for x in lons)


def _keep_off(value: float, borders: Iterable[float]) -> None:
    """A border that was computed is rounded; a pole is not."""
    if any(abs(value - border) < 1e-9 and abs(border) != 90 for border in borders):
        raise BorderlineError


# Alternatives


@dataclass(frozen=True)
class Predicate:
    """All that one alternative says of one attribute: conditions that one value must meet together, and what no value may be;
    their weights added up."""

    attribute: str
    weight: float
    conditions: tuple[tuple[Leaf, bool], ...]  # a leaf, and whether it stands under an odd number of NOTs
    grades: tuple[tuple[Leaf, bool], ...] = ()  # of these, those whose weights count by how close a value is

    @property
    def asks_for_absence(self) -> bool:
        return any(isinstance(leaf, IsNull) and leaf.negated == negated for leaf, negated in self.conditions)

    def meets(self, value: Any) -> bool:
        """All that is said of one value."""
        return all(true_of(leaf, value) != negated for leaf, negated in self.conditions if not isinstance(leaf, WHOLE))

    def met_by(self, parts: Sequence[Sequence[Any]]) -> bool:
        """By the values of an event, part by part?"""
        values = [value for part in parts for value in part]
        return (
            any(map(self.meets, values))
            and all(
                true_of(leaf, v) != negated
                for leaf, negated in self.conditions
                if _excludes(leaf, negated)
                for v in values
            )
            and all(_of_all(leaf, parts) != negated for leaf, negated in self.conditions if isinstance(leaf, WHOLE))
        )

    def amount(self, event: Happening) -> float:
        """What it adds to a score, where it holds, before the weight of the event."""
        found = self.weight
        for leaf, negated in self.grades:
            values = [v for part in self.parts(event) for v in part if self.meets(v)]
            operator = leaf.operator if isinstance(leaf, Compare) else ""
            operator = OPPOSITE.get(operator, operator) if negated else operator
            decay: Any = leaf.decay  # type: ignore[union-attr]
            origin = microseconds(decay.origin)
            found += leaf.weight * max(closeness(decay, origin, operator, v) for v in values)
        return found

    def holds(self, event: Happening) -> bool:
        if self.asks_for_absence or not event.present(self.attribute):
            return self.asks_for_absence and not event.present(self.attribute) and bool(self.can_hold())
        return self.met_by(self.parts(event))

    def parts(self, event: Happening) -> list[list[Any]]:
        """The parts of the value that the event has, each as its candidates."""
        value = event.value(self.attribute)
        parts = [part for part in (value if isinstance(value, list) else [value]) if not _absent(part)]
        return [list(self.candidates(part)) for part in parts]

    def candidates(self, part: Any) -> Iterable[Any]:
        """Values of the part such that, if any value of it meets the conditions, one of these does."""
        if not isinstance(part, Span):
            return [microseconds(part) if not isinstance(part, tuple) else part]
        lo, hi = microseconds(part.lo), microseconds(part.hi)
        if isinstance(lo, bool) or isinstance(hi, bool):
            return [v for v in (False, True) if (lo is None or v >= lo) and (hi is None or v <= hi)]
        lo, hi = -math.inf if lo is None else lo, math.inf if hi is None else hi
        return [v for v in (lo, hi, *self.turns()) if lo <= v <= hi]

    def turns(self) -> list[float]:
        """Every value at which a condition turns, and those beside it: floats of numbers, microseconds of instants."""
        found: list[float] = []
        for constant in chain.from_iterable(_constants(leaf) for leaf, _ in self.conditions):
            c = microseconds(constant)
            beside = (
                (c - 1, c + 1) if isinstance(constant, date) else (math.nextafter(c, s) for s in (-math.inf, math.inf))
            )
            found.extend((c, *beside))
        for leaf, _ in self.grades:
            decay: Any = leaf.decay  # type: ignore[union-attr]
            found.append(microseconds(decay.origin))
        return found

    def can_hold(self) -> bool | None:
        """Is there a value that meets the conditions? None where a shape makes that hard to tell."""
        if self.asks_for_absence:
            return all(isinstance(leaf, IsNull) and leaf.negated == negated for leaf, negated in self.conditions)
        shapes = [leaf for leaf, _ in self.conditions if isinstance(leaf, Circle | Square | Box | Area)]
        if shapes:
            return self._place_exists(shapes)
        if any(isinstance(leaf, Pattern | WHOLE) for leaf, _ in self.conditions):
            return self._some_values_meet()
        constants = [microseconds(c) for leaf, _ in self.conditions for c in _constants(leaf)]
        if not constants:
            return True
        if isinstance(constants[0], str):
            return any(map(self.meets, (*constants, "a string that nobody names")))
        if isinstance(constants[0], bool):
            return any(map(self.meets, (False, True)))
        return any(map(self.meets, (-math.inf, math.inf, *self.turns())))

    def _some_values_meet(self) -> bool | None:
        """Whether some values meet tests of strings and lists is found by trying. None if none of those tried does."""
        constants = [microseconds(c) for leaf, _ in self.conditions for c in _constants(leaf)]
        texts = [c for c in constants if isinstance(c, str)]
        tried: list[Any] = list(dict.fromkeys([*constants, *map(_example, texts)]))
        if texts:
            tried += [
                "a string that nobody names",
                *(a + b for a in map(_example, texts) for b in map(_example, texts)),
            ]
        elif isinstance(constants[0], bool):
            tried = [False, True]
        else:
            tried += [*self.turns(), -math.inf, math.inf]
        lists = [[value] for value in tried]
        lists += [list(pair) for pair in product(tried[:12], tried[:12])]
        lists += [list(dict.fromkeys(map(microseconds, _constants(leaf)))) for leaf, _ in self.conditions]
        return True if any(self.met_by([[v] for v in values]) for values in lists if values) else None

    def _place_exists(self, shapes: list[Any]) -> bool | None:
        lons, lats = {-180.0, 180.0, 0.0}, {-90.0, 90.0, 0.0}
        for shape in shapes:
            if isinstance(shape, Box):
                edges = ((lons, (shape.west, shape.east), 180), (lats, (shape.south, shape.north), 90))
                for values, borders, end in edges:
                    near = {math.nextafter(b, to) for b in borders for to in (-math.inf, math.inf)}
                    values |= {v for v in (*borders, *near) if abs(v) <= end}
            elif isinstance(shape, Area):
                if any(map(self.meets, probes(shape))):
                    return True
            else:
                lons.add(shape.lon)
                lats.add(shape.lat)
        sure = all(isinstance(shape, Box) and shape.exact for shape in shapes)
        for point in product(lons, lats):
            try:
                if self.meets(point):
                    return True
            except BorderlineError:
                sure = False
        return False if sure else None


def _of_all(leaf: Any, parts: Sequence[Sequence[Any]]) -> bool:
    """Is a condition on all values, or on all objects of a list, true?"""
    if not isinstance(leaf, Nested):
        return holds_of_all(leaf, parts, microseconds, true_of)
    met = [meets_one(leaf.condition, Happening(element)) for part in parts for element in part]
    return any(met) if leaf.word == "ANY" else all(met)


def meets_one(condition: Expression, event: Happening) -> bool:
    """Does an event, or an object of a list, meet a condition?"""
    return any(all(predicate.holds(event) for predicate in row) for row in alternatives(condition))


def _excludes(leaf: Leaf, negated: bool) -> bool:
    """Does the condition, or its negation, say what no value may be?"""
    if isinstance(leaf, Compare):
        return (leaf.operator == "!=") != negated
    return isinstance(leaf, Between | In | Pattern) and leaf.negated != negated


def _example(pattern: str) -> str:
    """A string of the pattern; a text that is none is its own example."""
    return pattern.replace("\\", "").replace("%", "").replace("_", "x").removesuffix("/8")


def _constants(leaf: Leaf) -> tuple[Any, ...]:
    match leaf:
        case Compare(value=value):
            return (value,)
        case Between(lo=lo, hi=hi):
            return (lo, hi)
        case In(values=values) | Listed(values=values) | Counted(values=values):
            return values
        case Pattern(text=text):
            return (text,)
        case Each(leaf=inner):
            return _constants(inner)
        case Timed(lo=lo, hi=hi):
            return (lo, hi)
    return ()


Alternative = tuple[Predicate, ...]


def alternatives(expression: Expression, *, negated: bool = False) -> list[Alternative]:
    """The conjunctions of which at least one must hold. Those that no event can meet are still among them."""
    match expression:
        case Constant(value):
            return [()] if value != negated else []
        case Not(child):
            return alternatives(child, negated=not negated)
        case And(children) | Or(children):
            parts = [alternatives(child, negated=negated) for child in children]
            if isinstance(expression, And) != negated:
                return [reduce(_joined, choice) for choice in product(*parts)]
            return list(chain.from_iterable(parts))
        case leaf:
            leaf = _with_constants_folded(leaf)
            if getattr(leaf, "decay", None) is not None:
                return [(Predicate(leaf.attribute, 0.0, ((leaf, negated),), ((leaf, negated),)),)]
            return [(Predicate(leaf.attribute, leaf.weight, ((leaf, negated),)),)]


def _with_constants_folded(leaf: Any) -> Any:
    """What is said of CASEI(x) is said of its constants too, but for expressions and networks."""
    if not isinstance(leaf.attribute, Folded):
        return leaf
    fold = leaf.attribute.fold
    match leaf:
        case Each(leaf=inner):
            return replace(leaf, leaf=_with_constants_folded(inner))
        case Compare(value=value):
            return replace(leaf, value=fold(value))
        case In(values=values) | Listed(values=values) | Counted(values=values):
            return replace(leaf, values=tuple(map(fold, values)))
        case Pattern(function=function, text=text) if function not in ("REGEX", "CIDR"):
            return replace(leaf, text=fold(text))
    return leaf


def _joined(left: Alternative, right: Alternative) -> Alternative:
    """Both. One predicate an attribute, in the order in which they are first named; weights add up from left to right."""
    by_attribute = {predicate.attribute: predicate for predicate in left}
    for new in right:
        old = by_attribute.get(new.attribute)
        if old is not None:
            new = replace(
                new,
                weight=old.weight + new.weight,
                conditions=old.conditions + new.conditions,
                grades=old.grades + new.grades,
            )
        by_attribute[new.attribute] = new
    return tuple(by_attribute.values())


# Subscriptions and the engine


@dataclass(frozen=True)
class Subscription:
    alternatives: tuple[Alternative, ...]
    priority: float = 0.0
    until: datetime | None = None

    @classmethod
    def of(cls, expression: Expression, priority: float, until: datetime | None) -> Subscription:
        """Raises the refusal of an expression that no event can match."""
        possible = tuple(a for a in alternatives(expression) if all(p.can_hold() for p in a))
        if not possible:
            raise RefusedError("NeverMatchesError")
        return cls(possible, priority, until)

    def score(self, event: Happening, mode: str, combine: Combine) -> float | None:
        """The best score of an alternative that matches, None if none does."""
        scores = [s for s in (self._score_of(a, event, mode, combine) for a in self.alternatives) if s is not None]
        return max(scores, default=None)

    def _score_of(self, alternative: Alternative, event: Happening, mode: str, combine: Combine) -> float | None:
        score, held = self.priority, 0
        for predicate in alternative:
            if predicate.holds(event):
                held += 1
                score = combine(score, predicate.amount(event) * event.weight(predicate.attribute))
            elif mode == "all":
                return None
        return score if mode == "all" or held else None


Combine = Callable[[float, float], float]
SCORINGS: dict[str | None, Combine] = {None: lambda s, w: s + w, "sum": lambda s, w: s + w, "max": max}
Ranked = list[tuple[int, float]]


class Model:
    """What an engine holds, and what its calls must give or refuse."""

    def __init__(self, now: datetime, combine: Combine = SCORINGS[None]) -> None:
        self.now = now
        self.combine = combine
        self.subscriptions: dict[int, Subscription] = {}
        self.next_id = 0
        self.live_events: dict[int, tuple[Happening, datetime]] = {}
        self.next_event = 0

    def ids(self) -> list[int]:
        self._expire()
        return sorted(self.subscriptions)

    def subscribe(
        self,
        expression: Expression,
        *,
        id: int | None = None,
        priority: float = 0.0,
        until: datetime | None = None,
    ) -> int:
        self._expire()
        if id is None and self.next_id > LAST_ID:
            raise RefusedError("SubscriptionError", "no id is left")
        id = self.next_id if id is None else id
        if id in self.subscriptions:
            raise RefusedError("DuplicateSubscriptionError", str(id))
        self._take(id, Subscription.of(expression, priority, until))
        return id

    def subscribe_many(self, records: Iterable[tuple[int | None, Subscription]]) -> list[int]:
        """All or none. An id of None is the next one."""
        self._expire()
        next_id, taken = self.next_id, {}
        for id, subscription in records:
            number = next_id if id is None else id
            if number in self.subscriptions or number in taken:
                raise RefusedError("DuplicateSubscriptionError", str(number))
            taken[number] = subscription
            next_id = max(next_id, number + 1)
        for number, subscription in taken.items():
            self._take(number, subscription)
        return list(taken)

    def update(
        self, id: int, expression: Expression, *, priority: float | None = None, until: datetime | None = None
    ) -> None:
        """What is not given stays as it is."""
        before = self.known(id)
        priority = before.priority if priority is None else priority
        self._take(id, Subscription.of(expression, priority, before.until if until is None else until))

    def unsubscribe_many(self, ids: Sequence[int]) -> None:
        for id in ids:
            self.known(id)
        if len(set(ids)) < len(ids):
            raise RefusedError("SubscriptionError", "named twice")
        for id in ids:
            del self.subscriptions[id]

    def movable(self, id: int) -> bool | None:
        """Is every condition on the place a circle or a box, or absence, and not each of them absence? None: hard to tell.

        A box round the whole earth has no centre. Several shapes in one alternative, or the outside of a box, may come
        down to one box, or not.
        """
        found = False
        for predicate in chain.from_iterable(self.known(id).alternatives):
            if predicate.attribute != "place" or predicate.asks_for_absence:
                continue
            if len(predicate.conditions) > 1:
                return None
            leaf, negated = predicate.conditions[0]
            if negated and isinstance(leaf, Box | Square):
                return None
            if negated or isinstance(leaf, IsNull | Area):
                return False
            shape = square_box(leaf) if isinstance(leaf, Square) else leaf
            if isinstance(shape, Box) and shape.west == -180 and shape.east == 180:
                return False
            found = True
        return found

    def move(self, id: int, place: tuple[float, float]) -> None:
        subscription = self.known(id)
        if not self.movable(id):
            raise RefusedError("ExpressionError", "nothing to move")
        # All or nothing: the first box that a pole would cut refuses the move.
        moved = tuple(
            tuple(_moved(p, place) if p.attribute == "place" else p for p in a) for a in subscription.alternatives
        )
        self.subscriptions[id] = replace(subscription, alternatives=moved)

    def match(self, event: Happening, *, k: int | None = None, mode: str = "all") -> Ranked:
        self._expire()
        _check(k)
        found = ((id, s.score(event, mode, self.combine)) for id, s in self.subscriptions.items())
        return _best(found, k)

    def score(self, event: Happening, id: int, mode: str = "all") -> float | None:
        return self.known(id).score(event, mode, self.combine)

    def publish(
        self,
        event: Happening,
        *,
        id: int | None = None,
        until: datetime | None = None,
        k: int | None = None,
        mode: str = "all",
    ) -> Ranked:
        self._expire()
        _check(k)
        if until is not None and until > self.now:
            if id is None and self.next_event > LAST_ID:
                raise RefusedError("EventError", "no id is left")
            number = self.next_event if id is None else id
            if number in self.live_events:
                raise RefusedError("EventError", "the id is taken")
            self.live_events[number] = (event, until)
            self.next_event = max(self.next_event, number + 1)
        return self.match(event, k=k, mode=mode)

    def retract(self, event_id: int) -> None:
        self._expire()
        if event_id not in self.live_events:
            raise RefusedError("EventError", "no such event")
        del self.live_events[event_id]

    def live(self, id: int, *, k: int | None = None, mode: str = "all") -> Ranked:
        subscription = self.known(id)
        _check(k)
        return _best(
            ((n, subscription.score(event, mode, self.combine)) for n, (event, _) in self.live_events.items()), k
        )

    def known(self, id: int) -> Subscription:
        self._expire()
        if id not in self.subscriptions:
            raise RefusedError("UnknownSubscriptionError", str(id))
        return self.subscriptions[id]

    def _take(self, id: int, subscription: Subscription) -> None:
        self.subscriptions[id] = subscription
        self.next_id = max(self.next_id, id + 1)
        self._expire()

    def _expire(self) -> None:
        """At `until`, the instant included, a thing is gone."""
        for id in [id for id, s in self.subscriptions.items() if s.until is not None and s.until <= self.now]:
            del self.subscriptions[id]
        for id in [id for id, (_, until) in self.live_events.items() if until <= self.now]:
            del self.live_events[id]


def _check(k: int | None) -> None:
    if k is not None and k < 1:
        raise RefusedError("QueryError", f"k = {k}")


def _best(found: Iterable[tuple[int, float | None]], k: int | None) -> Ranked:
    ranked = sorted(((id, score) for id, score in found if score is not None), key=lambda m: (-m[1], m[0]))
    return ranked[:k]


def _moved(predicate: Predicate, place: tuple[float, float]) -> Predicate:
    """Its centre is put on the place. A circle keeps its radius; a box, and a square is one, its sides in degrees."""
    leaf, negated = predicate.conditions[0]
    if isinstance(leaf, IsNull):
        return predicate
    if isinstance(leaf, Circle):
        leaf = replace(leaf, lon=place[0], lat=place[1])
    else:
        leaf = MovedBox.of(leaf).at(place)
    return replace(predicate, conditions=((leaf, negated),))


@dataclass(frozen=True)
class MovedBox(Box):
    """A box that was moved: it keeps half its sides, so that rounding does not add up."""

    half: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, leaf: Any) -> MovedBox:
        if isinstance(leaf, MovedBox):
            return leaf
        box = square_box(leaf) if isinstance(leaf, Square) else leaf
        width = box.east - box.west if box.west <= box.east else box.east - box.west + 360
        half = (width / 2, (box.north - box.south) / 2)
        return cls(box.attribute, box.west, box.south, box.east, box.north, box.weight, exact=False, half=half)

    def at(self, place: tuple[float, float]) -> MovedBox:
        (lon, lat), (side, up) = place, self.half
        moved = replace(self, west=wrapped(lon - side), east=wrapped(lon + side))
        if up == 90:
            return moved
        if up and abs(abs(lat) + up - 90) < 1e-9:
            raise BorderlineError
        if abs(lat) + up > 90:
            raise RefusedError("MatchwoodError", "a pole would cut the box")
        return replace(moved, south=lat - up, north=lat + up)
