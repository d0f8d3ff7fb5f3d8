"""Covers found in groups are those of the plain rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchwood.covering.exact import covers
from matchwood.spark.cover import Covering, SignatureGroups, SpaceGroups, cover, reduced
from matchwood.spark.index_stage import build_index
from matchwood.spark.lake import Lake
from matchwood.spark.match_stage import match_events
from matchwood.spark.sharding import centres, spatial, subscription_boxes
from tests.spark.tables import expected as matched
from tests.spark.tables import frames, ranked, subscription_table
from tests.worlds import World, a_world, seeded_dice


@pytest.fixture(scope="module")
def world() -> World:
    return a_world(seeded_dice(8), 120, 20)


def truth(world: World) -> dict[int, set[int]]:
    """For each covered subscription, all that cover it; of equals those of smaller id."""
    rows = {id_: rows for id_, (_, _, rows) in world.subscriptions.items()}
    found: dict[int, set[int]] = {}
    for a, wide in rows.items():
        for b, narrow in rows.items():
            if a != b and covers(wide, narrow) and (a < b or not covers(narrow, wide)):
                found.setdefault(b, set()).add(a)
    return found


@pytest.mark.parametrize("by", ["space", "signature"])
def test_each_group_knows_every_cover_of_those_that_ask_in_it(world: World, by: str) -> None:
    (batch,) = subscription_table(world).to_batches()
    if by == "space":
        dims = world.schema.find("place").dims
        boxes = subscription_boxes(world.rows(), (dims[0], dims[1]))
        grouping: Any = SpaceGroups(spatial((dims[0], dims[1]), *centres(boxes), 3))
    else:
        uses = np.bincount(world.rows().dims)
        grouping = SignatureGroups(dict(enumerate(uses.tolist())), 3)
    grouped = list(grouping([batch]))
    found: dict[int, int] = {}
    for part in Covering()(grouped):
        found.update({row["id"]: row["cover"] for row in part.to_pylist()})
    expected = truth(world)
    assert set(found) == set(expected)
    assert all(found[id_] in expected[id_] for id_ in found)


def test_covers_on_spark_lead_to_roots_and_matches_of_the_covered_are_still_reported(
    spark: Any, lake: Lake, world: World
) -> None:
    subscriptions, events, codebook = frames(spark, world)
    covered = cover(subscriptions, codebook, groups=3)
    found = {row["id"]: row["cover"] for row in covered.collect()}
    expected = truth(world)
    assert set(found) == set(expected)
    for id_, over in found.items():
        assert over in expected[id_]
        assert over not in expected
    index = build_index(subscriptions, lake, codebook, covers=covered)
    assert index.sharding.kind == "cover"
    for k, mode in ((None, "all"), (3, "all"), (4, "any")):
        assert ranked(match_events(events, index, k=k, mode=mode)) == matched(world, k=k, mode=mode)
    kept = {row["id"] for row in reduced(subscriptions, covered).select("id").collect()}
    assert kept == set(world.subscriptions) - set(expected)
