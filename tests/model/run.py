"""Drives an engine and the model through the same random calls and compares everything they say.

A run is a function of its index, its seed and its size. By hand: `python -m tests.model.run scan 17` takes an index or `all`, the
first seed, how many seeds (1), and the size of the crowd (25).
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from matchwood import Engine, ManualClock, Schema, parse
from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.json_lines import read_json_events, read_json_subscriptions
from matchwood.encode.subscription_tables import encode_subscription_table
from matchwood.errors import MatchwoodError
from matchwood.lang.json_form import from_json, to_json
from tests.model import forms
from tests.model.forms import Record
from tests.model.model import (
    SCORINGS,
    BorderlineError,
    Circle,
    Compare,
    Expression,
    Happening,
    Model,
    RefusedError,
    Span,
    Subscription,
)
from tests.model.worlds import START, World, subscription_of

ANY = {"auto", "scan", "mo-tree", "ranked", "k-index"}  # docs/indexes/README.md
FIXED = {"k-index"}  # takes its rows once
INDEXES = ("auto", "scan", "vcr", "be-star-tree", "mo-tree", "postings", "split", "ranked", "k-index")
Ranked = list[tuple[int, float]]


class DisagreementError(AssertionError):
    """The engine and the model differ; says the seed, the step, the call and the shortest way to it."""


def squares(score: float, weight: float) -> float:
    """A scoring function of the user's: monotone, never lowers a score."""
    return score + min(weight, 1e10) ** 2


