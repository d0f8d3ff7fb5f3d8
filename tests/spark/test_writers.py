"""Several writers of one lake: each finds its own version, and what they learn ends in one codebook."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, TypeVar

import pytest

from matchwood.errors import StorageError
from matchwood.schema import Schema
from matchwood.spark.codebook import Codebook
from matchwood.spark.index_stage import open_index
from matchwood.spark.lake import Lake, Manifest
from matchwood.spark.match_stage import match_events
from matchwood.spark.pipeline import index_table, ingest_table
from tests.spark.tables import ranked

ROUNDS = 100

T = TypeVar("T")


def at_once(task: Callable[[T], Any], items: Iterable[T]) -> list[Any]:
    """What the task returns for each of the items, done by a thread each, begun together; or the exception that it raised."""
    given = list(items)
    barrier = Barrier(len(given))
    results: list[Any] = [None] * len(given)

    def run(at: int, item: T) -> None:
        barrier.wait()
        try:
            results[at] = task(item)
        except Exception as error:
            results[at] = error

    threads = [Thread(target=run, args=item) for item in enumerate(given)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def strings(book: Codebook | None) -> list[str]:
    assert book is not None
    symbols = book.schema().find("s").symbols
    assert symbols is not None
    return list(symbols.codes)


def saying(book: Codebook, text: str) -> Codebook:
    """The codebook with one more string."""
    schema = book.schema()
    schema.key(schema.find("s"), text)
    return book.extended([schema])


def test_of_two_codebooks_of_one_version_one_is_stored(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        lake = Lake(tmp_path / str(number))
        books = [Codebook.declare({name: "number"}) for name in ("a", "b")]
        results = at_once(lake.keep_codebook, books)
        refused = [result for result in results if isinstance(result, StorageError)]
        assert len(refused) == 1, results
        assert "another codebook of version 1" in str(refused[0])
        assert lake.codebook() == books[0 if results[1] in refused else 1]
        assert (lake.root / "codebook").names() == ["v000001.json"]


def test_two_writers_who_learn_at_once_both_find_their_strings_in_what_is_stored(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.keep_codebook(Codebook.declare({"s": "string"}))
    for number in range(ROUNDS):
        newest = lake.codebook()
        assert newest is not None
        texts = [f"{writer}{number}" for writer in "AB"]
        stored = at_once(lake.merge_codebook, [saying(newest, text) for text in texts])
        assert {book.version for book in stored} == {newest.version + 1, newest.version + 2}
        assert all(text in strings(book) for text, book in zip(texts, stored, strict=True))
    assert_append_only(lake)
    assert sorted(strings(lake.codebook())) == sorted(f"{w}{n}" for w in "AB" for n in range(ROUNDS))


def test_the_first_codebooks_of_a_lake_are_merged_though_they_are_of_two_lineages(lake: Lake) -> None:
    first, second = Codebook.declare({"s": "string", "a": "number"}), Codebook.declare({"b": "number", "s": "string"})
    assert lake.merge_codebook(saying(first, "x")) == saying(first, "x")
    merged = lake.merge_codebook(saying(second, "y"))
    assert (merged.lineage, merged.version) == (first.lineage, first.version + 2)
    assert [attribute.name for attribute in merged.schema()] == ["s", "a", "b"]
    assert strings(merged) == ["x", "y"]
    assert lake.merge_codebook(merged) == merged


def test_a_closed_codebook_gains_strings_and_no_attributes() -> None:
    closed = Codebook.declare(Schema({"s": "string"}, learn=False))
    merged = closed.merged(saying(Codebook.declare({"s": "string", "other": "number"}), "x"))
    assert [attribute.name for attribute in merged.schema()] == ["s"]
    assert strings(merged) == ["x"]
    assert not merged.schema().learn


WRITER = """
import sys
from pathlib import Path
from matchwood.spark.lake import Lake
lake, name = Lake(sys.argv[1]), sys.argv[2]
(lake.root / f"ready-{name}").write(b"")
while sum(name.startswith("ready-") for name in lake.root.names()) < 2:
    pass
for number in range(int(sys.argv[3])):
    book = lake.codebook()
    schema = book.schema()
    schema.key(schema.find("s"), f"{name}{number}")
    assert f"{name}{number}" in lake.merge_codebook(book.extended([schema])).schema().find("s").symbols.codes
