"""The engine against the second model: objects in lists, regular expressions, functions of strings, and decays on every curve.

`test_second_model` compares whole runs to the last bit. Here the model computes powers and distances as it pleases, so scores may
differ in their last digits; which subscriptions match may not, nor may the order be other than that of the engine's own scores.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood import Engine, ManualClock, parse
from matchwood.errors import ExpressionError, NeverMatchesError
from matchwood.lang.json_form import from_json
from tests.model import forms
from tests.model.conditions import Decay, Each, Folded, Listed, Nested, Pattern
from tests.model.model import (
    SCORINGS,
    And,
    Between,
    BorderlineError,
    Box,
    Circle,
    Compare,
    Expression,
    Happening,
    In,
    IsNull,
    Not,
    Or,
    Span,
    Subscription,
    alternatives,
)
from tests.worlds import examples

INDEXES = ("scan", "mo-tree", "be-star-tree", "vcr", "postings", "split", "ranked")
TEXTS = ("Zoë", "ZOE", "zoe", "zoe\u0308", "Straße", "STRASSE", "strasse", "é1", "E2", "a_b%", "", "two\nlines")
NUMBERS = (-4.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 100.0)
START = datetime(2026, 5, 1, 12, tzinfo=UTC)
INSTANTS = tuple(START + timedelta(hours=h) for h in (-30, -2, -1, 0, 1, 3, 50))
PLACES = ((10.0, 50.0), (10.01, 50.0), (10.0, 50.02), (10.3, 49.8), (-179.99, 0.0), (179.995, 0.01), (0.0, 90.0))
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
ORDERS = ("=", "!=")

texts, numbers, instants, places = map(st.sampled_from, (TEXTS, NUMBERS, INSTANTS, PLACES))
weights = st.sampled_from((1.0, 1.0, 0.5, 2.0, 0.0, 3.3))
flags = st.booleans()


# Conditions. `w` makes their weights: inside a list of objects there are none.


@st.composite
def expressions_of_re2(draw: st.DrawFn) -> str:
    """What RE2 and Python read alike."""
    atoms = st.sampled_from(("z", "o", "e", "s", "Z", "S", "1", ".", "[a-z]", "[^os]", "(tra|o)", "(?:s|ß)"))
    parts = draw(st.lists(st.tuples(atoms, st.sampled_from(("", "", "*", "+", "?"))), min_size=1, max_size=4))
    return draw(st.sampled_from(("", "^"))) + "".join(a + r for a, r in parts) + draw(st.sampled_from(("", "$")))


@st.composite
def patterns(draw: st.DrawFn, name: str) -> Pattern:
    function = draw(st.sampled_from(("LIKE", "LIKE", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "REGEX", "REGEX")))
    if function == "REGEX":
        return Pattern(name, function, draw(expressions_of_re2()))
    text = draw(texts)
    part = text[draw(st.integers(0, 2)) : draw(st.integers(2, 9))]
    if function != "LIKE":
        return Pattern(name, function, part)
    like = part.replace("%", "\\%").replace("_", draw(st.sampled_from(("_", "\\_"))))
    return Pattern(
        name, "LIKE", draw(st.sampled_from(("", "%"))) + like + draw(st.sampled_from(("", "%"))), draw(flags)
    )


@st.composite
def of_strings(draw: st.DrawFn, name: str) -> Any:
    functions = draw(st.sampled_from(((), ("CASEI",), ("ACCENTI",), ("CASEI", "ACCENTI"), ("ACCENTI", "CASEI"))))
    subject = Folded.of(functions, name) if functions else name
    some = st.lists(texts, min_size=1, max_size=3, unique=True).map(tuple)
    compared = st.builds(Compare, st.just(subject), st.sampled_from(ORDERS), texts)
    pattern = patterns(subject)
    return draw(
        st.one_of(
            compared,
            pattern,
            pattern,
            st.builds(In, st.just(subject), some, flags),
            st.builds(Each, st.sampled_from(("ANY", "ALL")), compared | pattern.filter(lambda p: not p.negated)),
            st.builds(Listed, st.just(subject), st.sampled_from(("A_CONTAINS", "A_OVERLAPS", "A_CONTAINEDBY")), some),
            st.builds(IsNull, st.just(subject), flags),
        )
    )


def of_numbers(name: str, constants: st.SearchStrategy[Any] = numbers) -> st.SearchStrategy[Any]:
    pair = st.tuples(constants, constants).map(sorted)
    return st.one_of(
        st.builds(Compare, st.just(name), st.sampled_from(COMPARISONS), constants),
        st.builds(lambda ends, negated: Between(name, *ends, negated), pair, flags),
        st.builds(IsNull, st.just(name), flags),
    )


def of_places(name: str) -> st.SearchStrategy[Any]:
    radii = st.sampled_from((500.0, 3_000.0, 50_000.0))
    circles = st.builds(lambda at, radius: Circle(name, *at, radius), places, radii)
    boxes = st.sampled_from(((9.9, 49.9, 10.1, 50.01), (170.0, -5.0, -179.993, 5.0), (-180.0, 60.0, 180.0, 90.0)))
    return st.one_of(circles, boxes.map(lambda b: Box(name, *b)), st.builds(IsNull, st.just(name), flags))


def trees(leaves: st.SearchStrategy[Any], most: int = 5) -> st.SearchStrategy[Any]:
    def grown(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(children, min_size=2, max_size=3).map(tuple)
        return st.one_of(several.map(And), several.map(Or), children.map(Not))

    return st.recursive(leaves, grown, max_leaves=most)


def of_objects() -> st.SearchStrategy[Any]:
    """Conditions on `items`, whose objects may have objects themselves, and on what all of them have under a name."""
    words = st.sampled_from(("ANY", "ALL"))
    part = st.one_of(of_strings("colour"), of_numbers("size"))
    parts = st.builds(Nested, st.just("parts"), words, trees(part, 3))
    item = st.one_of(of_strings("sku"), of_numbers("qty"), of_places("at"), of_numbers("due", instants), parts)
    nested = st.builds(Nested, st.just("items"), words, trees(item, 4))
    flat = st.one_of(of_strings("items.sku"), of_numbers("items.qty"), st.builds(IsNull, st.just("items"), flags))
    return st.one_of(nested, nested, nested, flat)


def decays(
    origins: st.SearchStrategy[Any], units: tuple[str, ...], sizes: tuple[float, ...]
) -> st.SearchStrategy[Decay]:
    curves = st.sampled_from(
        (("LINEAR", 0.0), ("LINEAR", 0.4), ("EXP", 0.5), ("EXP", 0.1), ("GAUSS", 0.5), ("GAUSS", 0.9))
    )
    scales, offsets = st.sampled_from(sizes), st.sampled_from((0.0, *sizes[:1]))
    return st.builds(
        lambda origin, scale, offset, curve, unit: Decay(origin, scale, offset, curve[1], curve[0], unit),
        *(origins, scales, offsets, curves, st.sampled_from(units)),
    )


@st.composite
def graded(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(("price", "seen", "place", "circle")))
    if kind == "circle":
        leaf = draw(of_places("place").filter(lambda found: isinstance(found, Circle)))
        return replace(leaf, decay=Decay((leaf.lon, leaf.lat), leaf.radius, 0.0, 0.0, plain=True))
    leaves, decay = {
        "price": (of_numbers("price"), decays(numbers, ("",), (0.7, 4.0, 30.0))),
        "seen": (of_numbers("seen", instants), decays(instants, ("h", "min", "d"), (1.0, 7.5, 90.0))),
        "place": (of_places("place"), decays(places, ("m", "km"), (2.0, 700.0, 9_000.0))),
    }[kind]
    leaf = draw(leaves.filter(lambda found: not isinstance(found, IsNull) or found.negated))
    return replace(leaf, decay=draw(decay))


def weighted(leaf: Any, weight: float) -> Any:
    if isinstance(leaf, Each):
        return replace(leaf, leaf=replace(leaf.leaf, weight=weight))
    return replace(leaf, weight=weight)


plain = st.one_of(of_strings("name"), of_numbers("price"), of_places("place"), of_objects(), of_objects())


@st.composite
def leaves(draw: st.DrawFn, graded_only: bool) -> Any:
    others = of_strings("name") if graded_only else plain
    return weighted(
        draw(st.one_of(others, graded(), *([graded()] if graded_only else [others, others]))), draw(weights)
    )


@st.composite
def crowds(draw: st.DrawFn, graded_only: bool = False) -> list[Expression]:
    """The expressions of some subscriptions."""
    return draw(st.lists(trees(leaves(graded_only)), min_size=1, max_size=6))


# Events


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One value, a list, or none."""
    return st.one_of(values, values, st.lists(values, max_size=3), st.none())


