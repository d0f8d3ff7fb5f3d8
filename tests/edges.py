"""Worlds on the edge: events lie on the ends of the rows' intervals, one float beside them, and beyond all of them.

Structures round, divide and compare, so they err there or nowhere. The domains are those that are hard to divide: one value,
neighbouring floats, denormals, all of float64. Rows and events come in two parts: `early` ones, which a structure is laid out
for, and `late` ones, which reach the ends of that layout, touch them from outside or lie beyond.

    edges_of(domain, seed)   a small world of all kinds of predicates and events, judged by the oracle
    crowd_of(domain, seed)   many plain rows and events as arrays, judged by NumPy: grids and trees of more than one level

Both are made once a process and never changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from matchwood.encode.arrays import Events, Rows, make_events, make_rows
from matchwood.errors import NeverMatchesError
from matchwood.lang.evaluate import Combine, Mode, add
from matchwood.lang.event import Event
from matchwood.lang.expression import Expression, Predicate, all_of, any_of
from matchwood.lang.operators import Operator
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.schema import Range, Schema
from tests.worlds import WEIGHTS, Dice, World, seeded_dice

LEAST, LARGEST = 5e-324, sys.float_info.max
NAMES = ("a", "b", "c")


def _neighbours(start: float, count: int) -> list[float]:
    found = [start]
    while len(found) < count:
        found.append(float(np.nextafter(found[-1], np.inf)))
    return found


DOMAINS: dict[str, list[float]] = {
    "one value": [7.0],
    "one denormal": [LEAST],
    "around zero": [-LEAST, 0.0, LEAST],
    "denormals": [n * LEAST for n in range(-4, 9)],
    "neighbours": _neighbours(1.0, 9),
    "far from zero": [1e15 + n / 8 for n in range(24)],
    "whole numbers": [float(n) for n in range(24)],
    "magnitudes": [sign * 2.0**n for n in range(-1074, 1024, 97) for sign in (-1, 1)],
    "huge": [-LARGEST, -LARGEST / 2, -1e308, 1e308, LARGEST / 2, float(np.nextafter(LARGEST, 0)), LARGEST],
    "all of float64": [-LARGEST, -1.0, -LEAST, 0.0, LEAST, 1.0, LARGEST],
    "fractions": np.random.default_rng(5).uniform(-100, 100, 60).tolist(),
}


def beside(ends: Iterable[float]) -> list[float]:
    """The ends, the floats next to each, and what lies beyond all of them, ascending."""
    found = {float(end) for end in ends}
    with np.errstate(over="ignore"):
        found |= {float(np.nextafter(end, way)) for end in found for way in (-np.inf, np.inf)}
    return sorted(found | {-np.inf, -LARGEST, -1.0, 0.0, 1.0, LARGEST, np.inf})


class SettledWorld(World):
    """A world that does not change: the oracle is asked once."""

    def expected(
        self, *, mode: str = Mode.ALL, k: int | None = None, combine: Combine = add
    ) -> list[list[tuple[int, float]]]:
        known = self.__dict__.setdefault("_known", {})
        if (mode, k, combine) not in known:
            known[mode, k, combine] = super().expected(mode=mode, k=k, combine=combine)
        found: list[list[tuple[int, float]]] = known[mode, k, combine]
        return found


@dataclass(frozen=True)
class Edges:
    """A world with all subscriptions, with the early ones only, and with half of them changed and a third gone."""

    whole: World
    early: World
    changed: World
    late: list[int] = field(default_factory=list)
    updated: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)


@cache
def edges_of(domain: str, seed: int = 0, *, early: int = 40, late: int = 40, events: int = 30) -> Edges:
    """Early rows end in the domain and early events lie there, late ones there, beside it or beyond."""
    dice, values = seeded_dice(seed), DOMAINS[domain]
    whole = SettledWorld(Schema(dict.fromkeys(NAMES, "number")))
    for id_ in range(early + late):
        _put(dice, whole, id_, values if id_ < early else beside(values))
    first = SettledWorld(whole.schema, {i: whole.subscriptions[i] for i in range(early)})
    made = [_an_event(dice, first, early=True) for _ in range(events // 2)]
    made += [_an_event(dice, whole, early=False) for _ in range(events - len(made))]
    updated, gone = list(range(0, early + late, 2)), list(range(1, early + late, 3))
    changed = SettledWorld(whole.schema, dict(whole.subscriptions))
    for id_ in updated:
        _put(dice, changed, id_, beside(values))
    for id_ in gone:
        del changed.subscriptions[id_]
    whole.events = first.events = changed.events = made
    return Edges(whole, first, changed, list(range(early, early + late)), sorted({*updated} - {*gone}), gone)


def _put(dice: Dice, world: World, id_: int, values: Sequence[float]) -> None:
    while True:
        try:
            return world.put(id_, dice.one([0.0, 0.0, 1.0, -2.5]), _an_expression(dice, values))
        except NeverMatchesError:
            continue


def _an_expression(dice: Dice, values: Sequence[float]) -> Expression:
    """One to three predicates, mostly of one interval each: rows that some structures do not verify."""
    names = list(NAMES)
    chosen = [names.pop(dice.below(len(names))) for _ in range(dice.one([1, 2, 2, 3]))]
    parts = [_a_predicate(dice, name, values) for name in chosen]
    return any_of(*parts) if dice.chance(10) else all_of(*parts)


def _a_predicate(dice: Dice, name: str, values: Sequence[float]) -> Predicate:
    weight, kind = dice.one(WEIGHTS), dice.below(12)
    if kind == 0:
        return IsNull(name, weight, negated=dice.chance(2))
    if kind == 1:
        return In(name, weight, values=tuple(dice.some(values, 4)), negated=dice.chance(2))
    if kind < 8:
        ends = dice.one(values), dice.one(values)
        return Between(name, weight, lo=min(ends), hi=max(ends))
    return Compare(name, weight, operator=dice.one(list(Operator)), value=dice.one(values))


def _an_event(dice: Dice, world: World, *, early: bool) -> Event:
    """An event at the corners of one subscription: on the ends of its intervals, or (late) also beside them or beyond."""
    rows = world.rows([dice.one(sorted(world.subscriptions))])
    values: dict[str, object] = {}
    for dim, name in enumerate(NAMES):
        ends = np.concatenate([rows.lo[rows.dims == dim], rows.hi[rows.dims == dim]])
        ends = ends[~np.isnan(ends)]
        pool = ends.tolist() if early and len(ends) else beside(ends)
        if dice.chance(10):
            continue
        if dice.chance(6):
            lo, hi = sorted([dice.one(pool), dice.one(pool)])
            values[name] = Range(lo, hi)
        elif dice.chance(8):
            values[name] = dice.some(pool, 3)
        else:
            values[name] = dice.one(pool)
    return Event(values, {name: dice.one(WEIGHTS) for name in NAMES if dice.chance(3)})


@dataclass(frozen=True, eq=False)
class Crowd:
    """Rows of one interval on each of two dimensions and events of single values, dense: NaN where there is none."""

    lo: np.ndarray
    hi: np.ndarray
    weight: np.ndarray
    keys: np.ndarray
    early: int  # rows
    early_events: int

    @property
    def size(self) -> int:
        return len(self.lo)

    def rows(self, first: int, last: int) -> Rows:
        lo, hi, weight = self.lo[first:last], self.hi[first:last], self.weight[first:last]
        there = ~np.isnan(lo)
        offsets, dims = np.concatenate([[0], np.cumsum(there.sum(axis=1))]), np.nonzero(there)[1]
        heads = np.arange(first, last), np.zeros(last - first), offsets
        return make_rows(*heads, dims, np.zeros(len(dims)), lo[there], hi[there], weight[there])

    def events(self) -> Events:
        there = ~np.isnan(self.keys)
        offsets, keys = np.concatenate([[0], np.cumsum(there.sum(axis=1))]), self.keys[there]
        return make_events(offsets, np.nonzero(there)[1], keys, keys)

    @cached_property
    def hits(self) -> tuple[np.ndarray, np.ndarray]:
        """Does the event (first axis) satisfy the row? And the score of each row; weights are such that sums are exact."""
        keys = self.keys[:, None]
        hits = (np.isnan(self.lo) | ((self.lo <= keys) & (keys <= self.hi))).all(axis=2)
        return hits, np.where(np.isnan(self.lo), 0.0, self.weight).sum(axis=1)

    def expected(self, rows: int) -> list[list[tuple[int, float]]]:
        """(id, score) of the first so many rows that match each event, best first."""
        hits, scores = self.hits
        order = np.lexsort((np.arange(rows), -scores[:rows]))
        return [[(int(i), float(scores[i])) for i in order[found[order]]] for found in hits]

    def expected_events(self, rows: int, events: int) -> list[list[tuple[int, float]]]:
        """(event, score) of the first so many events that match each of the first rows; of equal scores, by event."""
        hits, scores = self.hits
        return [[(int(e), float(scores[r])) for e in np.flatnonzero(hits[:events, r])] for r in range(rows)]


@cache
def crowd_of(domain: str, seed: int = 0, *, early: int = 1000, late: int = 500, events: int = 160) -> Crowd:
    """As `edges_of`; ids are 0, 1, ..., the early ones first."""
    rng, values = np.random.default_rng(seed), np.array(DOMAINS[domain])
    if domain in ("fractions", "whole numbers", "far from zero"):  # more values than a grid has cells
        values = np.unique(np.concatenate([values, values[0] + rng.integers(0, 40_000, 4 * early) / 16]))
    ends = np.concatenate([rng.choice(values, (early, 2, 2)), rng.choice(beside(values), (late, 2, 2))])
    ends.sort(axis=2)
    lo, hi = ends[:, :, 0], ends[:, :, 1]
    hi = np.where(rng.random(lo.shape) < 0.3, lo, hi)
    lo, hi = np.where(rng.random(lo.shape) < 0.05, -np.inf, lo), np.where(rng.random(lo.shape) < 0.05, np.inf, hi)
    lacks = rng.random(lo.shape) < 0.1
    lacks[:, 1] &= ~lacks[:, 0]
    lo, hi = np.where(lacks, np.nan, lo), np.where(lacks, np.nan, hi)
    first = events // 2
    of = np.concatenate([rng.integers(0, early, first), rng.integers(0, early + late, events - first)])
    on = np.where(rng.random((events, 2)) < 0.5, lo[of], hi[of])
    with np.errstate(over="ignore"):
        near = np.choose(rng.integers(0, 3, on.shape), [on, np.nextafter(on, -np.inf), np.nextafter(on, np.inf)])
    near = np.where(rng.random(on.shape) < 0.1, rng.choice(beside(values), on.shape), near)
    keys = np.where(np.arange(events)[:, None] < first, on, near)
    return Crowd(lo, hi, rng.integers(0, 8, lo.shape) / 4, keys, early, first)
