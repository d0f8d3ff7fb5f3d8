"""Where a lake may lie: any folder, by path or `file:` URI, whatever characters its name has; nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchwood.spark.streaming
from matchwood.cli.main import main
from matchwood.errors import QueryError, UnsupportedError
from matchwood.spark import ingest
from matchwood.spark.changes import compact
from matchwood.spark.lake import Lake
from matchwood.spark.paths import raw_input
from matchwood.spark.pipeline import index_table, ingest_table, match_table
from matchwood.spark.streaming import MatchStream
from matchwood.store.locations import local_path
from tests.spark.stream_world import put
from tests.spark.tables import ranked

ODD = "[a-z] {b,c}, *d? 100% #e\\f"
"""A folder's name of characters that mean something in a pattern or in a URI."""
UNKNOWN = ["ftp://host/lake", "hdfs:/lake", "dbfs:/lake", "HTTPS://x/y"]


@pytest.mark.parametrize("place", UNKNOWN)
def test_a_lake_of_an_unknown_scheme_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match=f"lake: expected a path, or a URI of file, s3a, .* got '{place}'"):
        Lake(place)
    with pytest.raises(UnsupportedError, match="pass it as a string"):
        Lake(Path("s3a://bucket/lake"))
    with pytest.raises(UnsupportedError, match="needs the address of WebHDFS"):
        Lake("hdfs://host:9000/lake")
    for arguments in (["ingest", place, "events", "x.csv"], ["vacuum", place, "index"], ["stream", place, "in"]):
        assert main(["spark", *arguments]) == 2
        assert f"got '{place}'" in capsys.readouterr().err
    assert main(["demo", "--out", place]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_uri_is_the_path_that_it_names(tmp_path: Path) -> None:
    folder = tmp_path / ODD
    for uri in (
        folder.as_uri(),
        folder.as_uri().replace("file:///", "file:/"),
        f"file://localhost{tmp_path}/x/../lake",
    ):
        assert Lake(uri).root.name in (ODD, "lake")
        assert "file:" not in str(Lake(uri).root)
    assert str(Lake(folder.as_uri()).root) == str(folder)
    assert str(Lake(Path(f"file://{tmp_path}")).root) == str(tmp_path)
    with pytest.raises(UnsupportedError, match="the host 'elsewhere'"):
        Lake("file://elsewhere/lake")
    assert local_path("C:/lake", "lake").name == "lake"
    assert str(Lake(tmp_path / "odd:name").root) == str(tmp_path / "odd:name")


def test_names_are_single_folders(lake: Lake) -> None:
    for name in ("", "..", "a/b", "/abs", "s3a://bucket/t"):
        with pytest.raises(QueryError, match="expected a table name"):
            lake.latest(name)
        with pytest.raises(QueryError, match="expected a stream name"):
            MatchStream(lake, name)


def test_raw_input_is_what_has_the_name_or_else_a_pattern_or_uri(tmp_path: Path) -> None:
    (tmp_path / "f[1].csv").touch()
    assert raw_input(tmp_path / "f[1].csv") == f"{tmp_path}/f\\[1\\].csv"
    assert raw_input((tmp_path / "f[1].csv").as_uri()) == f"file://{tmp_path}/f\\[1\\].csv"
    for pattern in (f"{tmp_path}/f[12].csv", f"file://{tmp_path}/*.csv", "s3a://bucket/*.csv", "plain.csv"):
        assert raw_input(pattern) == pattern
    with pytest.raises(UnsupportedError, match="pass it as a string"):
        raw_input(Path("s3a://bucket/x.csv"))


def test_everything_works_in_a_folder_of_any_name(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matchwood.spark.streaming, "CLEAN_EVERY", 1)  # so that live events are folded on the way
    home = tmp_path / ODD
    home.mkdir()
    lake = Lake((home / "lake").as_uri())
    (home / "s[1].csv").write_text("id,expression\n1,price < 10\n2,price < 20\n")
    raw, form = ingest.read_raw(spark, home / "s[1].csv")
    ingest_table(lake, raw, "subscriptions", form=form)
    pq.write_table(pa.table({"id": [1, 2], "price": [5.0, 15.0]}), home / "e*.parquet")
    raw, form = ingest.read_raw(spark, (home / "e*.parquet").as_uri())
    ingest_table(lake, raw, "events", form=form)
    index_table(lake, spark, index="scan", shards=2)
    match_table(lake, spark)
    assert {event: [id_ for id_, _ in hits] for event, hits in ranked(lake.read(spark, "matches")).items()} == {
        1: [1, 2],
        2: [2],
    }

    stream = MatchStream(lake, "s [1]")
    arriving, changing = (
        spark.readStream.text(raw_input(home / name)) for name in ("in", "changes") if not (home / name).mkdir()
    )
    for number in range(3):
        put(
            home / "in",
            f"{number}.json",
            [{"id": number, "values": {"price": 5}, "until": "2100-01-01"}, {"values": {}}],
        )
        put(home / "changes", f"{number}.json", [{"op": "subscribe", "id": 10 + number, "expression": "price = 5"}])
        stream.start(arriving, home / "checkpoint", changes=changing, availableNow=True).awaitTermination()
    found = {(row["event_id"], row["subscription_id"]) for row in stream.matches(spark).collect()}
    assert found == {(event, id_) for event in range(3) for id_ in (1, 2, 10, 11, 12)}
    assert stream.rejects(spark).count() == 3
    assert compact(spark, lake, "s [1]", upto=2).counts["subscriptions"] == 5
    assert {path.name for path in home.iterdir()} == {"lake", "s[1].csv", "e*.parquet", "in", "changes", "checkpoint"}
    assert [path.name for path in tmp_path.iterdir()] == [ODD]