def objects(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    one = st.fixed_dictionaries({}, optional=fields)
    return st.lists(st.one_of(one, one, one, st.none()), max_size=4) | one.filter(bool)


@st.composite
def happenings(draw: st.DrawFn) -> list[Happening]:
    """Some events."""
    return draw(
        st.lists(
            st.builds(Happening, st.fixed_dictionaries({}, optional=values), event_weights), min_size=1, max_size=4
        )
    )


spans = st.tuples(numbers, numbers).map(lambda ends: Span(*sorted(ends)))
parts = objects({"colour": some(texts), "size": some(numbers)})
items = objects({"sku": some(texts), "qty": some(numbers), "at": places, "due": instants, "parts": parts})
values = {"name": some(texts), "price": some(numbers | spans), "seen": some(instants), "place": places, "items": items}
event_weights = st.dictionaries(st.sampled_from((*values, "items.sku")), st.sampled_from((0.5, 2.0)), max_size=2)
seeds = st.integers(0, 2**32)


# Comparing


def grades_absence(expression: Expression, negated: bool = False) -> bool:
    """Is a decay about an attribute that is to be absent? It is refused: nothing has a distance then."""
    match expression:
        case Not(child):
            return grades_absence(child, not negated)
        case And(children) | Or(children):
            return any(grades_absence(child, negated) for child in children)
        case IsNull(negated=present, decay=Decay()):
            return present == negated
    return False


class Compared:
    """An engine, and what the model says of the same subscriptions."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine, self.rng = engine, Random(seed)
        self.known: dict[int, Subscription] = {}
        self.refused: dict[int, Subscription] = {}
        self.said: dict[int, str] = {}

    def subscribe(self, expression: Expression, id: int) -> Any:
        """In any form. What is refused must match no event."""
        text = forms.text_of(expression, self.rng)
        source = self.rng.choice(
            (text, forms.built(expression, self.rng), from_json(forms.json_of(expression, self.rng)))
        )
        subscription = Subscription(tuple(alternatives(expression)))
        self.said[id] = text
        try:
            given = self.engine.subscribe(source, id=id)
        except NeverMatchesError:
            self.refused[id] = subscription
            return None
        except ExpressionError:
            if not grades_absence(expression):
                raise
            return None
        self.known[id] = subscription
        return given

    def match(self, event: Happening) -> None:
        told = forms.event_of(event, self.rng)
        found = [(int(m.id), m.score) for m in self.engine.match(told)]
        assert [(int(m.id), m.score) for m in self.engine.top_k(told, k=2)] == found[:2]
        assert found == sorted(found, key=lambda match: (-match[1], match[0]))
        try:
            expected = {id: self._score(one, event) for id, one in (self.known | self.refused).items()}
        except BorderlineError:
            return
        self.agree(dict(found), {id: s for id, s in expected.items() if s is not None}, told)

    def agree(self, found: dict[int, float], expected: dict[int, float], told: Any) -> None:
        wrong = [
            f"{self.said.get(id)}: {found.get(id)}, expected {expected.get(id)}"
            for id in sorted({*found, *expected})
            if id not in found
            or id not in expected
            or not math.isclose(found[id], expected[id], rel_tol=1e-9, abs_tol=1e-9)
        ]
        assert not wrong, f"{wrong} for {told}"

    @staticmethod
    def _score(subscription: Subscription, event: Happening) -> float | None:
        return subscription.score(event, "all", SCORINGS["sum"])


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=examples(80))
@given(crowd=crowds(), events=happenings(), seed=seeds)
def test_engine_says_what_the_model_says(
    index: str, crowd: list[Expression], events: list[Happening], seed: int
) -> None:
    compared = Compared(Engine(index=index), seed)
    for id, expression in enumerate(crowd):
        compared.subscribe(expression, id)
    for event in events:
        compared.match(event)


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=examples(80))
@given(crowd=crowds(graded_only=True), events=happenings(), seed=seeds)
def test_decays_are_those_of_the_model(index: str, crowd: list[Expression], events: list[Happening], seed: int) -> None:
    compared = Compared(Engine(index=index), seed)
    for id, expression in enumerate(crowd):
        compared.subscribe(expression, id)
    for event in events:
        compared.match(event)


@settings(max_examples=examples(80))
@given(crowd=crowds(), events=happenings(), seed=seeds)
def test_events_that_came_before_are_found(crowd: list[Expression], events: list[Happening], seed: int) -> None:
    compared = Compared(Engine(clock=ManualClock(START), index="scan"), seed)
    for number, event in enumerate(events):
        compared.engine.publish(forms.event_of(event, compared.rng, id=number), until=START + timedelta(days=1))
    for id, expression in enumerate(crowd):
        given = compared.subscribe(expression, id)
        subscription = (compared.known | compared.refused).get(id)
        if subscription is None:
            continue
        for number, event in enumerate(events):
            try:
                score = compared._score(subscription, event)
            except BorderlineError:
                continue
            found = {} if given is None else {int(at): s for at, s in given.live if at == number}
            compared.agree(found, {} if score is None else {number: score}, event)


# The comparison itself: a wrong engine must not pass.

PLACE = Circle("place", 10.0, 50.0, 50_000.0, decay=Decay((10.0, 50.0), 9.0, 2.0, 0.4, "LINEAR", "km"))


@pytest.mark.parametrize(
    ("expression", "values", "said", "taken"),
    [
        (Nested("items", "ALL", Compare("qty", ">=", 1.0)), {"items": [{"qty": 1.0}, {"qty": 0.0}]}, "ALL(", "ANY("),
        (Nested("items", "ANY", Not(Compare("qty", "=", 1.0))), {"items": [{"qty": 0.0}]}, "NOT ", ""),
        (Compare("price", "<=", 7.0, decay=Decay(0.0, 4.0, 0.0, 0.5, "GAUSS")), {"price": 2.0}, "GAUSS", "EXP"),
        (PLACE, {"place": (10.05, 50.0)}, " km", " m"),
        (Pattern(Folded.of(("CASEI",), "name"), "LIKE", "zo%"), {"name": "ZOE"}, "CASEI(", "ACCENTI("),
        (Pattern("name", "REGEX", "^zo"), {"name": "zoe"}, "REGEX(", "CONTAINS("),
    ],
)
def test_a_condition_that_is_taken_for_another_is_noticed(
    expression: Any, values: dict[str, Any], said: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Engine.subscribe

    def subscribe(self: Engine, source: Any, **terms: Any) -> Any:
        text = str(parse(source) if isinstance(source, str) else source)
        assert said in text
        return right(self, text.replace(said, taken), **terms)

    event = Happening(values)
    told = Compared(Engine(index="scan"), 1)
    told.subscribe(expression, 0)
    told.match(event)
    monkeypatch.setattr(Engine, "subscribe", subscribe)
    told_wrongly = Compared(Engine(index="scan"), 1)
    told_wrongly.subscribe(expression, 0)
    with pytest.raises(AssertionError, match="expected"):
        told_wrongly.match(event)
