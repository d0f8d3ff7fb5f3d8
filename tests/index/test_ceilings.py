"""The k best where weights count by closeness: ceilings and hulls leave out only what cannot be among them.

Worlds are made to be difficult: many rows with one origin, scales from 1e-300 to 1e300, ties at the k-th score, weights of 0,
closeness of exactly 0 and 1, places at the antimeridian and the poles, lists and ranges, three grades in a row, rows without.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from matchwood import Event, Range, Schema, parse
from matchwood.encode.arrays import Matches
from matchwood.jit.decorators import kernel
from matchwood.store.kernels.ceilings import ceiling_of, may_use
from matchwood.store.kernels.verify import ALL, load_event, score_row, unload_event
from matchwood.structures import INDEXES
from matchwood.structures.postings.index import PostingsIndex
from matchwood.structures.postings.kernels.hulls import height_of
from matchwood.structures.postings.kernels.layout import BLOCK
from matchwood.structures.scan.index import Scan
from matchwood.structures.scratch import new_values
from tests.worlds import World, listed, ranked

SCHEMA = {"place": "point", "price": "number", "size": "number", "created": "timestamp", "kind": "string"}
PRUNING = ["scan", "mo-tree", "be-star-tree", "postings", "vcr", "split"]
LONGITUDES = [179.99, -179.99, 180.0, 0.0, 10.0, 10.001, 10.01]
LATITUDES = [90.0, -89.999, 0.0, 50.0, 50.001, 50.02]
SCALES = ["1e-300", "0.25", "1", "7", "100", "1e9", "1e300"]


def a_decay(choose: random.Random, *, unit: str = "", origin: str = "") -> str:
    curve, scale = choose.choice(["LINEAR", "EXP", "GAUSS"]), choose.choice(SCALES)
    if unit:
        scale = choose.choice(["0.5", "40", "3000", "1e7"])
    offset = choose.choice(["", "", f", OFFSET 1{unit}", f", OFFSET 0.25{unit}"])
    to = choose.choice(["", "", ", TO 0.9", ", TO 0.001"])
    return f" DECAY({curve}{origin}, SCALE {scale}{unit}{offset}{to})"


def a_predicate(choose: random.Random, name: str) -> str:
    weight, graded = choose.choice(["", "^0", "^0.25", "^2", "^3.7", "^1e30"]), choose.random() < 0.8
    if name == "place":
        lon, lat = choose.choice(LONGITUDES), choose.choice(LATITUDES)
        around = f"DWITHIN(place, POINT({lon} {lat}), {choose.choice([1, 900, 40_000])} m) {weight}"
        if not graded:
            return around
        return around + (" DECAY" if choose.random() < 0.3 else a_decay(choose, unit=" m"))
    if name == "created":
        day, hour = choose.randrange(1, 4), choose.randrange(24)
        origin = f", ORIGIN TIMESTAMP('2026-01-0{day}T{hour:02}:00:00Z')"
        return f"created IS NOT NULL {weight}" + (a_decay(choose, unit=" s", origin=origin) if graded else "")
    if name == "kind":
        return f"kind = '{choose.choice('abc')}' {weight}"
    value = choose.randrange(-3, 12)
    test = choose.choice(["<= {}", ">= {}", "BETWEEN {} AND 12", "IN ({}, 5, 100)", "<> {}", "= {}"]).format(value)
    origin = f", ORIGIN {choose.choice([0, 0, 0, 5, value])}"
    return f"{name} {test} {weight}" + (a_decay(choose, origin=origin) if graded else "")


def a_text(choose: random.Random) -> str:
    names = choose.sample(list(SCHEMA), choose.choice([1, 1, 2, 3]))
    joined = choose.choice([" AND ", " AND ", " AND ", " OR "])
    return joined.join(a_predicate(choose, name) for name in names)


def an_event(choose: random.Random) -> Event:
    numbers = [choose.randrange(-3, 12) for _ in range(3)]
    low = choose.uniform(-3, 12)
    values: dict[str, object] = {
        "place": {"lon": choose.choice(LONGITUDES) + 0.0, "lat": choose.choice(LATITUDES)},
        "price": choose.choice([numbers[0], float(numbers[0]), sorted(set(numbers)), Range(low, low + 4)]),
        "size": numbers[2],
        "created": f"2026-01-0{choose.randrange(1, 4)}T{choose.randrange(24):02}:30:00Z",
        "kind": choose.choice("abc"),
    }
    for name in choose.sample(list(values), choose.choice([0, 0, 1, 2])):
        del values[name]
    return Event(values, choose.choice([{}, {}, {}, {"price": 0.5, "place": 0.25}, {"price": 2.0}]))


def a_world(seed: int, subscriptions: int, events: int) -> World:
    choose = random.Random(seed)
    world = World(Schema(SCHEMA))
    for id_ in range(subscriptions):
        world.put(id_, choose.choice([0.0, 0.0, 0.0, 1.0, -5.0, 1e3]), parse(a_text(choose)))
    world.events = [an_event(choose) for _ in range(events)]
    return world


def best_of(all_matches: Matches, k: int) -> list[list[tuple[int, float]]]:
    return [hits[:k] for hits in ranked(all_matches)]


def test_scan_agrees_with_the_oracle_on_difficult_worlds() -> None:
    world = a_world(1, 150, 40)
    scan = Scan.build(world.rows())
    assert ranked(scan.match(world.event_arrays())) == world.expected()
    for k in (1, 3, 10):
        assert listed(scan.top_k(world.event_arrays(), k)) == world.expected(k=k)


@pytest.mark.parametrize("name", PRUNING)
def test_the_best_are_the_first_of_all_matches(name: str) -> None:
    world = a_world(2, 3 * BLOCK, 60)
    events, rows = world.event_arrays(), world.rows()
    truth, index = Scan.build(rows), INDEXES[name].build(rows)
    index.check()
    random = np.random.default_rng(2)
    ids = np.array(sorted(world.subscriptions))
    for step in ("built", "priorities", "updated", "deleted", "inserted"):
        chosen = np.sort(random.permutation(ids)[:400])
        if step == "priorities":
            values = random.choice([-3.5, 0.0, 2.0, 40.0], len(chosen))
            for each in (truth, index):
                each.set_priority(chosen, values)
        elif step == "updated":
            changed = a_world(3, len(ids), 0)
            for each in (truth, index):
                each.update(changed.rows(chosen.tolist()))
        elif step == "deleted":
            ids = np.setdiff1d(ids, chosen)
            for each in (truth, index):
                each.delete(chosen)
        elif step == "inserted":
            more = a_world(4, 300, 0)
            added = World(more.schema, {id_ + 50_000: put for id_, put in more.subscriptions.items()})
            for each in (truth, index):
                each.insert(added.rows())
        index.check()
        matches = truth.match(events)
        for k in (1, 10, 70):
            assert listed(index.top_k(events, k)) == best_of(matches, k), f"{step}, k = {k}"


@pytest.mark.parametrize("name", PRUNING)
def test_ties_at_the_last_place_go_to_the_smaller_ids(name: str) -> None:
    """2,000 rows of one origin, one scale and one weight, and as many that differ in nothing but the id."""
    world = World(Schema(SCHEMA))
    for id_ in range(2 * BLOCK):
        world.put(id_, 0.0, parse(f"price <= 10 ^2 DECAY(LINEAR, ORIGIN 0, SCALE 20) AND size <= {id_ % 3} ^0"))
    world.events = [Event({"price": price, "size": size}) for price in (-1, 0, 5, 10, 11) for size in (0, 2)]
    index = INDEXES[name].build(world.rows())
    assert listed(index.top_k(world.event_arrays(), 7)) == world.expected(k=7)


@pytest.mark.parametrize("name", ["scan", "mo-tree", "be-star-tree", "postings"])
def test_the_first_grades_come_after_other_rows(name: str) -> None:
    """Rows that were there before ceilings have them too; an update may bring the first grade in place."""
    plain, graded = a_world(5, 200, 30), a_world(6, 200, 0)
    for id_ in plain.subscriptions:
        plain.put(id_, float(id_ % 5), parse(f"price <= {id_ % 11} ^{id_ % 7} AND size IN (1, 2, 3, 4, 5, 6, 7)"))
    index, truth = INDEXES[name].build(plain.rows()), Scan.build(plain.rows())
    events = plain.event_arrays()
    for id_ in range(60):
        text = f"price <= {id_ % 11} ^3 DECAY(EXP, ORIGIN 0, SCALE 2)" if id_ % 2 else "price = 1 ^4"
        graded.put(id_, 0.0, parse(text))
        for each in (index, truth):
            each.update(graded.rows([id_]))
    index.check()
    for k in (1, 10):
        assert listed(index.top_k(events, k)) == best_of(truth.match(events), k)


@kernel
def ceilings_and_scores(store, slots, values, events, ceilings, scores):
    for e in range(ceilings.shape[0]):
        load_event(values, events, e)
        for i in range(slots.size):
            slot = np.int64(slots[i])
            ceilings[e, i] = ceiling_of(store, slot, values) if may_use(store, events, e, ALL, None) else np.inf
            scores[e, i] = score_row(store, slot, values, events, ALL, None)
        unload_event(values, events, e)


@kernel
def block_heights(postings, values, events, heights):
    for e in range(heights.shape[0]):
        load_event(values, events, e)
        for block in range(heights.shape[1]):
            heights[e, block] = height_of(postings, block, values)
        unload_event(values, events, e)


def test_no_score_is_above_its_ceiling_and_most_are_near() -> None:
    world = a_world(7, 2 * BLOCK, 50)
    index, events = PostingsIndex.build(world.rows()), world.event_arrays()
    slots, values = index.store.live_slots(), new_values(index.store.dimensions)
    ceilings, scores = np.empty((events.size, len(slots))), np.empty((events.size, len(slots)))
    ceilings_and_scores(index.store.state, slots, values, events, ceilings, scores)
    assert np.nanmax(scores - ceilings) <= 0.0
    bounded = np.isfinite(scores) & np.isfinite(ceilings) & (np.abs(scores) < 1e6)
    assert bounded.sum() > 1000
    near = ceilings[bounded] - scores[bounded] < 1e-3 * (1.0 + np.abs(scores[bounded]))
    assert near.mean() > 0.8  # not those with a third grade, weights below 1 or scales of metres

    blocks = -(-int(index._postings.counts[0]) // BLOCK)
    heights = np.empty((events.size, blocks))
    block_heights(index._postings, values, events, heights)
    homes = index._postings.homes[slots]
    in_planes = homes < 2**31
    held = heights[:, homes[in_planes] // BLOCK]
    light = np.isfinite(ceilings).all(axis=1)
    assert np.nanmax((scores[:, in_planes] - held)[light]) <= 0.0


def test_few_rows_are_verified() -> None:
    """Nearest first over 4,000 rows: the ten best take a few dozen exact tests, whatever the weights are."""
    choose = random.Random(8)
    world = World(Schema(SCHEMA))
    for id_ in range(4_000):
        lon, lat = choose.gauss(10, 0.05), choose.gauss(50, 0.05)
        radius, weight = choose.choice([500, 3_000, 9_000]), choose.choice([1, 2, 5])
        world.put(id_, 0.0, parse(f"DWITHIN(place, POINT({lon:.5f} {lat:.5f}), {radius} m) ^{weight} DECAY"))
    world.events = [Event({"place": {"lon": choose.gauss(10, 0.05), "lat": choose.gauss(50, 0.05)}}) for _ in range(50)]
    events = world.event_arrays()
    for name, limit in (("postings", 40), ("be-star-tree", 120)):
        index = INDEXES[name].build(world.rows())
        assert listed(index.top_k(events, 10)) == best_of(Scan.build(world.rows()).match(events), 10)
        index.reset_counters()
        index.top_k(events, 10)
        assert index.stats().candidates / index.stats().events < limit
