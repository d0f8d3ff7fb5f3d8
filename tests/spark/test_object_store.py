"""A lake in an object store: what holds on a local file system holds on S3, served by moto."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("moto", reason="moto is not installed; it serves S3")
pytest.importorskip("s3fs", reason="s3fs is not installed; `pip install matchwood[objectstore]`")

from matchwood.errors import StorageError
from matchwood.spark import close_all, match, shard_cache, shard_files
from matchwood.spark.codebook import Codebook
from matchwood.spark.lake import Lake, Manifest
from matchwood.spark.match_worker import Matching
from matchwood.spark.places import Place, place
from matchwood.spark.shard_cache import mapped_shard
from matchwood.spark.shard_files import opened_folder
from matchwood.spark.sharding import Sharding
from tests.spark.s3_server import BUCKET, s3_server
from tests.spark.tables import event_table, expected
from tests.spark.test_direct import engine_of, frames, values, world
from tests.spark.test_workers import built, listed
from tests.spark.test_writers import at_once, saying, strings
from tests.worlds import a_world, seeded_dice

ROUNDS = 6


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, Any]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def bucket(storage: dict[str, Any]) -> Place:
    return place(f"s3a://{BUCKET}/{uuid4().hex}", storage=storage)


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(tmp_path / "root") if request.param == "local" else request.getfixturevalue("bucket")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(shard_files.CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(shard_cache, "_mapped", type(shard_cache._mapped)())
    return tmp_path / "cache"


def test_every_place_reads_what_was_written_and_creates_once(root: Place, tmp_path: Path) -> None:
    file = root / "a" / "b.json"
    assert not file.exists()
    assert root.names() == []
    with pytest.raises(FileNotFoundError):
        file.read()
    assert file.create(b"first")
    assert not file.create(b"second")
    assert file.read() == b"first"
    file.write(b"third")
    assert file.text() == "third"
    (root / "a" / "c").write(b"")
    assert (root / "a").names() == ["b.json", "c"]
    assert root.names() == ["a"]
    assert not (root / "a").exists()  # a folder is no file
    (tmp_path / "up" / "in").mkdir(parents=True)
    (tmp_path / "up" / "x").write_bytes(b"1")
    (tmp_path / "up" / "in" / "y").write_bytes(b"2")
    (root / "tree").upload(tmp_path / "up")
    (root / "tree").download(tmp_path / "down")
    assert (tmp_path / "down" / "x").read_bytes() + (tmp_path / "down" / "in" / "y").read_bytes() == b"12"
    (root / "a").remove()
    (root / "a").remove()
    file.remove()
    assert (root / "a").names() == []
    assert root.names() == ["tree"]


def test_of_writers_at_once_one_creates(root: Place) -> None:
    for number in range(ROUNDS):
        file = root / f"{number}.json"
        made = at_once(file.create, [writer.encode() for writer in "abcd"])
        assert sorted(made) == [False, False, False, True]
        assert file.text() == "abcd"[made.index(True)]


def test_writers_of_a_lake_on_s3_never_share_a_version_and_vacuum_keeps_the_newest(bucket: Place) -> None:
    lake = Lake(bucket)

    def write(owner: str) -> int:
        with lake.new_version("t") as (version, folder):
            (folder / "data").write(owner.encode())
            return lake.publish(Manifest("t", version, {"owner": owner})).version

    versions = at_once(write, "ABCD")
    assert sorted(versions) == lake.versions("t") == [1, 2, 3, 4]
    assert [lake.manifest("t", version).parameters["owner"] for version in versions] == list("ABCD")
    with lake.lease("t", 2):
        assert lake.vacuum("t", keep=1) == [1, 3]
    assert lake.vacuum("t", keep=1) == [2]
    assert (lake.folder("t", 4) / "data").exists()
    assert (lake.root / "t").names() == ["_claims", "_versions", "v000004"]


def test_codebooks_of_writers_at_once_are_merged_on_s3(bucket: Place) -> None:
    lake = Lake(bucket)
    lake.keep_codebook(Codebook.declare({"s": "string"}))
    for number in range(ROUNDS):
        newest = lake.codebook()
        assert newest is not None
        texts = [f"{writer}{number}" for writer in "ABC"]
        stored = at_once(lake.merge_codebook, [saying(newest, text) for text in texts])
        assert all(text in strings(book) for text, book in zip(texts, stored, strict=True))
    assert sorted(strings(lake.codebook())) == sorted(f"{w}{n}" for w in "ABC" for n in range(ROUNDS))


def test_a_shard_is_downloaded_once_and_then_mapped(
    bucket: Place, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = a_world(seeded_dice(7), 40, 20)
    shards = built(a, Sharding("hash", 2), bucket)
    downloads: list[str] = []
    kind = type(bucket)
    download = kind.download

    def counted(self: Place, folder: Path) -> None:
        downloads.append(str(self))
        download(self, folder)

    monkeypatch.setattr(kind, "download", counted)
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda _: [opened_folder(shard).__enter__() for shard in shards.values()], range(4)):
            pass
    matching = Matching(shards, Sharding("hash", 2), 3, "all")
    assert listed(matching(event_table(a).to_batches())) == expected(a, k=3)
    assert sorted(downloads) == sorted(map(str, shards.values()))
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 2
    assert not mapped_shard(shards[0]).index.store.state.rows.flags.owndata


def test_a_damaged_shard_is_refused_and_not_cached(bucket: Place, cache: Path) -> None:
    (shard,) = built(a_world(seeded_dice(7), 40, 20), Sharding(), bucket).values()
    victim = shard / "index" / next(name for name in (shard / "index").names() if name.endswith(".npy"))
    content = bytearray(victim.read())
    content[-1] ^= 1
    victim.write(bytes(content))
    with pytest.raises(StorageError, match=r"the shard is damaged: .*the file is damaged or foreign"):
        mapped_shard(shard)
    assert [path for path in cache.iterdir() if path.is_dir()] == []
    shard.remove()
    with pytest.raises(StorageError, match="the version was removed"):
        mapped_shard(shard)


def test_the_cache_lets_go_of_the_shards_opened_longest_ago(
    bucket: Place, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = a_world(seeded_dice(7), 40, 20)
    shards = built(a, Sharding("hash", 3), bucket)
    matching = Matching(shards, Sharding("hash", 3), 3, "all")
    assert listed(matching(event_table(a).to_batches())) == expected(a, k=3)
    one = max(shard_files.folder_bytes(path) for path in cache.iterdir() if path.is_dir())
    assert len(shard_files.evict(limit=2 * one)) == 1
    with opened_folder(shards[2]):
        assert len(shard_files.evict(limit=1)) == 1  # the newest stays
    assert listed(matching(event_table(a).to_batches())) == expected(a, k=3)  # what is mapped stays usable
    monkeypatch.setattr(shard_cache, "_mapped", type(shard_cache._mapped)())
    monkeypatch.setenv(shard_files.CACHE_BYTES, str(one))
    assert listed(matching(event_table(a).to_batches())) == expected(a, k=3)
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 1


WORKER = """
import sys
from matchwood.spark.places import place
from matchwood.spark.shard_cache import mapped_shard
from matchwood.spark.places import RemotePlace
taken = []
download = RemotePlace.download
RemotePlace.download = lambda self, folder: (taken.append(1), download(self, folder))
mapped_shard(place(sys.argv[1], storage=eval(sys.argv[2])))
print(len(taken))
"""


def test_one_process_of_a_machine_downloads_a_shard(bucket: Place, cache: Path, storage: dict[str, Any]) -> None:
    (shard,) = built(a_world(seeded_dice(7), 40, 20), Sharding(), bucket).values()
    command = [sys.executable, "-c", WORKER, str(shard), repr(storage)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(worker.communicate(timeout=120)[0].strip() for worker in workers) == ["0", "1"]


def test_plain_tables_are_matched_through_an_index_on_s3(spark: Any, bucket: Place) -> None:
    subscriptions, events = world(random.Random(8))
    engine, names = engine_of(subscriptions)
    wanted = {(e["day"], names[hit.id], hit.score) for e in events for hit in engine.top_k(values(e), 3)}
    table, arriving = frames(spark, subscriptions, events)
    found = match(arriving, table, k=3, ids=("day", "name"), path=bucket, shards=2, by="hash", index="scan")
    assert {tuple(row)[:3] for row in found.collect()} == wanted
    close_all()
    assert bucket.names() == []
