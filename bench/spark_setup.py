"""What the parts of the Spark experiment share: sessions, tables and the index, each made when it is first used."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.report import Report
from bench.spark_world import DIMS, Shape, Sum, events, sum_here, write_event_table, write_subscription_table
from matchwood.encode.arrays import Events, Rows
from matchwood.schema import Schema
from matchwood.structures import Index

K = 10
INDEX = "mo-tree"
WORKLOAD = "6 intervals"


@dataclass
class Setup:
    """The report, a folder for everything that is written, and sizes by name."""

    report: Report
    folder: Path
    sizes: dict[str, int]
    lakes: dict[str, Any] = field(default_factory=dict)
    """The lakes that were made, by name."""
    _session: tuple[str, Any, float] | None = None
    _truths: dict[int | None, Sum] = field(default_factory=dict)

    def session(self, master: str = "local[2]") -> Any:
        """The session on that master; starting one ends the other."""
        from matchwood.spark.session import local_session

        if self._session is None or self._session[0] != master:
            self.end_session()
            options = {
                "spark.local.dir": str(self.folder / "local"),
                "spark.executor.memory": "1g",
                # The executors of a cluster need `bench.spark_world` for its checksums.
                "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parent.parent),
            }
            start = time.perf_counter()
            spark = local_session(master=master, memory="3g", partitions=4, options=options)
            spark.range(1).count()
            self._session = master, spark, time.perf_counter() - start
        return self._session[1]

    def end_session(self) -> None:
        """Stop the session, if there is one."""
        if self._session is not None:
            self._session[1].stop()
            self._session = None

    @property
    def session_start_s(self) -> float:
        """The seconds that the start of the current session took."""
        return 0.0 if self._session is None else self._session[2]

    @cached_property
    def rows(self) -> Rows:
        """The subscriptions."""
        return Shape().subscriptions(self.sizes["subscriptions"])

    @cached_property
    def events(self) -> Events:
        """The events."""
        return events(self.sizes["many"])

    @cached_property
    def lake(self) -> Any:
        """The lake of the index."""
        return self.new_lake("lake", {f"d{d}": "number" for d in range(DIMS)})

    @cached_property
    def index(self) -> Any:
        """The newest version of the index of the subscriptions."""
        return self.build()

    @cached_property
    def local_indexes(self) -> list[Index]:
        """The same index twice in this process, one for each thread."""
        return [opened(self.index) for _ in range(2)]

    def new_lake(self, name: str, schema: dict[str, str]) -> Any:
        """An empty lake with a closed schema."""
        from matchwood.spark.codebook import Codebook
        from matchwood.spark.lake import Lake

        lake = Lake(self.folder / name)
        lake.keep_codebook(Codebook.declare(Schema(schema, learn=False)))
        self.lakes[name] = lake
        return lake

    def build(self) -> Any:
        """Build and publish the index, and use it from now on."""
        from matchwood.spark.index_stage import build_index

        path = self.folder / "subscriptions"
        if not path.exists():
            write_subscription_table(self.rows, path)
        table = self.session().read.parquet(str(path))
        self.index = build_index(table, self.lake, self.lake.codebook(), index=INDEX)
        return self.index

    def event_table(self, spark: Any, n: int) -> Any:
        """A table of the first events, in two partitions if it is a part of them."""
        path = self.folder / "events"
        if not path.exists():
            write_event_table(self.events, path)
        table = spark.read.parquet(str(path))
        return table if n == self.events.size else table.filter(f"id < {n}").repartition(2).localCheckpoint()

    def truth(self, k: int | None) -> Sum:
        """The checksum of the matches of all events, computed in this process."""
        if k not in self._truths:
            self._truths[k] = sum_here(self.local_indexes[0], self.events, k)
        return self._truths[k]

    def match(self, table: Any, k: int | None) -> None:
        """Match a table of events and throw the matches away."""
        from matchwood.spark.match_stage import match_events

        drain(match_events(table, self.index, k=k))

    def row(
        self, system: str, metric: str, value: float, *, n: int | None = None, workload: str = WORKLOAD, **more: Any
    ) -> None:
        """Report a figure; n is the number of subscriptions unless given."""
        size = self.sizes["subscriptions"] if n is None else n
        self.report.row(workload=workload, system=system, n=size, metric=metric, value=value, **more)


def opened(version: Any) -> Index:
    """An index version of one shard, in this process."""
    from matchwood.structures import load_index

    (folder,) = version.paths().values()
    return load_index(Path(folder) / "index", verify=False)


def drain(table: Any) -> None:
    """Run a DataFrame and throw its records away."""
    table.write.format("noop").mode("overwrite").save()


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
