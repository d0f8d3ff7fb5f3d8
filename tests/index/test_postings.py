"""What `postings` promises beyond the contract: filing, exact planes, lists by value, rebuilding."""

from __future__ import annotations

import numpy as np
import pytest

from matchwood.encode.arrays import COUNT, INTERVAL, MORE, PART, Events, Rows, make_events, make_rows
from matchwood.structures import PostingsIndex, Scan
from matchwood.workloads import Ranked
from tests.worlds import listed, ranked

COUNTRY, INTERESTS, SITE, AGE = range(4)


def campaigns(count: int, *, seed: int = 0, first: int = 0) -> Rows:
    """Rows with IN, membership, NOT IN and a range, each on some of them."""
    rng = np.random.default_rng(seed)
    offsets, dims, kinds, lo, hi, weight = [0], [], [], [], [], []

    def add(dim: int, parts: list[tuple[float, float]]) -> None:
        for i, (low, high) in enumerate(parts):
            dims.append(dim)
            kinds.append(MORE if i else INTERVAL)
            lo.append(low)
            hi.append(high)
            weight.append(0.0 if i else float(rng.integers(0, 4)) / 2)

    for _ in range(count):
        if rng.random() < 0.9:
            add(COUNTRY, [(v, v) for v in sorted({float(x) for x in rng.integers(0, 12, rng.integers(1, 5))})])
        if rng.random() < 0.7:
            top = 10 ** rng.integers(1, 4)
            add(INTERESTS, [(v, v) for v in sorted({float(x) for x in rng.integers(0, top, rng.integers(1, 4))})])
        if rng.random() < 0.3:
            out = sorted({float(x) for x in rng.integers(0, 9, 2)})
            edges = [-np.inf, *(e for v in out for e in (np.nextafter(v, -np.inf), np.nextafter(v, np.inf))), np.inf]
            add(SITE, list(zip(edges[::2], edges[1::2], strict=True)))
        if rng.random() < 0.5:
            low = float(rng.integers(18, 60))
            add(AGE, [(low, low + float(rng.integers(0, 30)))])
        offsets.append(len(dims))
    ids = first + np.arange(count)
    return make_rows(ids, rng.integers(0, 20, count) / 4, offsets, dims, kinds, lo, hi, weight)


