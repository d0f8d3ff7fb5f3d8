"""Tables that reach the end of float64."""

from __future__ import annotations

import math
import sys

import pyarrow as pa
import pytest

from matchwood import Engine
from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.subscription_tables import encode_subscription_table


@pytest.mark.parametrize("beside", [5.0, math.inf])
def test_lists_may_hold_the_largest_number(beside: float) -> None:
    engine = Engine({"x": "number"})
    engine.subscribe_many([f"x = {sys.float_info.max!r}", "x = INF", "x = 5"])
    column = pa.array([[sys.float_info.max, beside], [1.0]], pa.list_(pa.float64()))
    found = engine.match_many(encode_event_table(pa.table({"x": column}), engine.schema).events)
    assert found.of(0)[0].tolist() == [0, 1 if beside == math.inf else 2]
    assert found.of(1)[0].tolist() == []


def test_subscriptions_may_ask_for_the_largest_number_beside_a_bool() -> None:
    engine = Engine({"x": "number", "vip": "bool"})
    conditions = [{"attribute": "x", "value": sys.float_info.max}, {"attribute": "vip", "value": 1.0}]
    table = pa.table({"id": [1, 2], "predicates": [conditions, conditions[:1]]})
    engine.subscribe_rows(encode_subscription_table(table, engine.schema).rows)
    assert [m.id for m in engine.match({"x": sys.float_info.max, "vip": True})] == [1, 2]