"""


def test_two_processes_never_give_one_code_to_two_strings(lake: Lake) -> None:
    lake.keep_codebook(Codebook.declare({"s": "string"}))
    command = [sys.executable, "-c", WRITER, str(lake.root)]
    writers = [subprocess.Popen([*command, name, str(ROUNDS)]) for name in "AB"]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert_append_only(lake)
    assert sorted(strings(lake.codebook())) == sorted(f"{w}{n}" for w in "AB" for n in range(ROUNDS))


def assert_append_only(lake: Lake) -> None:
    """Each version begins with the one before."""
    versions = range(1, (lake.codebook_version() or 0) + 1)
    books = [Codebook.from_json(json.loads(lake.codebook_path(version).text())) for version in versions]
    for before, after in pairwise(books):
        assert strings(after)[: len(strings(before))] == strings(before)


def test_two_writers_of_a_table_never_share_a_version(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        lake = Lake(tmp_path / str(number))

        def write(owner: str, lake: Lake = lake) -> int:
            with lake.new_version("t") as (version, _):
                return lake.publish(Manifest("t", version, {"owner": owner})).version

        versions = at_once(write, "AB")
        assert sorted(versions) == [1, 2]
        assert [lake.manifest("t", version).parameters["owner"] for version in versions] == ["A", "B"]


def test_a_version_is_published_once(lake: Lake) -> None:
    with lake.new_version("t") as (version, _):
        results = at_once(lake.publish, [Manifest("t", version, {"owner": owner}) for owner in "AB"])
        published = [result for result in results if isinstance(result, Manifest)]
        (refused,) = [result for result in results if isinstance(result, StorageError)]
        assert "published already" in str(refused)
        assert lake.manifest("t") == published[0]
    lake.vacuum("t", keep=0)
    with pytest.raises(StorageError, match="the claim was removed"):
        lake.publish(Manifest("t", version))


def test_a_number_is_never_claimed_twice_even_after_vacuum(lake: Lake) -> None:
    """A slow writer may still be at work under a number that vacuum has taken for dead, and readers remember numbers."""
    with lake.new_version("t") as (version, _):
        lake.publish(Manifest("t", version))
    assert lake.vacuum("t", keep=0) == [1]
    assert lake.vacuum("t", keep=0, unfinished_s=-1.0) == []
    slow = lake._claim("t")
    lake.vacuum("t", keep=0, unfinished_s=-1.0)
    assert lake._claim("t") == slow + 1


class Waiting(Lake):
    """A lake whose two writers both read the codebook before one stores another, and then store theirs at the same moment."""

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self._barriers = {"read": Barrier(2), "claim": Barrier(2)}

    def codebook(self) -> Codebook | None:
        found = super().codebook()
        self._meet("read")
        return found

    def _claim_codebook(self, codebook: Codebook) -> bool:
        self._meet("claim")
        return super()._claim_codebook(codebook)

    def _meet(self, where: str) -> None:
        """Wait for the other one, the first time."""
        barrier = self._barriers.get(where)
        if barrier is not None:
            barrier.wait(timeout=300)
            self._barriers.pop(where, None)


@pytest.mark.parametrize("began_empty", [True, False])
def test_two_ingests_at_once_leave_tables_that_match_their_own_strings_only(
    spark: Any, lake: Lake, began_empty: bool
) -> None:
    if not began_empty:
        lake.keep_codebook(Codebook.declare({"s": "string"}))
    ids = {name: range(100 * first, 100 * first + 5) for first, name in enumerate("AB")}
    tables = [
        spark.createDataFrame([(i, f"s = '{name}{i % 100}'") for i in ids[name]], "id bigint, expression string")
        for name in "AB"
    ]
    waiting = Waiting(lake.root)
    made = at_once(lambda raw: ingest_table(waiting, raw, "subscriptions"), tables)
    assert [manifest.counts for manifest in made] == [{"read": 5, "records": 5, "rejected": 0}] * 2
    stamps = [manifest.details["codebook"] for manifest in made]
    assert len({stamp["lineage"] for stamp in stamps}) == 1
    assert stamps[0]["version"] != stamps[1]["version"]
    events = [(number, text) for number, text in enumerate(["A3", "B3", "A0", "C3"])]
    ingest_table(lake, spark.createDataFrame(events, "id bigint, s string"), "events")
    for manifest, own in zip(made, "AB", strict=True):
        index_table(lake, spark, version=manifest.version, index="scan")
        found = ranked(match_events(lake.read(spark, "events"), open_index(lake)))
        assert found == {number: [(ids[own][int(text[1:])], 1.0)] for number, text in events if text.startswith(own)}
