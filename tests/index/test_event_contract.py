"""The contract of live events: what every structure of `EVENT_SYSTEMS` promises, judged by the oracle turned round.

Ids and the bits of scores are compared. What a structure says it cannot do (`capabilities`) must be refused with a clear error,
never answered wrongly.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numba
import numpy as np
import pytest
from hypothesis import given, settings

from matchwood.baselines import BEQTree
from matchwood.encode.arrays import Events, Rows, make_events, make_rows
from matchwood.encode.picking import pick_events
from matchwood.errors import DuplicateSubscriptionError, EventError, MatchwoodError, QueryError, UnsupportedError
from matchwood.lang.evaluate import Combine, Mode, add, rank
from matchwood.lang.event import event_keys
from matchwood.lang.expression import Constant, any_of
from matchwood.lang.operators import Operator
from matchwood.lang.predicates import Compare
from matchwood.schema import Range, Schema
from matchwood.structures import Capability, EventIndex, LiveEvents, Scan
from matchwood.structures.live import plan as plans
from matchwood.workloads.city import City
from tests.edges import DOMAINS, crowd_of, edges_of
from tests.systems import EVENT_SYSTEMS
from tests.worlds import World, a_world, an_event, examples, listed, ranked, seeded_dice, worlds

NEVER = -np.inf
FOREVER = np.inf

MADE: dict[str, Callable[[], EventIndex]] = {
    "live-events": LiveEvents,
    "live-events, several layers": lambda: LiveEvents(like=lambda: [(0, 9, True), (1, 5, True), (3, 7, False)]),
    "beq-tree": BEQTree,
    "beq-tree, small leaves": lambda: BEQTree(x=7, y=8, leaf_events=3),  # the worlds' attribute `place`
}

pytestmark = pytest.mark.parametrize("name", MADE)


@pytest.fixture(autouse=True)
def _small_nodes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers in a small world."""
    if "layers" in name:
        monkeypatch.setattr(plans, "LINE_ROWS", 16)


def expire(index: EventIndex, ids: np.ndarray, now: float) -> None:
    """Delete those of these events that have expired, as the engine does."""
    known = ids[index.knows(ids)]
    index.delete(known[index.until(known) <= now])


def can(name: str, capability: Capability) -> bool:
    return capability in MADE[name]().capabilities


def modes(name: str) -> list[str]:
    return ["all", "any"] if can(name, Capability.ANY) else ["all"]


def fitted(world: World, name: str) -> World:
    """The world without what the structure says it cannot do."""
    if not can(name, Capability.RANGE_EVENTS):
        world.events = [e for e in world.events if not any(isinstance(v, list | Range) for v in e.values.values())]
    return world


def singles(values: np.ndarray, dim: int = 0) -> Events:
    """Events of one attribute each."""
    return make_events(range(len(values) + 1), np.full(len(values), dim), values, values)


def all_between(lo: float, hi: float) -> Rows:
    """A subscription for a stretch of the attribute of `singles`."""
    return make_rows([1], [0.0], [0, 1], [0], [0], [lo], [hi], [1.0])


def expected(
    world: World, ids: np.ndarray, alive: np.ndarray, mode: str = Mode.ALL, combine: Combine = add
) -> list[list[tuple[int, float]]]:
    """For each subscription its live events (id, score), best first, then by id."""
    keys = [event_keys(event, world.schema) for event in world.events]
    answers = []
    for id_, (priority, _, rows) in world.subscriptions.items():
        hits = []
        for e in np.flatnonzero(alive):
            for _, score in rank([(id_, priority, rows)], keys[e], mode=mode, combine=combine):
                hits.append((int(ids[e]), score))
        answers.append(sorted(hits, key=lambda hit: (-hit[1], hit[0])))
    return answers


def assert_agrees(index: EventIndex, world: World, ids: np.ndarray, until: np.ndarray, now: float, name: str) -> None:
    """All matches and the best of them are what the oracle says; `until` is that of each event, or NEVER if it is not there."""
    for mode in modes(name):
        answer = expected(world, ids, until > now, mode)
        assert ranked(index.match(world.rows(), now, mode=mode)) == answer
        for k in (1, 3, 1000):
            assert listed(index.match(world.rows(), now, k=k, mode=mode)) == [hits[:k] for hits in answer]


