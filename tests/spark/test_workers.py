"""What runs inside workers, without Spark: any small world, sharded any way, matched as the oracle says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchwood.errors import StorageError
from matchwood.spark import match_worker, shard_cache
from matchwood.spark.batches import SHARDED_SUBSCRIPTIONS, with_columns
from matchwood.spark.index_stage import Assigning, Building
from matchwood.spark.match_worker import Matching, RoutedMatching, Routing
from matchwood.spark.merge import Merging
from matchwood.spark.places import Place, place
from matchwood.spark.shard_cache import Release, check_shard, mapped_shard
from matchwood.spark.sharding import Sharding, centres, spatial, subscription_boxes
from matchwood.store import storage
from tests.spark.tables import Ranked, event_table, expected, subscription_table
from tests.worlds import World, a_world, seeded_dice, worlds


def built(world: World, sharding: Sharding, folder: str | Place, index: str = "scan") -> dict[int, Place]:
    """The folders of the shards of a world."""
    batches = subscription_table(world).to_batches()
    if sharding.kind == "space":
        batches = list(Assigning(sharding)(batches))
    else:
        batches = [
            with_columns([np.arange(batch.num_rows) % sharding.shards], batch, SHARDED_SUBSCRIPTIONS)
            for batch in batches
        ]
    made = [row for batch in Building(place(folder), index, {}, Release.here())(batches) for row in batch.to_pylist()]
    return {row["shard"]: place(folder) / row["folder"] for row in made}


def listed(batches: Any) -> Ranked:
    found: Ranked = {}
    for batch in batches:
        for row in batch.to_pylist():
            found.setdefault(row["event_id"], []).append((row["subscription_id"], row["score"]))
            assert row["rank"] == len(found[row["event_id"]])
    return found


def shardings(world: World) -> list[Sharding]:
    lon, lat = world.schema.find("place").dims
    places = centres(subscription_boxes(world.rows(), (lon, lat)))
    return [Sharding(), Sharding("hash", 3), spatial((lon, lat), *places, 3)]


@settings(max_examples=25)
@given(
    worlds(subscriptions=10, events=5),
    st.sampled_from([None, 1, 3]),
    st.sampled_from(["all", "any"]),
    st.integers(0, 2),
)
def test_any_world_is_matched_exactly_however_it_is_sharded(world: World, k: int | None, mode: str, which: int) -> None:
    sharding = shardings(world)[which]
    events = event_table(world).to_batches()
    truth = expected(world, k=k, mode=mode)
    with TemporaryDirectory() as folder:
        shards = built(world, sharding, folder)
        assert listed(Matching(shards, sharding, k, mode)(events)) == truth
        routed = list(Routing(sharding, mode, frozenset(shards))(events))
        lists = [batch for batch in RoutedMatching(shards, k, mode)(routed) if batch.num_rows]
        if lists:
            ordered = pa.Table.from_batches(lists).sort_by("event_id").to_batches(max_chunksize=4)
            assert listed(Merging(k, copies=sharding.kind == "space")(ordered)) == truth
        else:
            assert not truth


@pytest.mark.parametrize("index", ["vcr", "be-star-tree", "mo-tree"])
def test_every_index_serves_from_its_mapped_folder(index: str, tmp_path: Path) -> None:
    world = a_world(seeded_dice(6), 60, 30)
    shards = built(world, Sharding("hash", 2), str(tmp_path), index)
    matching = Matching(shards, Sharding("hash", 2), 3, "all")
    assert listed(matching(event_table(world).to_batches())) == expected(world, k=3)


def test_a_folder_is_mapped_once_by_a_process(tmp_path: Path) -> None:
    world = a_world(seeded_dice(7), 20, 5)
    (folder,) = built(world, Sharding(), str(tmp_path)).values()
    assert mapped_shard(folder) is mapped_shard(folder)
    assert not mapped_shard(folder).index.store.state.rows.flags.owndata  # a view of the mapped file


def test_a_worker_of_another_release_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(seeded_dice(7), 20, 5)
    batches = [
        with_columns([np.zeros(20)], batch, SHARDED_SUBSCRIPTIONS) for batch in subscription_table(world).to_batches()
    ]
    driver = Release.here()
    for module, name, other in ((storage, "VERSION", 999), (shard_cache, "__version__", "9.9")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, other)
            with pytest.raises(StorageError, match=rf"this worker runs .*{other}.*, the driver .*; install the same"):
                list(Building(place(tmp_path), "scan", {}, driver)(batches))
    assert list(tmp_path.iterdir()) == []


def test_a_driver_takes_no_shard_of_another_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(seeded_dice(7), 20, 5)
    (folder,) = built(world, Sharding(), str(tmp_path)).values()
    check_shard(folder, Release.here())
    with monkeypatch.context() as patched:
        patched.setattr(storage, "VERSION", storage.VERSION + 1)
        with pytest.raises(
            StorageError, match=r"driver cannot read a shard that a worker has saved: .*expected format version"
        ):
            check_shard(folder, Release.here())
    with pytest.raises(StorageError, match=r"saved this shard with matchwood .*, its driver runs matchwood 9\.9"):
        check_shard(folder, Release("9.9", storage.VERSION))


def test_cells_hold_about_equally_many_places() -> None:
    rng = np.random.default_rng(1)
    lon, lat = rng.normal(0, 1, 10_000), rng.normal(0, 3, 10_000)
    sharding = spatial((0, 1), lon, lat, 7)
    assert len(sharding.cells) == 7
    inside = [((lon >= w) & (lon < e) & (lat >= s) & (lat < n)).sum() for w, e, s, n in sharding.cells]
    assert sum(inside) == 10_000
    assert min(inside) > 1_000
    assert len(spatial((0, 1), np.zeros(50), np.zeros(50), 4).cells) == 1  # one place cannot be cut
    assert Sharding.from_json(sharding.to_json()) == sharding


@pytest.mark.parametrize("k", [None, 3])
def test_events_come_in_any_batches_and_leave_in_any_slices(
    k: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(seeded_dice(11), subscriptions=30, events=40)
    matching = Matching(built(world, Sharding(), str(tmp_path)), Sharding(), k, "all")
    monkeypatch.setattr(match_worker, "FIRST_SLICE", 2)
    monkeypatch.setattr(match_worker, "MAX_EVENTS", 12)
    monkeypatch.setattr(match_worker, "MAX_HITS", 9)
    for size, first in ((1, 12), (5, 10), (12, 12), (40, 40)):
        batches = event_table(world).to_batches(max_chunksize=size)
        assert next(match_worker.gathered(batches)).num_rows == first
        assert listed(matching(batches)) == expected(world, k=k, mode="all")


def test_a_worker_is_forked_with_everything_imported_and_nothing_to_collect() -> None:
    code = """
import gc, sys
from matchwood.spark.daemon import prepare
prepare()
assert len(gc.get_objects()) < gc.get_freeze_count() / 50, (len(gc.get_objects()), gc.get_freeze_count())
before = set(sys.modules)
from tests.worlds import a_world, seeded_dice
from matchwood.structures import make_index
world = a_world(seeded_dice(1), subscriptions=5, events=5)
index = make_index("scan")
index.insert(world.rows())
index.match(world.event_arrays())
late = [name for name in set(sys.modules) - before if name.split(".")[0] in ("numba", "pandas", "pyarrow")]
assert not late, late
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_worker_has_the_structure_of_its_shard_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(shard_cache, "compile_ahead", lambda names, check, **_: compiled.extend(names))
    world = a_world(seeded_dice(12), subscriptions=10, events=2)
    folders = built(world, Sharding(), str(tmp_path))
    assert compiled == ["scan"]
    shard_cache.MappedShard(next(iter(folders.values())))
    assert compiled == ["scan", "scan"]
