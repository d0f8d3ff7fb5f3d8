"""What `match`, `top_k` and `publish` return: a sequence of matches over arrays, which behaves as a list of them."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

from matchwood import Engine, Match, Ranking
from matchwood.engine.ranking import MatchWithMetadata

FACTS = [({"owner": "Ada"}, 3.0), (None, 2.0), ([1, 2], 2.0), (None, 1.0), ("x", 0.5)]


def an_engine(ids: str) -> Engine:
    engine = Engine(ids=ids, index="scan")
    for metadata, priority in FACTS:
        engine.subscribe("a = 1 ^0.25", priority=priority, metadata=metadata)
    return engine


def expected(ids: str, metadata: bool) -> list[Any]:
    """The matches of an_engine, as a list."""
    numbers: list[Any] = [0, 1, 2, 3, 4] if ids == "int" else list("01234")
    scores = [3.25, 2.25, 2.25, 1.25, 0.75]
    if metadata:
        told = [fact for fact, _ in FACTS]
        return [MatchWithMetadata(*match) for match in zip(numbers, scores, told, strict=True)]
    return [Match(*match) for match in zip(numbers, scores, strict=True)]


@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("ids", ["int", "str"])
def test_a_ranking_behaves_as_a_list(ids: str, metadata: bool) -> None:
    want = expected(ids, metadata)
    engine = an_engine(ids)
    found: Ranking[Any] = engine.match({"a": 1}, metadata=metadata)  # type: ignore[call-overload]
    assert type(found) is Ranking
    assert found == want
    assert want == found
    assert found != want[:4]
    assert found != [*want[:4], want[0]]
    assert found != tuple(want)
    assert repr(found) == repr(want)
    assert list(found) == list(found) == want
    assert [type(match) for match in found] == [type(match) for match in want]
    assert [type(value) for value in found[0][:2]] == [int if ids == "int" else str, float]
    assert len(found) == 5
    assert [found[at] for at in range(-5, 5)] == want + want
    assert found[np.int64(1)] == want[1]
    for span in (slice(2), slice(1, None, 2), slice(None, None, -1), slice(7, 9)):
        assert type(found[span]) is Ranking
        assert found[span] == want[span]
        assert repr(found[span]) == repr(want[span])
    for at in (5, -6):
        with pytest.raises(IndexError):
            found[at]
    assert list(reversed(found)) == want[::-1]
    assert want[2] in found
    assert (want[2].id, 99.0) not in found
    assert found.index(want[2]) == 2
    assert found.count(want[2]) == 1
    assert max(found, key=lambda match: -match.score) == want[4]
    best, *others = found
    assert (best, others) == (want[0], want[1:])
    assert json.dumps(list(found)) == json.dumps(want)
    assert engine.top_k({"a": 1}, 2, metadata=metadata) == want[:2]  # type: ignore[call-overload]
    nothing: Ranking[Any] = engine.match({"a": 2}, metadata=metadata)  # type: ignore[call-overload]
    assert not nothing
    assert nothing == []
    assert repr(nothing) == "[]"
    assert found


@pytest.mark.parametrize("ids", ["int", "str"])
def test_its_ids_and_scores_are_arrays_to_be_read(ids: str) -> None:
    found = an_engine(ids).match({"a": 1})
    assert found.ids.dtype == (np.int64 if ids == "int" else object)
    assert list(zip(found.ids.tolist(), found.scores.tolist(), strict=True)) == expected(ids, metadata=False)
    assert found[1:3].ids.tolist() == found.ids[1:3].tolist()
    for array in (found.ids, found.scores, found[1:].ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    with pytest.raises(TypeError):
        found[0] = found[1]  # type: ignore[index]
    with pytest.raises(AttributeError):
        found.ids = found.scores  # type: ignore[misc]
    with pytest.raises(TypeError, match="unhashable"):
        hash(found)


@pytest.mark.parametrize("metadata", [False, True])
def test_it_is_pickled_and_copied(metadata: bool) -> None:
    found: Ranking[Any] = an_engine("str").match({"a": 1}, metadata=metadata)  # type: ignore[call-overload]
    for again in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert type(again) is Ranking
        assert again == found == expected("str", metadata)


@pytest.mark.parametrize("ids", ["int", "str"])
def test_it_stays_as_it_is_when_the_engine_changes(ids: str) -> None:
    engine = an_engine(ids)
    plain, told = engine.match({"a": 1}), engine.match({"a": 1}, metadata=True)
    engine.update(engine.ids()[0], priority=9, metadata="new")
    engine.unsubscribe_many(engine.ids()[1:])
    engine.subscribe("a = 1", priority=7, metadata="other")
    assert engine.match({"a": 1}) != plain
    assert (plain, told) == (expected(ids, metadata=False), expected(ids, metadata=True))


def test_rankings_with_and_without_metadata_differ() -> None:
    engine = an_engine("int")
    assert engine.match({"a": 1}) == engine.match({"a": 1})
    assert engine.match({"a": 1}) != engine.match({"a": 1}, metadata=True)
    assert engine.match({"a": 1}) != engine.top_k({"a": 1}, 3)


@pytest.mark.parametrize("ids", ["int", "str"])
def test_publish_returns_one_too(ids: str) -> None:
    engine = an_engine(ids)
    for until in (None, "9999-01-01"):
        found = engine.publish({"a": 1}, until=until)
        assert type(found) is Ranking
        assert found == expected(ids, metadata=False)
