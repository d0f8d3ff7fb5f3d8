"""Plain tables in one line: events against subscriptions, both as DataFrames, with the ids and columns that they have.

    match(events, subscriptions, k=10)                 the best subscriptions of each event
    match_subscriptions(subscriptions, events, k=10)   the best events of each subscription
    index_subscriptions(subscriptions)                 the index of these calls, to be used several times

An index is built when the function is called: subscriptions are read then, once to learn names and strings and once to encode.
Events are read when the result is. The index is stored in a temporary place, which is removed by `close`, or at the end of the
process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from pyspark.sql import Window
from pyspark.sql import functions as fn
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from matchwood.errors import QueryError, SchemaError, SubscriptionError
from matchwood.lang.evaluate import Mode, mode_of
from matchwood.lang.event import PLACE
from matchwood.schema import instant_key
from matchwood.schema.functions import is_of_elements
from matchwood.spark import columns, ingest
from matchwood.spark.codebook import Codebook
from matchwood.spark.direct_worker import ID, OWN, DirectMatching, Numbering, names_of
from matchwood.spark.index_stage import IndexVersion, build_index
from matchwood.spark.ingest_worker import Encoding
from matchwood.spark.jobs import described, warn_about_session
from matchwood.spark.lake import Lake
from matchwood.spark.match_worker import Matching, named_scoring
from matchwood.spark.places import Place, place
from matchwood.structures import Capability
from matchwood.structures.base import check_k

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from matchwood.schema import Schema

PATH = "spark.matchwood.path"
"""The setting of a session that names the place for temporary indexes."""
FORGOTTEN_S = 7 * 24 * 3600.0
"""Age in seconds at which a temporary index is assumed to belong to a dead process of another machine."""
SHOWN = 5
"""Bad records that an error shows."""
ENCODING_TASKS = 16
"""Tasks that encode subscriptions over Spark Connect, where the number of cores is not known."""
_OWN_COLUMNS = ("priority", "until", "lon", "lat", "radius")
_EVENT_COLUMNS = ("until", "weights")

_open: dict[str, SubscriptionIndex] = {}  # not weak: a lazy result needs its index longer than the caller does


class MatchOptions(TypedDict, total=False):
    """Options of all functions that match."""

    k: int | None
    """Only the k best; None for all matches."""
    mode: str
    at: datetime | str | None
    """What has expired at that instant is left out."""
    scoring: str
    """"sum", "max" or "priority", as in `Engine(scoring=...)`."""
    event_columns: Sequence[str]
    """Columns of the events that are added to the result."""
    errors: str
    """"raise" or "skip", for bad records."""


class BuildOptions(MatchOptions, total=False):
    """Options of functions that also build the index, if they are given a table: those of `index_subscriptions`."""

    subscription_columns: Sequence[str]
    schema: Schema | Mapping[str, str] | None
    path: str | os.PathLike[str] | Place | None
    index: str
    options: Mapping[str, Any] | None
    shards: int
    by: str
    place: str


class Subscribed(NamedTuple):
    """What the numbers of the subscriptions of an index stand for."""

    fields: Sequence[StructField]
    """The column of their ids, and those of the table that are added to results."""
    names: Place | None = None
    """The folder of these columns by number; None if the numbers are the ids."""


BY_NUMBER = (StructField("id", LongType(), False),)
"""The fields of subscriptions whose numbers are their ids."""


class SubscriptionIndex:
    """An index of a table of subscriptions, in a temporary place. A context manager: leaving it removes the index.

    DataFrames that were made by `match` can be used until then.
    """

    def __init__(self, index: IndexVersion, root: Place, fields: Sequence[StructField], rejected: int) -> None:
        self.index = index
        self.root = root
        self.rejected = rejected
        """The number of subscriptions that were left out."""
        self._subscribed = Subscribed(tuple(fields), root / "names")
        _open[str(root)] = self

    def match(self, events: DataFrame, *, id: str = "id", **options: Unpack[MatchOptions]) -> DataFrame:
        """(event_id, subscription_id, score, rank) and the chosen columns of every match, or of the k best of each event. Lazy.

        The result of a stream of events is a stream.
        """
        return matched(events, self.index, self._subscribed, id=id, **options)

    def match_subscriptions(self, events: DataFrame, *, id: str = "id", **options: Unpack[MatchOptions]) -> DataFrame:
        """The same, or the k best of each subscription: descending score, then ascending event id. Lazy.

        With `at` only events and subscriptions that are alive at that instant count.
        """
        k, at = options.pop("k", None), options.get("at")
        if k is not None:
            check_k(k)
        if at is not None and "until" in events.columns:
            instant = fn.timestamp_micros(fn.lit(int(instant_key(at))))
            events = events.filter(fn.col("until").isNull() | (fn.col("until").cast("timestamp") > instant))
        pairs = matched(events, self.index, self._subscribed, id=id, per_subscription=k, **options)
        order = Window.partitionBy("subscription_id").orderBy(fn.desc("score"), "event_id")
        ranked = pairs.withColumn("rank", fn.row_number().over(order))
        if k is not None:
            ranked = ranked.filter(fn.col("rank") <= k)
        return ranked.select("subscription_id", "event_id", "score", "rank", *pairs.columns[4:])

    def close(self) -> None:
        """Remove the index. Results that have not been computed yet fail afterwards."""
        self.root.remove()
        _open.pop(str(self.root), None)

    def __enter__(self) -> SubscriptionIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def index_subscriptions(
    subscriptions: DataFrame,
    *,
    id: str = "id",
    subscription_columns: Sequence[str] = (),
    schema: Schema | Mapping[str, str] | None = None,
    errors: str = "raise",
    path: str | os.PathLike[str] | Place | None = None,
    **build: Any,
) -> SubscriptionIndex:
    """Build an index of a table with an id of any type and conditions: a column `expression`, or columns `x_lo` and `x_hi`.

    The table may also have `priority`, `until`, and a place (`lon`, `lat`, `radius`); `subscription_columns` are columns for the
    result. `schema` declares types. With `errors="skip"` bad subscriptions are left out. `path` is where the index is stored: a
    path or URI that every machine can read; needed on a cluster, unless the session sets `spark.matchwood.path`. `build` holds
    options of `build_index`: index, options, shards, by, place. Runs jobs.
    """
    if errors not in ("raise", "skip"):
        raise QueryError(f"errors: expected 'raise' or 'skip', got {errors!r}")
    spark = subscriptions.sparkSession
    raw, form = _conditions(subscriptions, id, subscription_columns)
    learnt = raw.drop(ID, *(f"{OWN}{name}" for name in subscription_columns))
    learnt = learnt.withColumn("id", fn.monotonically_increasing_id())
    warn_about_session(spark)
    with described(spark, "learn names and strings of subscriptions"):
        codebook = ingest.learn(learnt, Codebook.declare(schema), "subscriptions", form=form)
    own = codebook.schema()
    own.learn = False
    fields = [subscriptions.schema[name] for name in (id, *subscription_columns)]
    root = temporary_place(spark, path)
    try:
        numbering = Numbering(Encoding("subscriptions", json.dumps(own.to_json()), form), root / "names")
        spread = raw.repartitionByRange(_tasks(spark), ID).sortWithinPartitions(ID)
        encoded = codebook.mark(spread.mapInArrow(numbering, columns.ENCODED_SUBSCRIPTIONS)).persist()
        try:
            with described(spark, "encode subscriptions"):
                rejected = _check_rejects(encoded, root / "names", errors)
            good = encoded.filter(fn.col("reason").isNull()).select(*columns.SUBSCRIPTIONS.names)
            index = build_index(codebook.mark(good), Lake(root), codebook, **build)
        finally:
            encoded.unpersist()
    except BaseException:
        root.remove()
        raise
    return SubscriptionIndex(index, root, fields, rejected)


def match(
    events: DataFrame,
    subscriptions: DataFrame | SubscriptionIndex | IndexVersion,
    *,
    ids: tuple[str, str] = ("id", "id"),
    **options: Unpack[BuildOptions],
) -> DataFrame:
    """(event_id, subscription_id, score, rank) of every match, or of the k best subscriptions of each event. Lazy.

    `events` has a column for each attribute, or `lon` and `lat` for a place; columns that no subscription names are ignored, and
    an attribute without a column is absent. `subscriptions` is a table as in `index_subscriptions`, or an index. `ids` are the
    names of the columns of ids, of any type, of events and subscriptions. The options are `k`, `mode`, `at` (subscriptions that
    have expired at that instant are left out), `scoring` (a name, as in `Engine(scoring=...)`), `event_columns` and
    `subscription_columns` (columns for the result), `errors` ("raise" or "skip", for bad records of both tables), and those of
    `index_subscriptions`. The index of a table is built now and removed when the process ends.
    """
    if isinstance(subscriptions, IndexVersion):
        query, build = _divided(options)
        _check_built(build)
        return matched(events, subscriptions, Subscribed(BY_NUMBER), id=ids[0], **query)
    index, query = _index_and_options(subscriptions, ids[1], options)
    return index.match(events, id=ids[0], **query)


def match_subscriptions(
    subscriptions: DataFrame | SubscriptionIndex,
    events: DataFrame,
    *,
    ids: tuple[str, str] = ("id", "id"),
    **options: Unpack[BuildOptions],
) -> DataFrame:
    """(subscription_id, event_id, score, rank) of every match, or of the k best events of each subscription. Lazy.

    The reverse of `match`, with the same options; `ids` are the columns of ids of subscriptions and events. With `at` only events
    (`until`) and subscriptions that are alive at that instant count.
    """
    index, query = _index_and_options(subscriptions, ids[0], options)
    return index.match_subscriptions(events, id=ids[1], **query)


def matched(
    events: DataFrame,
    index: IndexVersion,
    subscribed: Subscribed,
    *,
    id: str = "id",
    per_subscription: int | None = None,
    **options: Unpack[MatchOptions],
) -> DataFrame:
    """Raw events against an index. With `per_subscription` only the best k of each subscription in a batch. Lazy."""
    matching = _matching(index, options)
    events = _with_place(events, index.codebook)
    wanted = tuple(options.get("event_columns", ()))
    used = used_columns(events.schema, index.codebook, id, wanted)
    result = result_columns(events.schema, subscribed.fields, id, wanted)
    skip = options.get("errors", "raise") == "skip"
    direct = DirectMatching(
        matching, index.codebook.content, id, wanted, subscribed.names, columns.arrow_schema(result), per_subscription, skip
    )  # fmt: skip
    return events.select(*used).mapInArrow(direct, result)


def _matching(index: IndexVersion, options: MatchOptions) -> Matching:
    """The query for the workers. Raises if the index cannot answer it."""
    k, mode, at = options.get("k"), mode_of(options.get("mode", "all")), options.get("at")
    if k is not None:
        check_k(k)
        index.demand(Capability.TOP_K)
    if mode is Mode.ANY:
        index.demand(Capability.ANY)
    instant = None if at is None else instant_key(at)
    scoring = named_scoring(options.get("scoring", "sum"))
    return Matching(index.paths(), index.sharding, k, str(mode), instant, scoring=scoring)


def close_all() -> None:
    """Remove all temporary indexes of this process; results that have not been computed yet fail afterwards."""
    for index in list(_open.values()):
        index.close()


def _close_at_exit() -> None:
    """Remove what can be removed; what cannot is removed later, by another process (`_remove_forgotten`)."""
    for index in list(_open.values()):
        with contextlib.suppress(Exception):
            index.close()


atexit.register(_close_at_exit)


def temporary_place(spark: SparkSession, path: str | os.PathLike[str] | Place | None) -> Place:
    """A new place for an index: under `path`, the setting `spark.matchwood.path`, or, on one machine, its temporary folder."""
    chosen = path or spark.conf.get(PATH, None)
    if chosen is None:
        master = spark.conf.get("spark.master", "local")
        if not str(master).startswith("local"):
            raise QueryError(
                f"the executors of {master} cannot read the temporary files of the driver; pass path=, a folder or URI "
                f"that all of them can read, or set {PATH}"
            )
        chosen = os.path.join(tempfile.gettempdir(), f"matchwood-{os.getuid()}")
    parent = chosen if isinstance(chosen, Place) else place(chosen, "path")
    _remove_forgotten(parent)
    root = parent / f"temporary-{uuid.uuid4().hex}"
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "at": time.time()}
    (root / "owner.json").write(json.dumps(owner).encode())
    return root


def _remove_forgotten(parent: Place) -> None:
    """Remove the temporary indexes of processes that were killed."""
    for name in parent.names():
        if not name.startswith("temporary-"):
            continue
        try:
            owner = json.loads((parent / name / "owner.json").text())
            is_ours = owner["host"] == socket.gethostname()
            is_dead = is_ours and not os.path.exists(f"/proc/{owner['pid']}") and os.path.exists("/proc/self")
            if is_dead or time.time() - owner["at"] > FORGOTTEN_S:
                (parent / name).remove()
        except (OSError, ValueError, KeyError):
            continue


def _index_and_options(
    subscriptions: DataFrame | SubscriptionIndex, id: str, options: BuildOptions
) -> tuple[SubscriptionIndex, MatchOptions]:
    """The index, built if it is not given, and the options of the match."""
    query, build = _divided(options)
    if isinstance(subscriptions, SubscriptionIndex):
        _check_built(build)
        return subscriptions, query
    return index_subscriptions(subscriptions, id=id, errors=query.get("errors", "raise"), **build), query


def _divided(options: BuildOptions) -> tuple[MatchOptions, dict[str, Any]]:
    """The options of the match, and those of building the index."""
    query: Any = {name: value for name, value in options.items() if name in MatchOptions.__annotations__}
    return query, {name: value for name, value in options.items() if name not in query}


def _check_built(build: Mapping[str, Any]) -> None:
    if build:
        raise QueryError(f"{', '.join(build)}: the index is built already; pass this to index_subscriptions")


def _conditions(subscriptions: DataFrame, id: str, wanted: Sequence[str]) -> tuple[DataFrame, str | None]:
    """The table as it is encoded, with its ids and the wanted columns under names of their own, and its form."""
    for name in (id, *wanted):
        if name not in subscriptions.columns:
            raise SchemaError(
                f"subscriptions: column {name!r} is missing; found {', '.join(subscriptions.columns) or 'no columns'}"
            )
    kept = [fn.col(name).alias(f"{OWN}{name}") for name in wanted]
    if "expression" in subscriptions.columns:
        used = [name for name in ("expression", *_OWN_COLUMNS) if name in subscriptions.columns and name != id]
        return subscriptions.select(fn.col(id).alias(ID), *kept, *used), "text"
    conditions = [name for name in subscriptions.columns if name != id and (name not in wanted or name in _OWN_COLUMNS)]
    return subscriptions.select(fn.col(id).alias(ID), *kept, *conditions), None


def _check_rejects(encoded: DataFrame, names: Place, errors: str) -> int:
    """The number of bad subscriptions; raises if they are errors. Computes the table."""
    bad = encoded.filter(fn.col("reason").isNotNull()).select("id", "reason")
    shown = bad.limit(SHOWN).collect()
    if not shown:
        return 0
    count = bad.count()
    if errors == "skip":
        return int(count)
    ids = names_of(names)
    listed = "; ".join(f"{ids.id_of(row['id'])!r}: {row['reason']}" for row in shown)
    raise SubscriptionError(
        f"{count} bad subscriptions, among them {listed}; correct them, or leave them out with errors='skip'"
    )


def used_columns(events: StructType, codebook: Codebook, id: str, wanted: Sequence[str]) -> list[str]:
    """The columns of events that matter: the id, the wanted ones, and attributes. One that cannot be used raises."""
    for name in (id, *wanted):
        if name not in events.names:
            raise SchemaError(f"events: column {name!r} is missing; found {', '.join(events.names) or 'no columns'}")
    known = {name for name in codebook.schema().attributes if not is_of_elements(name)}
    roots = {name.partition(".")[0] for name in known}  # of nested columns
    attributes = [name for name in events.names if name in known or name in roots]
    if known and not attributes:
        raise SchemaError(
            f"events: no column is an attribute of the subscriptions, which are {', '.join(sorted(known))}; "
            f"found {', '.join(events.names)}"
        )
    used = [*attributes, *(name for name in _EVENT_COLUMNS if name in events.names)]
    ingest.check_event_columns(StructType([events[name] for name in used]), codebook)
    return list(dict.fromkeys([id, *wanted, *used]))


def _with_place(events: DataFrame, codebook: Codebook) -> DataFrame:
    """The events with a column `place` if they have `lon` and `lat` and subscriptions name a place."""
    if PLACE not in codebook.schema() or PLACE in events.columns or not {"lon", "lat"} <= {*events.columns}:
        return events
    coordinates = (fn.col(name).cast("double").alias(name) for name in ("lon", "lat"))
    return events.withColumn(PLACE, fn.struct(*coordinates))


def result_columns(events: StructType, fields: Sequence[StructField], id: str, wanted: Sequence[str]) -> StructType:
    """The columns of matches: ids, score, rank, and the wanted columns of both sides."""
    heads = [
        StructField("event_id", events[id].dataType, True),
        StructField("subscription_id", fields[0].dataType, True),
        StructField("score", DoubleType(), False),
        StructField("rank", IntegerType(), False),
    ]
    rest = [
        StructField(field.name, field.dataType, True) for field in (*(events[name] for name in wanted), *fields[1:])
    ]
    names = [field.name for field in (*heads, *rest)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"column {', '.join(twice)}: would be in the result twice; rename it in one of the tables")
    return StructType([*heads, *rest])


def _tasks(spark: SparkSession) -> int:
    """The number of tasks that encode subscriptions."""
    context = getattr(spark, "_sc", None)
    return ENCODING_TASKS if context is None else max(int(context.defaultParallelism), 1)
