"""Versions appear whole or not at all, and stay while somebody reads them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from matchwood.errors import StorageError
from matchwood.spark import index_stage
from matchwood.spark.codebook import Codebook
from matchwood.spark.index_stage import Building, build_index, open_index
from matchwood.spark.lake import UNFINISHED_S, Lake, Manifest
from matchwood.spark.match_stage import match_events
from matchwood.spark.shard_cache import Release
from matchwood.store import storage
from tests.spark.tables import expected, frames, ranked
from tests.worlds import a_world, seeded_dice


def version_of(lake: Lake, name: str) -> int:
    with lake.new_version(name) as (version, folder):
        (folder / "data").write(b"")
        lake.publish(Manifest(name, version))
    return version


def test_a_version_without_a_manifest_is_not_there(lake: Lake) -> None:
    first = version_of(lake, "t")
    with pytest.raises(UnicodeDecodeError), lake.new_version("t") as (_, folder):
        (folder / "data").write(b"\xff") or (folder / "data").text()
    assert folder.names() == []
    abandoned = lake._claim("t")  # a writer that was killed: nobody tidied up
    assert (first, abandoned) == (1, 3)
    assert lake.latest("t") == 1
    with pytest.raises(StorageError, match="does not exist or was not published"):
        lake.manifest("t", abandoned)
    assert version_of(lake, "t") == 4
    assert lake.vacuum("t", keep=5) == []
    lake._claim_of("t", abandoned).write(json.dumps({"at": time.time() - UNFINISHED_S - 1}).encode())
    assert lake.vacuum("t", keep=5) == [abandoned]
    assert lake.versions("t") == [1, 4]


def test_a_writer_that_was_taken_for_dead_publishes_nothing(lake: Lake) -> None:
    with lake.new_version("t") as (version, folder):
        (folder / "data").write(b"")
        version_of(lake, "t")
        assert lake.vacuum("t", unfinished_s=-1.0) == [version]
        assert folder.names() == []
        with pytest.raises(StorageError, match="the claim was removed"):
            lake.publish(Manifest("t", version))
    assert lake.versions("t") == [2]


def test_a_leased_version_stays(lake: Lake) -> None:
    for _ in range(3):
        version_of(lake, "t")
    with lake.lease("t", 1):
        assert lake.vacuum("t", keep=1) == [2]
        assert lake.versions("t") == [1, 3]
    with lake.lease("t", 1, seconds=-1.0):
        assert lake.vacuum("t", keep=1) == [1]


def test_manifests_of_another_format_or_damaged_are_refused(lake: Lake) -> None:
    version_of(lake, "t")
    path = lake._manifest("t", 1)
    good = json.loads(path.text())
    for change, message in (({"format": 99}, "expected format 3, got 99"), ({"extra": 1}, "damaged")):
        path.write(json.dumps({**good, **change}).encode())
        with pytest.raises(StorageError, match=message):
            lake.manifest("t")
    path.write(b"{")
    with pytest.raises(StorageError, match="cannot be read"):
        lake.manifest("t")


def test_two_codebooks_of_one_version_are_refused(lake: Lake) -> None:
    lake.keep_codebook(Codebook.declare({"a": "number"}))
    with pytest.raises(StorageError, match="another codebook"):
        lake.keep_codebook(Codebook.declare({"b": "number"}))


def test_shards_of_workers_of_another_release_are_not_published(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriptions, _, codebook = frames(spark, a_world(seeded_dice(4), 30, 10))

    class Unaware(Building):
        """What a worker does that does not compare versions."""

        def __call__(self, batches: Any) -> Any:
            here = replace(self, release=Release.here())
            yield from Building.__call__(here, batches)

    with monkeypatch.context() as patched:  # of the driver alone
        patched.setattr(storage, "VERSION", 999)
        with pytest.raises(
            Exception, match=r"this worker runs .*, the driver .*format 999.*; install the same version"
        ):
            build_index(subscriptions, lake, codebook, index="scan")
        patched.setattr(index_stage, "Building", Unaware)
        with pytest.raises(StorageError, match="the driver cannot read a shard that a worker has saved"):
            build_index(subscriptions, lake, codebook, index="scan")
    assert lake.versions("index") == []
    assert build_index(subscriptions, lake, codebook, index="scan").version == 3  # no number is claimed twice


def test_a_build_that_dies_leaves_the_old_version_serving(spark: Any, lake: Lake) -> None:
    world = a_world(seeded_dice(4), 30, 10)
    subscriptions, events, codebook = frames(spark, world)
    build_index(subscriptions, lake, codebook)
    with pytest.raises(Exception, match="row_sizes"):
        build_index(
            subscriptions.selectExpr(
                "id", "priority", "until", "array(9) AS row_sizes", "dims", "kinds", "lo", "hi", "weight"
            ),
            lake,
            codebook,
        )
    assert lake.versions("index") == [1]
    assert ranked(match_events(events, open_index(lake), k=2)) == expected(world, k=2)
