"""Tables and arrays convert into one another exactly; a table that is not what it says is refused, with the column's name."""

from __future__ import annotations

import gc

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from matchwood.encode.arrays import Matches
from matchwood.errors import SchemaError
from matchwood.spark.batches import EVENTS, read_events, read_ranked, read_subscriptions, write_ranked
from matchwood.spark.merge import Merging, cut, gather
from tests.spark.tables import event_table, subscription_table
from tests.worlds import World, a_world, seeded_dice, worlds


@settings(max_examples=60)
@given(worlds())
def test_subscriptions_and_events_come_back_as_they_were(world: World) -> None:
    table = subscription_table(world)
    for batch in table.to_batches():
        back = read_subscriptions(batch)
        for was, now in zip(world.rows(), back.rows, strict=True):
            assert np.array_equal(was, now, equal_nan=was.dtype == np.float64)
    for batch in event_table(world).to_batches():
        for was, now in zip(world.event_arrays(), read_events(batch).events, strict=True):
            assert np.array_equal(was, now)


def test_slices_of_a_batch_are_read_where_they_stand() -> None:
    table = pa.table(
        {
            "id": [1, 2, 3],
            "until": pa.nulls(3, pa.timestamp("us", "UTC")),
            "dims": [[0, 1], [], [2]],
            "lo": [[1.0, 2.0], [], [3.0]],
            "hi": [[], [], [4.0]],
            "weight": [[0.5, 0.5], [], []],
        }
    ).cast(EVENTS)
    (batch,) = table.to_batches()
    ids, _, events = read_events(batch.slice(1, 2))
    assert ids.tolist() == [2, 3]
    assert events.offsets.tolist() == [0, 0, 1]
    assert (events.lo.tolist(), events.hi.tolist(), events.weight.tolist()) == ([3.0], [4.0], [1.0])
    whole = read_events(batch).events
    assert (whole.hi.tolist(), whole.weight.tolist()) == ([1.0, 2.0, 4.0], [0.5, 0.5, 1.0])


def test_lists_of_unequal_length_are_refused() -> None:
    table = pa.table(
        {
            "id": [1],
            "until": pa.nulls(1, pa.timestamp("us", "UTC")),
            "dims": [[0, 1]],
            "lo": [[1.0]],
            "hi": [[]],
            "weight": [[]],
        }
    )
    with pytest.raises(SchemaError, match="column 'lo'"):
        read_events(table.cast(EVENTS).to_batches()[0])


def test_a_merge_equals_sorting_everything_whatever_the_batches() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        owner = np.sort(rng.integers(0, 6, 12))
        sizes = rng.integers(0, 5, 12)
        ids, scores = rng.integers(0, 8, sizes.sum()), rng.integers(0, 3, sizes.sum()).astype(float)
        scores = ids % 3 + 0.0 * scores  # copies of a subscription have one score
        lists = Matches(np.concatenate([[0], np.cumsum(sizes)]), ids, scores)
        truth = {}
        for event in np.unique(owner).tolist():
            hits = [
                (-lists.scores[i], int(lists.ids[i]))
                for p in np.flatnonzero(owner == event)
                for i in range(lists.offsets[p], lists.offsets[p + 1])
            ]
            truth[event] = [(id_, -score) for score, id_ in sorted(set(hits))[:3]]
        batch = write_ranked(owner, lists)
        parts = pa.Table.from_batches([batch]).to_batches(max_chunksize=int(rng.integers(1, 8)))
        found: dict[int, list[tuple[int, float]]] = {event: [] for event in truth}
        for out in Merging(3, copies=True, ranked=True)(parts):
            events, merged = read_ranked(out)
            for e, event in enumerate(events.tolist()):
                found[event] += [(int(i), float(s)) for i, s in zip(*merged.of(e), strict=True)]
        assert found == truth


def test_cutting_keeps_the_first_and_drops_copies() -> None:
    lists = Matches(np.array([0, 3, 3, 5]), np.array([4, 4, 1, 7, 8]), np.array([2.0, 2.0, 1.0, 0.5, 0.5]))
    kept = cut(lists, k=1, copies=True)
    assert kept.ids.tolist() == [4, 7]
    assert kept.offsets.tolist() == [0, 1, 1, 2]
    assert cut(lists, k=None, copies=True).ids.tolist() == [4, 1, 7, 8]
    assert gather(2, [], [], k=3, copies=False).offsets.tolist() == [0, 0, 0]


def test_arrays_of_columns_have_the_types_that_kernels_are_compiled_for() -> None:
    """A read-only array is another type to Numba: the first task of a machine would compile a kernel again."""
    world = a_world(seeded_dice(5), subscriptions=6, events=4)
    (events,), (subscriptions,) = event_table(world).to_batches(), subscription_table(world).to_batches()
    read, rows = read_events(events).events, read_subscriptions(subscriptions).rows
    assert list(map(numba.typeof, read)) == list(map(numba.typeof, world.event_arrays()))
    assert list(map(numba.typeof, rows)) == list(map(numba.typeof, world.rows()))
    assert read_events(events).ids.flags.writeable
    del subscriptions
    gc.collect()
    assert np.array_equal(rows.lo, world.rows().lo, equal_nan=True)  # the memory is kept