def impressions(count: int, *, seed: int = 1, weighted: bool = False, interests: int = 12) -> Events:
    rng = np.random.default_rng(seed)
    offsets, dims, keys = [0], [], []
    for _ in range(count):
        for dim, values in (
            (COUNTRY, [float(rng.integers(0, 13))]),
            (INTERESTS, sorted({float(x) for x in rng.integers(0, 1000, interests)})),
            (SITE, sorted({float(x) for x in rng.integers(0, 10, rng.integers(1, 3))})),
            (AGE, [float(rng.integers(15, 95))]),
        ):
            if rng.random() < 0.9:
                dims += [dim] * len(values)
                keys += values
        offsets.append(len(dims))
    weights = rng.integers(0, 8, len(keys)) / 4 if weighted else None
    return make_events(offsets, dims, keys, keys, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scan_on_sets_lists_and_ranges(weighted: bool) -> None:
    rows, events = campaigns(6000), impressions(80, weighted=weighted)
    index, scan = PostingsIndex.build(rows), Scan.build(rows)
    assert ranked(index.match(events)) == ranked(scan.match(events))
    for k in (1, 5, 300):
        assert listed(index.top_k(events, k)) == listed(scan.top_k(events, k))
    details = index.stats().details
    assert details["rows_filed"] > 0
    assert details["rows_in_planes"] > 1024


@pytest.mark.parametrize("interests", [1, 2, 3])
def test_an_event_with_few_values_reads_their_planes_and_lists(interests: int) -> None:
    # Common values (below 10) have planes, the others lists: an event may have one plane and several lists.
    rows = campaigns(8000, seed=3)
    events = impressions(400, seed=interests, interests=interests)
    index, scan = PostingsIndex.build(rows), Scan.build(rows)
    assert ranked(index.match(events)) == ranked(scan.match(events))
    assert listed(index.top_k(events, 7)) == listed(scan.top_k(events, 7))


def test_a_batch_is_answered_as_its_events_are_one_by_one() -> None:
    rows, events = campaigns(5000, seed=5), impressions(300, seed=6, interests=5)
    index = PostingsIndex.build(rows)
    batch = index.match(events)  # groups, and a buffer that is full in the midst of some
    for e in range(events.size):
        alone = index.match(events.take(e, e + 1))
        assert sorted(zip(*(part.tolist() for part in batch.of(e)), strict=True)) == sorted(
            zip(*(part.tolist() for part in alone.of(0)), strict=True)
        )


def test_rows_whose_ends_are_cuts_are_not_verified() -> None:
    rows, events = campaigns(5000), impressions(50)
    events = _single_sites(events)
    index = PostingsIndex.build(rows)
    hits = len(index.match(events).ids)
    filed = index.stats().details["rows_filed"] / len(index)
    index.reset_counters()
    assert len(index.match(events).ids) == hits
    assert index.stats().candidates < hits * filed * 3


def test_a_list_reads_the_cells_of_its_values_not_the_range_between_them() -> None:
    keys = np.repeat(np.arange(1000.0), 8)
    rows = make_rows(
        np.arange(8000), np.zeros(8000), np.arange(8001), np.zeros(8000), np.zeros(8000), keys, keys, np.ones(8000)
    )
    index = PostingsIndex.build(rows)
    found = index.match(make_events([0, 2], [0, 0], [0.0, 999.0], [0.0, 999.0]))
    assert sorted(found.ids.tolist()) == [*range(8), *range(7992, 8000)]
    assert index.stats().candidates <= 16


def test_rows_come_and_go_with_rebuilds_and_check_holds() -> None:
    index, scan = PostingsIndex.build(campaigns(700)), Scan.build(campaigns(700))
    events = impressions(30)
    rng = np.random.default_rng(5)
    for step in range(8):
        rows = campaigns(900, seed=10 + step, first=1000 * (step + 1))
        gone = rng.permutation(scan.store.ids())[:600]
        up = np.setdiff1d(scan.store.ids(), gone)[:50]
        for one in (index, scan):
            one.insert(rows)
            one.delete(gone)
            one.set_priority(up, np.linspace(-3, 30, len(up)))
        assert ranked(index.match(events)) == ranked(scan.match(events))
        assert listed(index.top_k(events, 7)) == listed(scan.top_k(events, 7))
        index.check()


def test_a_priority_changes_in_place_unless_it_exceeds_its_block() -> None:
    rows, events = campaigns(6000, seed=8), impressions(60, seed=9)
    index, scan = PostingsIndex.build(rows), Scan.build(rows)
    places = index.stats().details["rows_in_planes"], int(index._postings.counts[0])
    rng = np.random.default_rng(1)
    lowered = rng.permutation(6000)[:2000].astype(np.int64)
    for one in (index, scan):
        one.set_priority(lowered, np.zeros(2000))
    index.check()
    assert int(index._postings.counts[0]) == places[1]  # no position more
    assert listed(index.top_k(events, 9)) == listed(scan.top_k(events, 9))
    raised = rng.permutation(6000)[:700].astype(np.int64)
    for one in (index, scan):
        one.set_priority(raised, np.full(700, 50.0))
    index.check()
    assert int(index._postings.counts[0]) > places[1]
    assert listed(index.top_k(events, 9)) == listed(scan.top_k(events, 9))
    assert ranked(index.match(events)) == ranked(scan.match(events))


def test_rows_inserted_one_by_one_do_not_make_the_k_best_verify_their_block() -> None:
    workload = Ranked(size=6_000, dimensions=2)
    rows, events = workload.subscriptions(), workload.events(40)
    index, scan = PostingsIndex.build(rows), Scan.build(rows)
    verified = []
    for _ in range(2):
        index.reset_counters()
        assert listed(index.top_k(events, 10)) == listed(scan.top_k(events, 10))
        verified.append(index.stats().candidates)
        again = rows.take(1_000, 1_200)  # of any score, to the end of the block of the lowest ones
        index.delete(again.ids)
        index.insert(again)
    assert verified[1] < 2 * verified[0]


def test_values_that_come_after_the_plan_are_found() -> None:
    index, scan = PostingsIndex.build(campaigns(3000)), Scan.build(campaigns(3000))
    late = campaigns(500, seed=7, first=9000)
    shifted = late._replace(lo=late.lo + 0.25, hi=late.hi + 0.25)
    for one in (index, scan):
        one.insert(shifted)
    events = impressions(40)
    events = events._replace(lo=events.lo + 0.25, hi=events.hi + 0.25)
    assert ranked(index.match(events)) == ranked(scan.match(events))
    index.check()


def test_an_in_list_of_many_values_and_a_range_event() -> None:
    many = np.arange(0.0, 100_000.0, 2.0)
    rows = make_rows(
        [1, 2], [0.0, 1.0], [0, len(many), len(many) + 1], np.zeros(len(many) + 1),
        [INTERVAL, *[MORE] * (len(many) - 1), INTERVAL], [*many, 7.0], [*many, 7.0], [1.0, *[0.0] * (len(many) - 1), 1.0],
    )  # fmt: skip
    index = PostingsIndex.build(rows)
    events = make_events([0, 1, 2, 3], [0, 0, 0], [500.0, 501.0, 6.5], [500.0, 501.0, 7.5])
    assert listed(index.match(events, ordered=True)) == [[(1, 1.0)], [], [(2, 2.0)]]


@pytest.mark.parametrize("damage", ["live", "cell", "file"])
def test_check_notices(damage: str) -> None:
    index = PostingsIndex.build(campaigns(2000))
    index.check()
    state = index._postings
    if damage == "live":
        state.bits[0] ^= np.uint64(1)
    elif damage == "cell":
        state.bits[16 : 16 * int(state.counts[6])] = 0
    else:
        state.table["size"][np.flatnonzero(state.table["size"])[0]] -= 1
    with pytest.raises(AssertionError):
        index.check()


def _single_sites(events: Events) -> Events:
    """The same events with the first site of each only."""
    keep = np.ones(len(events.dims), bool)
    starts = np.zeros(len(events.dims), bool)
    starts[events.offsets[:-1][events.offsets[:-1] < len(starts)]] = True
    keep[1:] = ~((events.dims[1:] == SITE) & (events.dims[:-1] == SITE) & ~starts[1:])
    offsets = np.concatenate([[0], np.cumsum(keep)])[events.offsets]
    return make_events(offsets, events.dims[keep], events.lo[keep], events.hi[keep])


def test_a_filed_row_that_its_posting_decides_is_not_verified() -> None:
    # value = v AND age BETWEEN: filed under v, with the range as the second interval.
    n = 5000
    age = np.arange(n) % 50
    keys = np.column_stack([np.arange(n) // 4, age]).astype(float)
    weights = np.tile([0.5, 0.25], n)
    dims, offsets = np.tile([COUNTRY, AGE], n), 2 * np.arange(n + 1)
    rows = make_rows(
        np.arange(n), age / 8, offsets, dims, np.zeros(2 * n), keys.ravel(), (keys + np.array([0, 9])).ravel(), weights
    )
    index, scan = PostingsIndex.build(rows), Scan.build(rows)
    events = make_events([0, 2, 5], [COUNTRY, AGE, COUNTRY, AGE, AGE], [7, 30, 9, 38, 80], [7, 30, 9, 38, 80])
    weighted = make_events([0, 2], [COUNTRY, AGE], [7, 30], [7, 30], [1.0, 0.5])
    for asked, verified in ((events.take(0, 1), 0), (events.take(1, 2), 4), (weighted, 3)):
        index.reset_counters()
        found = ranked(index.match(asked))
        assert index.stats().candidates <= verified
        assert found == ranked(scan.match(asked))
        assert found[0]
        assert listed(index.top_k(asked, 2)) == listed(scan.top_k(asked, 2))
    assert index.stats().details["rows_filed"] == n
    index.check()


def searches(count: int, *, seed: int, first: int = 0) -> Rows:
    """Rows on one list of terms: all of some, at least one or two of some, none of some; and on a country."""
    rng = np.random.default_rng(seed)
    offsets, dims, kinds, lo, hi = [0], [], [], [], []

    def add(dim: int, kind: int, low: float, high: float) -> None:
        for column, value in zip((dims, kinds, lo, hi), (dim, kind, low, high), strict=True):
            column.append(value)

    for _ in range(count):
        if rng.random() < 0.3:
            add(COUNTRY, INTERVAL, *2 * [float(rng.integers(0, 5))])
        terms = sorted({float(term) for term in 60 * rng.random(rng.integers(1, 5)) ** 2 // 1})
        least = int(rng.choice([len(terms), 1, min(2, len(terms))], p=[0.7, 0.15, 0.15]))
        if least == len(terms):
            add(INTERESTS, INTERVAL, *2 * [terms[int(rng.integers(len(terms)))]])
        else:
            add(INTERESTS, INTERVAL, -np.inf, np.inf)
        unwanted = float(rng.integers(0, 30))
        if rng.random() < 0.2 and least == len(terms) and unwanted not in terms:  # intervals lack what is excluded
            add(INTERESTS, COUNT, 0.0, 0.0)
            add(INTERESTS, PART, unwanted, unwanted)
        if least < len(terms) or len(terms) > 1:
            add(INTERESTS, COUNT, float(least), float(rng.choice([np.inf, 2.0], p=[0.9, 0.1])) if least < 3 else np.inf)
            for term in terms:
                add(INTERESTS, PART, term, term)
        offsets.append(len(dims))
    return make_rows(
        first + np.arange(count), rng.integers(0, 9, count) / 4, offsets, dims, kinds, lo, hi, [1.0] * len(dims)
    )


def documents(count: int, *, seed: int, ranges: bool = False) -> Events:
    rng = np.random.default_rng(seed)
    offsets, dims, lo, hi = [0], [], [], []
    for e in range(count):
        terms = sorted({float(term) for term in 60 * rng.random(1 if e % 9 == 0 else 14) ** 2 // 1})
        last = terms[-1] + 2.0 if ranges and e % 2 else terms[-1]
        dims += [COUNTRY] + [INTERESTS] * len(terms)
        lo += [float(rng.integers(0, 5)), *terms]
        hi += [lo[-1 - len(terms)], *terms[:-1], last]
        offsets.append(len(dims))
    return make_events(offsets, dims, lo, hi)


@pytest.mark.parametrize("ranges", [False, True])
def test_rows_that_count_values_of_a_list_agree_with_scan(ranges: bool) -> None:
    rows = searches(2500, seed=1)
    rows = rows._replace(weight=np.where(rows.kinds == INTERVAL, rows.weight, 0.0))
    events = documents(120, seed=2, ranges=ranges)
    index, scan = PostingsIndex.build(rows), Scan.build(rows)
    for step in range(2):
        assert ranked(index.match(events)) == ranked(scan.match(events))
        for k in (1, 6):
            assert listed(index.top_k(events, k)) == listed(scan.top_k(events, k))
        index.check()
        for one in (index, scan):
            one.set_priority(np.arange(2, 2500, 3), np.full(833, 3.0))
            one.delete(np.arange(step, 2500, 3))
            one.insert(searches(40, seed=9, first=3000 + 100 * step))


def test_a_row_that_asks_for_several_values_is_filed_under_the_rarest_and_decided_by_two() -> None:
    common, rare, size = 7.0, 1000.0, 3000
    keys = np.column_stack([np.full(size, common), rare + np.arange(size)])
    entries = np.column_stack([keys[:, 0], np.full(size, 2.0), keys])
    ends = np.column_stack([keys[:, 0], np.full(size, np.inf), keys])
    kinds, zeros = np.tile([INTERVAL, COUNT, PART, PART], size), np.zeros(4 * size)
    rows = make_rows(
        np.arange(size), np.zeros(size), 4 * np.arange(size + 1), zeros, kinds, entries.ravel(), ends.ravel(), zeros
    )
    index = PostingsIndex.build(rows)
    events = make_events(
        [0, 3, 5], [0] * 5, [common, 1003.0, 1005.0, 5.0, 1004.0], [common, 1003.0, 1005.0, 5.0, 1004.0]
    )
    found = index.match(events)
    assert sorted(found.ids.tolist()) == [3, 5]
    assert found.offsets.tolist() == [0, 2, 2]
    assert index.stats().candidates == 0


def test_rows_without_not_in_are_exact_for_lists_beside_rows_with_it() -> None:
    size = 4000
    terms = np.arange(size) % 4 * 1.0
    plain = make_rows(
        np.arange(size), np.zeros(size), np.arange(size + 1), [0] * size, [INTERVAL] * size, terms, terms, [1.0] * size
    )
    lo = np.column_stack([terms, np.zeros(size), np.full(size, 9.0)]).ravel()
    hi = np.column_stack([terms, np.zeros(size), np.full(size, 9.0)]).ravel()
    without = make_rows(
        size + np.arange(size),
        np.zeros(size),
        3 * np.arange(size + 1),
        [0] * 3 * size,
        [INTERVAL, COUNT, PART] * size,
        lo,
        hi,
        [1.0, 0.0, 0.0] * size,
    )
    index, scan = PostingsIndex(), Scan()
    for one in (index, scan):
        one.insert(plain)
        one.insert(without.take(0, 200))
    events = make_events([0, 2, 4], [0] * 4, [1.0, 5.0, 1.0, 9.0], [1.0, 5.0, 1.0, 9.0])
    assert ranked(index.match(events)) == ranked(scan.match(events))
    index.check()
    assert index.stats().candidates <= 2 * 50
