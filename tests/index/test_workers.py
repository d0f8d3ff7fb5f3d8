"""Bulk changes by several threads: parts that miss nothing, and trees that come out as one thread makes them."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest

from matchwood.encode.arrays import Events
from matchwood.encode.picking import pick_rows
from matchwood.errors import DuplicateSubscriptionError
from matchwood.store import workers
from matchwood.structures import MOTree, Scan
from matchwood.workloads.city import City
from tests.worlds import ranked


@pytest.mark.parametrize("many", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_shares_are_all_there_is_and_nearly_equal(many: int, parts: int) -> None:
    shares = workers.shares(many, parts)
    assert [i for share in shares for i in range(share.start, share.stop)] == list(range(many))
    sizes = [share.stop - share.start for share in shares]
    assert len(sizes) == parts
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
@pytest.mark.parametrize("keys", [[], [4], [1, 1, 1, 1, 2], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], list(range(100))])
def test_equal_keys_are_in_one_share(keys: list[int], parts: int) -> None:
    array = np.array(keys, np.uint32)
    shares = [array[share].tolist() for share in workers.shares_by(array, parts)]
    assert len(shares) == parts
    assert [key for share in shares for key in share] == keys
    assert sum(len(set(share)) for share in shares) == len(set(keys))


def test_jobs_run_at_once_and_answer_in_their_order() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def meet(name: str) -> str:
        meeting.wait()
        return name

    assert workers.run([partial(meet, name) for name in "abc"], 3) == ["a", "b", "c"]


def test_one_thread_does_one_job_after_the_other() -> None:
    done: list[int] = []
    workers.run([partial(done.append, i) for i in range(5)], 1)
    assert done == list(range(5))


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_a_job_that_fails_is_heard_of_when_the_others_have_ended(culprit: int) -> None:
    done: list[int] = []

    def work(i: int) -> None:
        if i == culprit:
            raise DuplicateSubscriptionError("already there")
        done.append(i)

    with pytest.raises(DuplicateSubscriptionError, match="already there"):
        workers.run([partial(work, i) for i in range(3)], 3)
    assert len(done) == 2


def test_small_changes_are_made_by_one_thread_and_the_environment_sets_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(workers.VARIABLE, "3")
    assert [workers.threads_for(n) for n in (0, 1, 1_000, 2 * workers.ENOUGH, 10**7)] == [1, 1, 1, 2, 3]
    monkeypatch.delenv(workers.VARIABLE)
    assert workers.threads_for(10**9) >= 1
    for said in ("0", "-1", "two", ""):
        monkeypatch.setenv(workers.VARIABLE, said)
        with pytest.warns(UserWarning, match=workers.VARIABLE):
            assert workers.threads_for(10**7) == 1


def test_what_is_refused_by_several_threads_changes_nothing(threads: int) -> None:
    city = City.preset("k6", size=500, source="synthetic")
    rows, events = city.subscriptions(), city.events(10)
    tree = MOTree.build(rows.take(0, 400))
    before = ranked(tree.match(events))
    with pytest.raises(DuplicateSubscriptionError):
        tree.insert(rows.take(399, 500))
    for ids in (rows.ids[300:], np.repeat(rows.ids[:20], 2)):
        with pytest.raises(Exception, match=r"not there|twice"):
            tree.delete(ids)
    with pytest.raises(Exception, match="not there"):
        tree.update(rows.take(300, 500))
    tree.check()
    assert ranked(tree.match(events)) == before


def _changed(size: int, rounds: int) -> tuple[MOTree, Scan, Events]:
    """A city of which a fifth was deleted, inserted, moved near and then far, round after round; what it has now; and events."""
    city = City.preset("k6", size=size, source="synthetic")
    rows, events = city.subscriptions(), city.events(40)
    tree, rng, has = MOTree.build(rows), np.random.default_rng(size), np.arange(size)
    for _ in range(rounds):
        some = np.sort(rng.permutation(size)[: size // 5])
        part = pick_rows(rows, has[some])._replace(ids=some)
        tree.delete(some)
        tree.insert(part)
        shift = np.where(part.dims < 2, 0.0002, 0.0)
        tree.update(part._replace(lo=part.lo + shift, hi=part.hi + shift))
        others = np.roll(some, len(some) // 2)
        tree.update(part._replace(ids=others))
        has[others] = has[some]
    return tree, Scan.build(pick_rows(rows, has)._replace(ids=np.arange(size))), events


def test_a_city_changes_by_several_threads(threads: int) -> None:
    tree, scan, events = _changed(5_000, 3)
    tree.check()
    assert ranked(tree.match(events)) == ranked(scan.match(events))


@pytest.mark.stress
@pytest.mark.parametrize("size", [100_000, 300_000])
def test_a_large_city_changes_by_several_threads_again_and_again(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(workers.VARIABLE, "4")
    tree, scan, events = _changed(size, 20)
    assert ranked(tree.match(events)) == ranked(scan.match(events))
