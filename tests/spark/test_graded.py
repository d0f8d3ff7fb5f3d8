"""Graded predicates on Spark: the scores of the engine, in one line and by its stages' worker of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

from matchwood import Engine
from matchwood.encode.arrays import GRADE
from matchwood.encode.objects import RowsBuilder
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from matchwood.spark import match
from matchwood.spark.weigh import _share_with_grades

TEXTS = [
    "price <= 300 ^2 DECAY(LINEAR, ORIGIN 100, SCALE 200)",
    "price <= 900 ^2 DECAY(GAUSS, ORIGIN 120, SCALE 70) AND size > 1",
    "DWITHIN(place, POINT(10 50), 5 km) ^3 DECAY(EXP, SCALE 1 km)",
]


def test_a_line_of_spark_gives_the_scores_of_the_engine(spark: Any) -> None:
    engine = Engine()
    engine.subscribe_many(TEXTS)
    values = [{"price": 40.0 * i, "size": i % 3, "place": {"lon": 10 + i / 500, "lat": 50.0}} for i in range(12)]
    expected = [[(m.id, m.score) for m in engine.top_k(event, 2)] for event in values]
    columns = "id long, price double, size long, place struct<lon: double, lat: double>"
    events = spark.createDataFrame([(i, *event.values()) for i, event in enumerate(values)], columns)
    subscriptions = spark.createDataFrame(list(enumerate(TEXTS)), "id long, expression string")
    found: list[list[tuple[int, float]]] = [[] for _ in values]
    for row in sorted(match(events, subscriptions, k=2).collect(), key=lambda row: row["rank"]):
        found[row["event_id"]].append((row["subscription_id"], row["score"]))
    assert found == expected


def test_new_weights_are_shared_by_a_predicate_and_its_grades() -> None:
    schema = Schema()
    builder = RowsBuilder(schema)
    builder.add(0, 0.0, normalise(parse("x > 1 ^1 AND x < 9 ^3 DECAY(LINEAR, ORIGIN 1, SCALE 8) AND y = 1"), schema))
    rows = builder.build()
    weight = rows.weight.copy()
    heads = np.flatnonzero(rows.kinds == 0)
    weight[heads] = 2.0
    _share_with_grades(rows, heads, weight)
    assert weight[heads].tolist() == [0.5, 2.0]
    assert weight[rows.kinds == GRADE].tolist() == [1.5]