class Run:
    """One engine, one model, one seed."""

    def __init__(self, index: str, seed: int, *, steps: int = 60, crowd: int = 25) -> None:
        self.index, self.seed, self.steps, self.crowd = index, seed, steps, crowd
        self.rng = Random(f"{index} {seed}")
        self.world = World(self.rng)
        self.scoring: Any = self.rng.choice((None, None, None, "sum", "max", squares))
        combine = self.scoring if callable(self.scoring) else SCORINGS[self.scoring]
        self.model = Model(START, combine)
        self.clock = ManualClock(START)
        self.declared = self._declared()
        schema = Schema(self.declared, learn=self.rng.random() < 0.8 or self.declared != self.world.types)
        self.engine = Engine(schema, index=index, scoring=self.scoring, clock=self.clock)
        self.log: list[str] = []
        self.said: dict[int, str] = {}  # how a subscription was told to the engine
        self.compared = self.borderline = 0

    def _declared(self) -> dict[str, str]:
        share = self.rng.choice((0.0, 0.5, 1.0, 1.0))
        return {name: type_ for name, type_ in self.world.types.items() if self.rng.random() < share}

    def run(self) -> None:
        try:
            self.load_crowd()
            calls = self.calls()
            for step in range(self.steps):
                self.log.append(f"-- {step}")
                self.rng.choices([c for c, _ in calls], [w for _, w in calls])[0]()
        except DisagreementError:
            raise
        except Exception as error:
            raise self.failure(f"{type(error).__name__}: {error}") from error

    def calls(self) -> list[tuple[Callable[[], None], int]]:
        reading: list[tuple[Callable[[], None], int]] = [
            (self.match, 30),
            (self.match_batch, 10),
            (self.match_table, 5),
            (self.explain, 6),
            (self.look, 5),
            (self.publish, 10),
            (self.live, 6),
            (self.retract, 3),
            (self.wait, 6),
            (self.save_and_load, 1),
            (self.refused_reading, 3),
            (self.covers, 3),
            (self.reduce, 1),
            (self.replan, 1 if self.index == "auto" else 0),
        ]
        if self.index in FIXED:
            return reading
        return [
            *reading,
            (self.subscribe, 25),
            (self.subscribe_many, 4),
            (self.subscribe_table, 4),
            (self.update, 8),
            (self.move, 8),
            (self.unsubscribe, 6),
            (self.refused_change, 4),
        ]

    def event_of(self, event: Happening, **options: Any) -> Any:
        points = {name for name, type_ in self.world.types.items() if type_ == "point"}
        return forms.event_of(event, self.rng, pairs=points <= self.declared.keys(), **options)

    # Changes

    def load_crowd(self) -> None:
        """The subscriptions there are before the first step; none, in some worlds."""
        if self.index in FIXED:
            self.subscribe_table(size=self.crowd) if self.rng.random() < 0.5 else self.subscribe_many(size=self.crowd)
        elif self.rng.random() < 0.8:
            for _ in range(self.rng.randint(0, self.crowd)):
                self.subscribe()
        if self.rng.random() < 0.3 and self.index not in FIXED:
            self.subscribe_many(size=self.rng.randint(0, self.crowd))

    def source(self, expression: Expression) -> Any:
        """The expression in any of its forms; the three must make one tree."""
        text = forms.text_of(expression, self.rng)
        tree = parse(text)
        if self.rng.random() < 0.2:
            self.equal(f"parse(str(parse({text!r})))", parse(str(tree)), tree)
            self.equal(f"from_json(to_json(parse({text!r})))", from_json(to_json(tree)), tree)
            self.equal(f"builder of {text!r}", forms.built(expression, self.rng), tree)
        said = forms.json_of(expression, self.rng)
        if isinstance(said, bool):  # a bare true: JSON of its own, but no argument of `subscribe`
            said = from_json(said)
        return self.rng.choice((text, text, tree, forms.built(expression, self.rng), said))

    def terms(self) -> dict[str, Any]:
        """Priority and expiry."""
        found: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            found["priority"] = self.rng.choice((0.5, -3.0, 1.0, 100, 0.1))
        if self.rng.random() < 0.2:
            found["until"] = self.soon()
        return found

    def soon(self) -> datetime:
        return self.model.now + timedelta(minutes=self.rng.choice((0, 1, 2, 3, 5, 10, -1)))

    def circle(self) -> tuple[dict[str, Any], Circle | None]:
        if self.world.types.get("place") != "point" or self.rng.random() < 0.8:
            return {}, None
        lon, lat = self.rng.choice(self.world.pools["place"])
        radius = self.rng.choice((500.0, 100_000.0))
        return {"place": (lon, lat), "radius": radius}, Circle("place", lon, lat, radius)

    def told(self) -> tuple[Expression, Any, dict[str, Any], dict[str, Any]]:
        """An expression, its source, the keywords of the engine and those of the model."""
        while True:
            expression, (keywords, circle) = self.world.expression(), self.circle()
            whole = Record(0, expression, circle=(circle.lon, circle.lat, circle.radius) if circle else None).whole()
            if self.world.clear(whole):
                break
        terms = self.terms()
        shown = dict(terms)
        if "until" in terms and self.rng.random() < 0.3:
            shown["until"] = forms.instant_text(terms["until"], self.rng)
        return whole, self.source(expression), keywords | shown, terms

    def subscribe(self) -> None:
        whole, source, keywords, terms = self.told()
        given = {} if self.rng.random() < 0.7 else {"id": self.rng.choice((self.rng.randint(0, 200), 2**40))}
        live = [(n, e) for n, (e, until) in self.model.live_events.items() if until > self.model.now]
        id = self.both(
            f"subscribe({source!r}, {keywords | given})",
            lambda: self.engine.subscribe(source, **keywords, **given),
            lambda: self.model.subscribe(whole, **terms, **given),
        )
        if id is None:
            return
        self.said[int(id)] = f"{source!s} {keywords}"
        if live or id.live:
            expected = lambda: self.model.live(id) if id in self.model.subscriptions else []  # noqa: E731
            self.ranked(f"subscribe({source!r}, {keywords}).live", lambda: id.live, expected, of_events=True)

    def subscribe_many(self, size: int | None = None, copies: int = 1) -> None:
        expressions = [self.world.matchable() for _ in range(self.rng.randint(0, 8) if size is None else size)]
        sources = [self.source(e) for e in expressions] * copies
        taken = [Subscription.of(e, 0.0, None) for e in expressions] * copies
        ids = self.both(
            f"subscribe_many({sources})",
            lambda: self.engine.subscribe_many(sources).tolist(),
            lambda: self.model.subscribe_many([(None, subscription) for subscription in taken]),
        )
        self.said |= dict(zip(ids or (), map(str, sources), strict=False))

    def subscribe_table(self, size: int | None = None) -> None:
        rng, world, schema = self.rng, self.world, self.engine.schema
        # Booleans as numbers (the list form) and columns without a suffix (the wide form) need attributes that are declared.
        plain = [name for name, type_ in world.types.items() if type_ in ("bool", "string")]
        tables = ("wide", "list") if all(map(self.declared.get, plain)) else ()
        form = rng.choice(("text", "json", *tables))
        free = [i for i in rng.sample(range(300, 5000), 40) if i not in self.model.subscriptions]
        count = rng.randint(0, 10) if size is None else size
        records = [world.record(id, form=form, now=self.model.now) for id in free[:count]]
        if self.index in FIXED:  # what can never be removed cannot expire
            records = [replace(record, until=None) for record in records]
        if form == "json":
            encoded = read_json_subscriptions(forms.json_lines(records, rng), schema)
        else:
            if form == "text":
                table = forms.text_table(records, rng)
            elif form == "wide":
                table = forms.wide_table(records, {n: t for n, t in world.types.items() if t != "point"})
            else:
                table = forms.list_table(records)
            encoded = encode_subscription_table(table, schema, form=form)
        self.equal(f"rejects of the {form} form of {records}", encoded.rejects, ())
        self.both(
            f"subscribe_rows({form} form of {records})",
            lambda: self.engine.subscribe_rows(encoded.rows),
            lambda: self.model.subscribe_many([(r.id, subscription_of(r)) for r in records]),
            compare=False,
        )
        self.said |= {r.id: f"{form} form of {r}" for r in records}

    def update(self) -> None:
        id, (whole, source, keywords, terms) = self.some_id(), self.told()
        self.both(
            f"update({id}, {source!r}, {keywords})",
            lambda: self.engine.update(id, source, **keywords),
            lambda: self.model.update(id, whole, **terms),
        )
        self.said[id] = f"{source!s} {keywords} (or what it was before)"

    def move(self) -> None:
        """A subscriber moves up to three times; then something happens near its place."""
        id = self.some_id(movable=True)
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            place = self.world.place()
            try:
                if id in self.model.subscriptions and self.model.movable(id) is None:
                    return
                self.both(
                    f"move({id}, {place}) of {self.said.get(id)}",
                    lambda place=place: self.engine.move(id, place),
                    lambda place=place: self.model.move(id, place),
                )
            except BorderlineError:
                return
            self.said[id] = f"{self.said.get(id)}, moved to {place}"
        for _ in range(2):
            self.match(self.world.event_near(place))

    def unsubscribe(self) -> None:
        ids = list(dict.fromkeys(self.some_id() for _ in range(self.rng.choice((1, 1, 3)))))
        if len(ids) == 1 and self.rng.random() < 0.7:
            engine = lambda: self.engine.unsubscribe(ids[0])  # noqa: E731
        else:
            engine = lambda: self.engine.unsubscribe_many(ids)  # noqa: E731
        self.both(f"unsubscribe {ids}", engine, lambda: self.model.unsubscribe_many(ids))

    def some_id(self, *, movable: bool = False) -> int:
        """Mostly one that is there."""
        ids = self.model.ids()
        if movable:
            placed = [i for i in ids if any("place" in {p.attribute for p in a} for a in self.known(i))]
            ids = placed if placed and self.rng.random() < 0.8 else ids
        return self.rng.choice(ids) if ids and self.rng.random() < 0.95 else self.rng.randint(0, 6000)

    def known(self, id: int) -> Any:
        return self.model.subscriptions[id].alternatives

    # Time, live events, folders

    def wait(self) -> None:
        minutes = self.rng.choice((0.5, 1, 1, 2, 5))
        self.log.append(f"clock.advance(minutes={minutes})")
        self.clock.advance(minutes=minutes)
        self.model.now = self.clock()

    def publish(self) -> None:
        event, rng = self.world.event(), self.rng
        number = rng.choice((None, None, rng.randint(0, 30), self.some_event()))
        until = self.soon() if rng.random() < 0.8 else None
        in_event = until is not None and rng.random() < 0.3
        told = self.event_of(event, id=number, until=until if in_event else None)
        keywords = self.how() | ({"until": until} if until and not in_event else {})
        kept = {"until": until, "id": number, **{k: v for k, v in keywords.items() if k != "until"}}
        self.ranked(
            f"publish({told!r}, {keywords})",
            lambda: self.engine.publish(told, **keywords),
            lambda: self.model.publish(event, **kept),
            about=event,
        )

    def some_event(self) -> int | None:
        return self.rng.choice(sorted(self.model.live_events) or [None])

    def live(self) -> None:
        id, how = self.some_id(), self.how(live=True)
        call = f"live({id}, {how}) of {self.said.get(id)}"
        self.ranked(call, lambda: self.engine.live(id, **how), lambda: self.model.live(id, **how), of_events=True)

    def retract(self) -> None:
        number = self.some_event() if self.rng.random() < 0.7 else self.rng.randint(0, 40)
        if number is not None:
            self.both(f"retract({number})", lambda: self.engine.retract(number), lambda: self.model.retract(number))

    def save_and_load(self) -> None:
        self.log.append("save and load")
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "saved")
            self.engine = Engine.load(Path(folder) / "saved", scoring=self.scoring, clock=self.clock)

    def replan(self) -> None:
        self.log.append("replan()")
        self.engine.replan()

    # Questions

    def how(self, *, live: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.rng.random() < 0.4:
            found["k"] = self.rng.choice((1, 2, 3, 10, 1000))
        if self.index in ANY and self.rng.random() < 0.35:
            found["mode"] = "any"
        return found

    def match(self, event: Happening | None = None) -> None:
        event, how = event or self.world.event(), self.how()
        told = self.event_of(event)
        method = self.engine.top_k if "k" in how else self.engine.match
        self.ranked(
            f"{method.__name__}({told!r}, {how})",
            lambda: method(told, **how),
            lambda: self.model.match(event, **how),
            about=event,
        )

    def match_batch(self) -> None:
        events = [self.world.event() for _ in range(self.rng.choice((0, 1, 2, 5)))]
        self.batch("batch", events, [self.event_of(e) for e in events])

    def match_table(self) -> None:
        events = [e for e in (self.world.event() for _ in range(self.rng.randint(0, 6))) if _writable(e)]
        form = self.rng.choice(("wide", "lines", "list"))
        schema, types = self.engine.schema, self.world.types
        if form == "lines":
            encoded = read_json_events(forms.event_lines([e for e in events if _finite(e)], types), schema)
            events = [e for e in events if _finite(e)]
        elif form == "wide":
            encoded = encode_event_table(forms.event_table(events, types), schema)
        else:
            if not all(t in self.declared for t, kind in types.items() if kind == "bool"):
                return
            events = [e for e in events if e.values.get("home") is None and "place" not in e.weights]
            encoded = encode_event_table(forms.event_list_table(events), schema)
        self.equal(f"rejects of the {form} form of {events}", encoded.rejects, ())
        self.batch(f"{form} form", events, encoded.events)

    def batch(self, form: str, events: list[Happening], told: Any) -> None:
        how = self.how()
        ordered = "k" in how or self.rng.random() < 0.7
        if "k" in how:
            found = self.engine.top_k_many(told, **how)
        else:
            found = self.engine.match_many(told, ordered=ordered, **how)
        self.equal(f"{form}: number of answers", len(found.offsets) - 1, len(events))
        for i, event in enumerate(events):
            ids, scores = found.of(i)
            got = list(zip(ids.tolist(), scores.tolist(), strict=True))
            got = got if ordered else sorted(got, key=lambda m: (-m[1], m[0]))
            self.ranked(
                f"{form}, event {i} of {events}, {how}",
                lambda got=got: got,
                lambda event=event: self.model.match(event, **how),
                about=event,
            )

    def explain(self) -> None:
        event, id = self.world.event(), self.some_id()
        mode = {"mode": "any"} if self.rng.random() < 0.3 else {}
        told = self.event_of(event)
        try:
            found = self.both(
                f"explain({told!r}, {id}, {mode})",
                lambda: self.engine.explain(told, id, **mode),
                lambda: self.model.score(event, id, **mode),
                compare=False,
            )
            if found is not None:
                expected = self.model.score(event, id, **mode)
                call = f"explain({told!r}, {id}, {mode}), subscription {self.said.get(id)}"
                self.equal(call, (found.matched, found.score), (expected is not None, expected))
                self.equal(f"{call} as text", str(found).split("\n")[0].startswith(f"subscription {id} "), True)
        except BorderlineError:
            self.borderline += 1

    def look(self) -> None:
        """Ids, numbers, and what is registered; the normal form means the same as what was told."""
        ids = self.model.ids()
        self.equal("ids()", self.engine.ids().tolist(), ids)
        self.equal("len()", len(self.engine), len(ids))
        if not ids:
            return
        id = self.rng.choice(ids)
        found, expected = self.engine.subscription(id), self.model.subscriptions[id]
        self.equal(f"{id} in engine", id in self.engine, True)
        self.equal(
            f"subscription({id})", (found.id, found.priority, found.until), (id, expected.priority, expected.until)
        )
        again = Engine(Schema(self.world.types), index="scan", scoring=self.scoring)
        again.subscribe(found.expression, id=id, priority=found.priority)
        for _ in range(3):
            event = self.world.event()
            call = f"{found}, subscribed again, and {event}; told {self.said.get(id)}"
            self.ranked(call, lambda e=event: again.match(self.event_of(e)), lambda e=event: self.alone(id, e))

    def alone(self, id: int, event: Happening) -> Ranked:
        score = self.model.score(event, id)
        return [] if score is None else [(id, score)]

    def covers(self) -> None:
        """Sound on a sample of events; and a subscription covers whoever says the same."""
        expression = self.world.matchable()
        source, alone = forms.text_of(expression, self.rng), Subscription.of(expression, 0.0, None)
        above, below = self.engine.covers(source).tolist(), self.engine.covered_by(source).tolist()
        same = [i for i in self.model.ids() if self.known(i) == alone.alternatives]
        self.equal(f"covers({source!r}) has {same}", set(same) <= set(above), True)
        self.equal(f"covered_by({source!r}) has {same}", set(same) <= set(below), True)
        for _ in range(8):
            event = self.world.event()
            try:
                matching = {id for id, _ in self.model.match(event)}
                matches = alone.score(event, "all", self.model.combine) is not None
            except BorderlineError:
                continue
            if matches:
                self.equal(f"{above} cover {source!r} at {event}", set(above) <= matching, True)
            else:
                self.equal(f"{below} are covered by {source!r} at {event}", matching & set(below), set())

    def reduce(self) -> None:
        found = self.engine.reduce()
        kept = found.kept.tolist()
        self.equal("reduce() parts the ids", sorted([*kept, *found.cover]), self.model.ids())
        self.equal("reduce() covers by what it keeps", set(found.cover.values()) <= set(kept), True)
        for _ in range(8):
            event = self.world.event()
            try:
                matching = {id for id, _ in self.model.match(event)}
            except BorderlineError:
                continue
            lost = [i for i in matching if i in found.cover and found.cover[i] not in matching]
            self.equal(f"reduce() loses none at {event}", lost, [])

    # What must be refused, and change nothing

    def refused_reading(self) -> None:
        event = self.event_of(self.world.event())
        number = next((n for n, t in self.declared.items() if t == "number"), None)
        later = self.model.now + timedelta(minutes=5)
        cases: list[tuple[str, Callable[[], Any]]] = [
            ("QueryError", lambda: self.engine.top_k(event, 0)),
            ("QueryError", lambda: self.engine.match(event, mode="most")),
            ("QueryError", lambda: self.engine.publish(event, until=later, k=0)),
            ("QueryError", lambda: self.engine.publish(event, until=later, mode="most")),
            ("QueryError", lambda: self.engine.top_k_many([event], 1.5)),
            ("MatchwoodError", lambda: self.engine.publish(event, until="soon")),
            ("UnknownSubscriptionError", lambda: self.engine.explain(event, 7777)),
            ("MatchwoodError", lambda: self.engine.save(tempfile.gettempdir())),
        ]
        for bad in (1.5, True, "5000", -1, 2**63):
            told = self.event_of(Happening({}), id=bad)
            cases.append(("EventError", lambda told=told: self.engine.publish(told, until=later)))
        if number is not None:
            for value in ("much", True, [1, "x"], 2**53 + 1, Span(2, 1)):
                told = self.event_of(Happening({number: value}))
                cases.append(("MatchwoodError", lambda told=told: self.engine.match(told)))
                cases.append(("MatchwoodError", lambda told=told: self.engine.publish(told, until=later)))
                cases.append(("MatchwoodError", lambda told=told: self.one_rejected([{}, told])))
        if self.index not in ANY:
            cases.append(("UnsupportedError", lambda: self.engine.match(event, mode="any")))
        self.refused(cases)

    def one_rejected(self, events: list[Any]) -> None:
        """A batch answers all events but the one that it rejects, whose error is raised here."""
        found = self.engine.match_many(events)
        assert found.offsets[-1] == found.offsets[1], "a rejected event has matches"
        raise found.rejected[1]

    def refused_change(self) -> None:
        good, id = forms.text_of(self.world.matchable(), self.rng), self.some_id()
        taken = self.rng.choice(self.model.ids() or [None])
        cases: list[tuple[str, Callable[[], Any]]] = [
            ("ParseError", lambda: self.engine.subscribe("x >")),
            ("NeverMatchesError", lambda: self.engine.subscribe("FALSE")),
            ("SubscriptionError", lambda: self.engine.subscribe(good, id=-1)),
            ("SubscriptionError", lambda: self.engine.subscribe(good, priority=float("nan"))),
            ("SubscriptionError", lambda: self.engine.subscribe(good, radius=5)),
            ("MatchwoodError", lambda: self.engine.subscribe(good, until="never")),
            ("MatchwoodError", lambda: self.engine.subscribe_many([good, good, "x ="])),
            ("MatchwoodError", lambda: self.engine.update(id, "x =")),
            ("UnknownSubscriptionError", lambda: self.engine.unsubscribe_many([*self.model.ids(), 7777])),
            ("MatchwoodError", lambda: self.engine.move(id, (0.0, 91.0))),
        ]
        if taken is not None:
            cases.append(("DuplicateSubscriptionError", lambda: self.engine.subscribe(good, id=taken)))
            cases.append(("SubscriptionError", lambda: self.engine.unsubscribe_many([taken, taken])))
        for name, type_ in self.declared.items():
            wrong = Compare(name, "=", 1 if type_ == "string" else "text")
            text = forms.text_of(wrong, self.rng)
            cases.append(("MatchwoodError", lambda text=text: self.engine.subscribe(text)))
            cases.append(("MatchwoodError", lambda text=text: self.engine.subscribe_many([good, text])))
        self.refused(cases)

    def refused(self, cases: list[tuple[str, Callable[[], Any]]]) -> None:
        error, call = self.rng.choice(cases)
        shown = inspect.getsource(call).strip()

        def refuse() -> None:
            raise RefusedError(error)

        self.both(f"refused: {shown}", call, refuse)

    # Comparing

    def both(self, call: str, engine: Callable[[], Any], model: Callable[[], Any], *, compare: bool = True) -> Any:
        """The engine's answer, which must (`compare`) be the model's; None where both refuse."""
        self.log.append(call)
        self.compared += 1
        try:
            expected = model()
        except RefusedError as refusal:
            try:
                answer = engine()
            except MatchwoodError as error:
                if refusal.error not in {c.__name__ for c in type(error).__mro__}:
                    raise self.failure(f"{call}\n  raised {error!r}, expected {refusal}") from error
                return None
            raise self.failure(f"{call}\n  gave {answer!r}, expected {refusal}") from refusal
        try:
            answer = engine()
        except MatchwoodError as error:
            raise self.failure(f"{call}\n  raised {error!r}") from error
        if compare:
            self.equal(call, answer, expected)
        return answer if answer is not None else ()

    def ranked(
        self,
        call: str,
        engine: Callable[[], Any],
        model: Callable[[], Ranked],
        *,
        about: Happening | None = None,
        of_events: bool = False,
    ) -> None:
        """Ids (of subscriptions, or of live events) and scores, to the bit and in order."""
        self.log.append(call)
        self.compared += 1
        refusal, expected = None, None
        try:
            expected = model()
        except RefusedError as error:
            refusal = error
        except BorderlineError:
            self.borderline += 1
        try:
            found = [(int(id), float(score)) for id, score in engine()]
        except MatchwoodError as error:
            if refusal is None or refusal.error not in {c.__name__ for c in type(error).__mro__}:
                raise self.failure(f"{call}\n  raised {error!r}, expected {refusal or expected}") from error
            return
        if refusal is not None:
            raise self.failure(f"{call}\n  gave {found}, expected {refusal}")
        if expected is not None and found != expected:
            raise self.failure(f"{call}\n{self.difference(found, expected, about, of_events)}")

    def difference(self, found: Ranked, expected: Ranked, event: Happening | None, of_events: bool) -> str:
        more, less = dict(found), dict(expected)
        lines = []
        for id in sorted({*more, *less}):
            if more.get(id) != less.get(id):
                said = self.model.live_events.get(id, "no live event") if of_events else self.said.get(id, "")
                lines.append(f"  {id}: score {more.get(id)}, expected {less.get(id)}; {said}")
        if not lines:
            lines = [f"  the order differs: {found}, expected {expected}"]
        return "\n".join([*lines[:5], f"  event: {event}" if event else ""])

    def equal(self, call: str, found: Any, expected: Any) -> None:
        self.compared += 1
        if found != expected:
            raise self.failure(f"{call}\n  gave {found!r}, expected {expected!r}")

    def failure(self, what: str) -> DisagreementError:
        lately = "\n  ".join(line[:300] for line in self.log[-12:])
        scoring = getattr(self.scoring, "__name__", self.scoring)
        return DisagreementError(
            f"index {self.index}, seed {self.seed}, {self.log[-1][:40] if self.log else 'start'}: {what}\n"
            f"  types {self.world.types}, declared {sorted(self.declared)}, scoring {scoring}\n"
            f"  lately:\n  {lately}\n"
            f"again: python -m tests.model.run {self.index} {self.seed} 1 {self.crowd}"
        )


def _writable(event: Happening) -> bool:
    """Tables write an absent value as null, and a list of ranges has no place for nulls."""
    return all(not isinstance(v, float) or v == v for v in event.values.values())


def _finite(event: Happening) -> bool:
    return "inf" not in repr(event.values)


def main(arguments: list[str]) -> int:
    given = dict(zip(("index", "seed", "count", "crowd"), arguments, strict=False))
    index, first = given["index"], int(given["seed"])
    count, crowd = int(given.get("count", 1)), int(given.get("crowd", 25))
    failed = 0
    for name in INDEXES if index == "all" else (index,):
        for seed in range(first, first + count):
            try:
                Run(name, seed, crowd=crowd).run()
            except DisagreementError as error:
                failed += 1
                print(f"{error}\n", flush=True)
    print(f"{failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