@given(world=worlds(subscriptions=6, events=9))
@settings(max_examples=examples(50))
def test_agrees_with_the_oracle_on_any_world(name: str, world: World) -> None:
    world, index = fitted(world, name), MADE[name]()
    n = len(world.events)
    ids, until = np.arange(n)[::-1] * 5, np.arange(n) % 4.0
    index.insert(world.event_arrays(), ids, until)
    index.check()
    for now in (NEVER, 0.0, 2.0):
        assert_agrees(index, world, ids, until, now, name)
        index.check()


@pytest.mark.parametrize(("seed", "apart"), [(0, 0), (1, 0), (2, 2), (3, 7)])
def test_agrees_with_the_oracle_on_larger_worlds(name: str, seed: int, apart: int) -> None:
    world, index = fitted(a_world(seeded_dice(seed, grades=True), 40, 90, apart=apart), name), MADE[name]()
    n = len(world.events)
    ids, until, events = np.arange(n)[::-1] * 2 + 1, np.arange(n) % 7.0, world.event_arrays()
    index.insert(events.take(0, n // 2), ids[: n // 2], until[: n // 2])
    index.insert(events.take(n // 2, n), ids[n // 2 :], until[n // 2 :])
    index.check()
    for now in (NEVER, 0.0, 3.0, 5.5):
        assert_agrees(index, world, ids, until, now, name)
        index.check()
    expire(index, ids, 6.0)
    assert len(index) == 0


@pytest.mark.parametrize("domain", DOMAINS)
def test_subscriptions_that_end_on_the_values_of_events_beside_them_and_beyond(name: str, domain: str) -> None:
    """Early events in bulk, for which a structure is laid out; late ones, which may lie outside, one by one."""
    whole = edges_of(domain, early=12, late=12, events=60).whole
    world, index = fitted(World(whole.schema, whole.subscriptions, whole.events), name), MADE[name]()
    n, events = len(world.events), world.event_arrays()
    ids, until, half = np.arange(n), np.full(n, FOREVER), n // 2
    index.insert(events.take(0, half), ids[:half], until[:half])
    index.check()
    assert_agrees(index, world, ids, np.where(ids < half, FOREVER, NEVER), 0.0, name)
    for e in range(half, n):
        index.insert(events.take(e, e + 1), ids[e : e + 1], until[e : e + 1])
    assert_agrees(index, world, ids, until, 0.0, name)
    index.check()
    index.delete(ids[::2])
    index.check()
    assert_agrees(index, world, ids, np.where(ids % 2, FOREVER, NEVER), 0.0, name)


@pytest.mark.parametrize("domain", DOMAINS)
def test_many_events_in_domains_that_are_hard_to_divide(name: str, domain: str) -> None:
    crowd = crowd_of(domain, early=150, late=150, events=1500)
    index = BEQTree(leaf_events=8) if "small leaves" in name else MADE[name]()
    events, rows = crowd.events(), crowd.rows(0, crowd.size)
    for first, last in ((0, crowd.early_events), (crowd.early_events, events.size)):
        ids = np.arange(first, last)
        index.insert(events.take(first, last), ids, np.full(len(ids), FOREVER))
        expected = crowd.expected_events(crowd.size, last)
        assert ranked(index.match(rows, 0.0)) == expected
        assert listed(index.match(rows, 0.0, k=3)) == [hits[:3] for hits in expected]
    index.check()


@pytest.mark.parametrize(("seed", "apart"), [(0, 0), (1, 2), (2, 7)])
def test_stays_right_through_inserts_deletes_and_expiry_in_random_order(name: str, seed: int, apart: int) -> None:
    chooser = random.Random(seed)
    world, index = fitted(a_world(seeded_dice(seed + 50), 12, 160, apart=apart), name), MADE[name]()
    n, events, now = len(world.events), world.event_arrays(), 0.0
    ids, until = np.array(chooser.sample(range(1000), n)), np.full(n, NEVER)
    for _ in range(40):
        step = chooser.choice(["insert", "insert", "one", "delete", "expire"])
        known = index.knows(ids)
        some = np.array(chooser.sample(range(n), 1 if step == "one" else chooser.randint(0, 20)), dtype=np.int64)
        if step in ("insert", "one"):
            new = some[~known[some]]
            until[new] = now + chooser.randint(1, 4)
            index.insert(pick_events(events, new), ids[new], until[new])
        elif step == "delete":
            gone = some[known[some]]
            index.delete(ids[gone])
            until[gone] = NEVER
        else:
            now += 1.0
            expire(index, ids, now)
            assert len(index) == (until > now).sum()
        index.check()
        assert index.knows(ids)[until > now].all()
        assert not index.knows(ids)[until == NEVER].any()
        assert_agrees(index, world, ids, until, now, name)
    index.delete(ids[index.knows(ids)])
    index.check()
    assert len(index) == 0


@pytest.mark.parametrize("preset", ["k6", "k10"])
def test_a_city_of_live_events_is_matched_as_scan_matches_it(name: str, preset: str) -> None:
    city = City.preset(preset, size=300, source="synthetic")
    rows, events, until = city.subscriptions(), city.events(8_000), np.arange(8_000.0)
    index, turned = MADE[name](), Scan.build(rows).match(events)
    index.insert(events, np.arange(8_000), until)
    found = index.match(rows, 3_000.0)
    hits = {(int(s), e, score) for e in range(3_001, 8_000) for s, score in zip(*turned.of(e), strict=True)}
    assert {(s, e, score) for s, each in enumerate(ranked(found)) for e, score in each} == hits
    assert listed(index.match(rows, 3_000.0, k=5)) == [each[:5] for each in ranked(found)]
    assert index.candidates >= len(hits)


def test_a_city_comes_and_goes_in_random_order(name: str) -> None:
    rng = np.random.default_rng(4)
    city = City.preset("k4", size=50, source="synthetic")
    rows, pool, inside = city.subscriptions(), city.events(3_000), np.zeros(3_000, bool)
    index = BEQTree(leaf_events=64) if name.startswith("beq") else MADE[name]()
    index.insert(pool.take(0, 400), np.arange(400), np.full(400, FOREVER))
    inside[:400] = True
    for _ in range(8):
        batch = np.sort(rng.permutation(3_000)[:600])
        gone, new = batch[inside[batch]], batch[~inside[batch]]
        index.delete(gone)
        for e in new[:200]:
            index.insert(pool.take(int(e), int(e) + 1), np.array([e]), np.array([FOREVER]))
        index.insert(pick_events(pool, new[200:]), new[200:], np.full(len(new[200:]), FOREVER))
        inside[gone], inside[new] = False, True
        index.check()
    assert len(index) == inside.sum()
    turned = Scan.build(rows).match(pool)
    pairs = {(int(s), e) for e in np.flatnonzero(inside).tolist() for s in turned.of(e)[0]}
    found = index.match(rows, 0.0)
    assert {(s, int(e)) for s in range(50) for e in found.of(s)[0]} == pairs


@pytest.mark.parametrize("plain", [True, False])
def test_events_of_hundreds_of_attributes_are_matched_as_scan_matches_them(name: str, plain: bool) -> None:
    """Dimensions above 63 have no bit in an event's mask; such events stand among others in the same structure."""
    if not plain and not can(name, Capability.RANGE_EVENTS):
        pytest.skip("the structure says that it keeps single values")
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 30, 3_000)
    dims = np.concatenate([np.sort(rng.permutation(60 if e % 3 else 300)[:n]) for e, n in enumerate(sizes)])
    lo = rng.integers(0, 20, len(dims)).astype(float)
    hi = lo if plain else lo + (rng.random(len(dims)) < 0.05)
    events = make_events(np.concatenate([[0], np.cumsum(sizes)]), dims, lo, hi)
    named = np.concatenate([np.sort(rng.permutation(300 if r % 2 else 60)[:2]) for r in range(300)])
    begin = rng.integers(0, 15, 600).astype(float)
    rows = make_rows(range(300), np.zeros(300), np.arange(301) * 2, named, np.zeros(600), begin, begin + 8, begin)
    index = MADE[name]()
    index.insert(events, np.arange(3_000), np.full(3_000, FOREVER))
    index.check()
    turned = Scan.build(rows).match(events)
    pairs = {(int(s), e) for e in range(3_000) for s in turned.of(e)[0]}
    found = index.match(rows, 0.0)
    assert {(s, int(e)) for s in range(300) for e in found.of(s)[0]} == pairs
    assert listed(index.match(rows, 0.0, k=3)) == [hits[:3] for hits in ranked(found)]
    index.delete(np.arange(0, 3_000, 2))
    index.check()
    left = {(s, int(e)) for s, hits in enumerate(ranked(index.match(rows, 0.0))) for e, _ in hits}
    assert left == {(s, e) for s, e in pairs if e % 2}


def test_an_event_has_expired_in_the_instant_of_its_until(name: str) -> None:
    index = MADE[name]()
    index.insert(singles(np.array([5.0])), np.array([8]), np.array([100.0]))
    row = all_between(0.0, 9.0)
    assert index.match(row, np.nextafter(100.0, 0.0)).ids.tolist() == [8]
    assert index.match(row, 100.0).ids.tolist() == []
    assert len(index) == 1
    expire(index, np.array([8]), 100.0)
    assert len(index) == 0


def test_memory_comes_back_when_events_expire(name: str) -> None:
    index = MADE[name]()
    sizes = []
    for batch in range(50):
        events, ids = singles(np.full(100, float(batch))), np.arange(100) + 100 * batch
        index.insert(events, ids, np.full(100, batch + 1.5))
        expire(index, np.arange(100 * (batch + 1)), float(batch))
        sizes.append(index.nbytes)
    assert len(index) <= 200
    assert sizes[-1] <= 2 * sizes[5]
    index.check()


def test_an_empty_structure_matches_nothing(name: str) -> None:
    index = MADE[name]()
    index.check()
    assert index.match(all_between(0.0, 9.0), 0.0).offsets.tolist() == [0, 0]
    assert index.match(all_between(0.0, 9.0), 0.0, k=3).offsets.tolist() == [0, 0]


def test_empty_batches_change_nothing_and_ask_for_nothing(name: str) -> None:
    index = MADE[name]()
    nothing, none = make_events([0], [], [], []), np.zeros(0, np.int64)
    index.insert(nothing, none, np.zeros(0))
    index.delete(none)
    assert index.knows(none).tolist() == []
    index.insert(singles(np.ones(3)), np.arange(3), np.full(3, FOREVER))
    index.insert(nothing, none, np.zeros(0))
    index.delete(none)
    index.check()
    assert len(index) == 3
    assert index.match(make_rows([], [], [0], [], [], [], [], []), 0.0).offsets.tolist() == [0]


def test_a_subscription_without_predicates_matches_every_event(name: str) -> None:
    world, index = World(Schema()), MADE[name]()
    world.put(4, 2.5, Constant(True))
    world.events = [an_event(seeded_dice(s)) for s in range(9)]
    fitted(world, name)
    n = len(world.events)
    index.insert(world.event_arrays(), np.arange(n), np.full(n, FOREVER))
    index.insert(make_events([0, 0], [], [], []), np.array([n]), np.array([FOREVER]))  # nor has this event a value
    index.check()
    assert ranked(index.match(world.rows(), 0.0)) == [[(e, 2.5) for e in range(n + 1)]]


def test_open_ends_are_exact(name: str) -> None:
    below, above = np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0)
    index = MADE[name]()
    index.insert(singles(np.array([below, 1.0, above])), np.arange(3), np.full(3, FOREVER))
    ends = {Operator.LT: [0], Operator.LE: [0, 1], Operator.EQ: [1], Operator.GE: [1, 2], Operator.GT: [2]}
    for operator, ids in {**ends, Operator.NE: [0, 2]}.items():
        world = World(Schema())
        world.put(1, 0.0, Compare("a", 1.0, operator=operator, value=1.0))
        assert sorted(index.match(world.rows(), 0.0).ids.tolist()) == ids, operator


def test_ties_go_to_the_smaller_event_id_at_every_k(name: str) -> None:
    index, ids = MADE[name](), np.array(random.Random(5).sample(range(1000), 64))
    index.insert(singles(np.full(64, 4.0)), ids, np.full(64, FOREVER))
    for k in (1, 7, 63, 64, 65):
        assert index.match(all_between(0.0, 9.0), 0.0, k=k).ids.tolist() == sorted(ids.tolist())[:k]


def test_an_event_is_reported_once_to_a_subscription_of_several_rows_with_its_best_score(name: str) -> None:
    world = World(Schema())
    cheap = Compare("a", 0.5, operator=Operator.GE, value=0)
    dear = Compare("b", 2.0, operator=Operator.GE, value=0)
    world.put(7, 0.0, any_of(cheap, dear))
    world.put(8, 1.0, cheap)
    both = make_events(np.arange(31) * 2, [0, 1] * 30, np.ones(60), np.ones(60))
    index = MADE[name]()
    index.insert(both, np.arange(30), np.full(30, FOREVER))
    index.insert(singles(np.ones(20)), np.arange(30, 50), np.full(20, FOREVER))
    dearest, others = [(e, 2.0) for e in range(30)], [(e, 0.5) for e in range(30, 50)]
    answer = [dearest + others, [(e, 1.5) for e in range(50)]]
    assert ranked(index.match(world.rows(), 0.0)) == answer
    assert listed(index.match(world.rows(), 0.0, k=32)) == [hits[:32] for hits in answer]


def test_more_matches_than_any_first_guess_of_room(name: str) -> None:
    n, index = 30_000, MADE[name]()
    index.insert(singles(np.full(n, 0.5)), np.arange(n), np.full(n, FOREVER))
    rows = make_rows([1, 2, 3], [0.0] * 3, range(4), [0] * 3, [0] * 3, [0.0, 2.0, 0.5], [1.0, 3.0, 0.5], [1.0] * 3)
    for _ in range(2):  # the second time the room is known
        matches = index.match(rows, 0.0)
        assert np.diff(matches.offsets).tolist() == [n, 0, n]
        assert sorted(matches.of(2)[0].tolist()) == list(range(n))


def test_attributes_that_were_never_seen_are_no_obstacle(name: str) -> None:
    index = MADE[name]()
    index.insert(singles(np.array([1.0]), 2), np.array([1]), np.array([FOREVER]))
    far = make_rows([1, 2], [0.0, 0.0], [0, 1, 2], [900, 2], [0, 0], [0.0, 0.0], [9.0, 9.0], [1.0, 1.0])
    assert ranked(index.match(far, 0.0)) == [[], [(1, 1.0)]]
    index.insert(make_events([0, 2], [2, 900], [1.0, 1.0], [1.0, 1.0]), np.array([5]), np.array([FOREVER]))
    index.check()
    assert ranked(index.match(far, 0.0)) == [[(5, 1.0)], [(1, 1.0), (5, 1.0)]]


def test_scores_may_be_folded_by_any_monotone_function(name: str) -> None:
    if not can(name, Capability.SCORING):
        pytest.skip("the structure says that it only sums")
    largest = numba.cfunc("float64(float64, float64)")(lambda score, weight: max(score, weight))
    world, index = fitted(a_world(seeded_dice(8), 10, 60), name), MADE[name]()
    n = len(world.events)
    ids = np.arange(n)
    index.insert(world.event_arrays(), ids, np.full(n, FOREVER))
    for mode in modes(name):
        answer = expected(world, ids, np.ones(n, bool), mode, max)
        assert ranked(index.match(world.rows(), 0.0, mode=mode, combine=largest)) == answer
        best = index.match(world.rows(), 0.0, k=4, mode=mode, combine=largest)
        assert listed(best) == [hits[:4] for hits in answer]


@pytest.mark.parametrize("held", [1, 40])
def test_what_is_refused_leaves_everything_as_it_was(name: str, held: int) -> None:
    index, until = MADE[name](), np.full(held, 9.0)
    index.insert(singles(np.arange(float(held))), np.arange(held), until)
    two, ends = singles(np.array([1.0, 2.0])), np.array([5.0, 5.0])
    refused: list[tuple[type[MatchwoodError], str, Callable[[], object]]] = [
        (EventError, "0 is there already", lambda: index.insert(two.take(0, 1), np.array([0]), ends[:1])),
        (EventError, "0 is there already", lambda: index.insert(two, np.array([50, 0]), ends)),
        (EventError, "twice", lambda: index.insert(two, np.array([50, 50]), ends)),
        (EventError, "not negative, got -3", lambda: index.insert(two, np.array([50, -3]), ends)),
        (EventError, "not negative, got -3", lambda: index.insert(two.take(0, 1), np.array([-3]), ends[:1])),
        (QueryError, "until", lambda: index.insert(two, np.array([50, 51]), ends[:1])),
        (QueryError, "until", lambda: index.insert(two, np.array([50]), ends)),
        (QueryError, "until", lambda: index.insert(two.take(0, 1), np.array([50]), ends)),
        (EventError, "77 is not there", lambda: index.delete(np.array([0, 77]))),
        (EventError, "77 is not there", lambda: index.delete(np.array([77]))),
        (EventError, "-1 is not there", lambda: index.delete(np.array([-1]))),
        (EventError, "twice", lambda: index.delete(np.array([0, 0]))),
        (QueryError, "'some'", lambda: index.match(all_between(0.0, 9.0), 0.0, mode="some")),
        (DuplicateSubscriptionError, "adjacent", lambda: index.match(_not_adjacent(), 0.0)),
    ]
    for error, message, call in refused:
        with pytest.raises(error, match=message):
            call()
        index.check()
        assert len(index) == held
    assert index.match(all_between(0.0, 100.0), 8.0, k=held).ids.tolist() == list(range(held))


def _not_adjacent() -> Rows:
    return make_rows([1, 2, 1], [0.0] * 3, [0] * 4, [], [], [], [], [])


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_a_bad_k_is_a_query_error(name: str, k: object) -> None:
    with pytest.raises(QueryError, match="k"):
        MADE[name]().match(all_between(0.0, 9.0), 0.0, k=k)  # type: ignore[arg-type]


def test_what_a_structure_cannot_do_it_refuses_by_name(name: str) -> None:
    index, one = MADE[name](), np.array([1])
    calls = {
        Capability.ANY: lambda: index.match(all_between(0.0, 9.0), 0.0, mode="any"),
        Capability.TOP_K: lambda: index.match(all_between(0.0, 9.0), 0.0, k=3),
        Capability.RANGE_EVENTS: lambda: index.insert(make_events([0, 1], [0], [1.0], [2.0]), one, np.array([9.0])),
    }
    refused = 0
    for capability, call in calls.items():
        if can(name, capability):
            call()
        else:
            with pytest.raises(UnsupportedError, match=f"'{index.name}' does not offer {capability}"):
                call()
            refused += 1
    assert refused == sum(not can(name, capability) for capability in calls)
    index.check()
    assert len(index) == int(can(name, Capability.RANGE_EVENTS))


def test_memory_is_counted(name: str) -> None:
    index = MADE[name]()
    index.insert(singles(np.arange(1000.0)), np.arange(1000), np.full(1000, FOREVER))
    assert index.nbytes >= 1000 * 24  # an id, an until and a key at least


def test_every_structure_is_in_the_suite(name: str) -> None:
    assert {made().name for made in MADE.values()} == set(EVENT_SYSTEMS)
    assert EVENT_SYSTEMS[MADE[name]().name] is type(MADE[name]())
