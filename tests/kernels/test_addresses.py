"""States by address: a kernel sees what the owner has, and what does not fit is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from matchwood.jit.addresses import addresses, from_addresses
from matchwood.jit.decorators import kernel
from matchwood.jit.direct import WORDS, Checked
from matchwood.jit.handed import Handed
from matchwood.structures import MOTree, Scan
from matchwood.workloads import City
from tests.worlds import ranked

RECORD = np.dtype([("key", "f8"), ("many", "u4"), ("pad", "u4")])


class Things(NamedTuple):
    records: np.ndarray
    marks: np.ndarray


class Owner:
    things = Handed[Things]()
    things_at: np.ndarray
    other: str


things_at = from_addresses(Things, RECORD, np.uint8)


@kernel
def _add(words, keys):
    """Add each key to the record of its place, and mark it; return how many places there are."""
    things = things_at(words)
    for i in range(keys.size):
        things.records[i].key += keys[i]
        things.marks[i] = 1
    return things.records.size + 100 * things.marks.size


ADD = Checked(_add, WORDS, np.dtype("f8"))


def some_things(size: int) -> Things:
    return Things(np.zeros(size, RECORD), np.zeros(size + 1, np.uint8))


def test_a_kernel_reads_and_writes_the_arrays_of_the_state() -> None:
    things = some_things(3)
    assert ADD.call(addresses(things), np.array([1.5, 2.5])) == 403
    assert things.records["key"].tolist() == [1.5, 2.5, 0.0]
    assert things.marks.tolist() == [1, 1, 0, 0]


def test_the_words_are_those_of_the_state_that_was_set_last() -> None:
    owner = Owner()
    for size in (2, 5, 2):
        owner.things = some_things(size)
        assert ADD.call(owner.things_at, np.array([7.0])) == size + 100 * (size + 1)
        assert owner.things.records["key"][0] == 7.0
    before = owner.things_at
    owner.things = owner.things
    assert owner.things_at is before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda owner: pickle.loads(pickle.dumps(owner))])
def test_a_copy_has_words_of_its_own_arrays(copied: Callable[[Owner], Owner]) -> None:
    owner = Owner()
    owner.things, owner.other = some_things(3), "anything"
    other = copied(owner)
    assert other.other == "anything"
    assert other.things_at.tolist() == addresses(other.things).tolist()
    before = owner.things.marks.copy()
    assert ADD.call(other.things_at, np.array([2.5])) == 403
    assert other.things.records["key"][0] == 2.5
    assert (owner.things.marks == before).all() == (owner.things is not other.things)


def test_a_tree_and_its_copy_change_apart() -> None:
    rows = City.preset("quick", size=500).subscriptions()
    tree = MOTree.build(rows.take(0, 400))
    other = copy.deepcopy(tree)
    for r in range(400, 500):
        other.insert(rows.take(r, r + 1))
        tree.delete(rows.ids[r - 400 : r - 399])
    events = City.preset("quick", size=500).events(40)
    for index, kept in ((tree, rows.take(100, 400)), (other, rows)):
        index.check()
        assert ranked(index.match(events)) == ranked(Scan.build(kept).match(events))


@pytest.mark.parametrize(
    "wrong",
    [
        Things(np.zeros(3), np.zeros(3, np.uint8)),
        Things(np.zeros(6, RECORD)[::2], np.zeros(3, np.uint8)),
        Things(np.zeros((3, 1), RECORD), np.zeros(3, np.uint8)),
    ],
)
def test_a_state_of_other_arrays_is_refused(wrong: Things) -> None:
    with pytest.raises(TypeError, match="expected records as a plain array"):
        addresses(wrong)


def test_an_array_that_may_not_be_written_is_no_part_of_a_state_but_may_be_an_argument() -> None:
    things, keys = some_things(3), np.ones(3)
    keys.flags.writeable = False
    assert ADD.call(addresses(things), keys) == 403
    things.marks.flags.writeable = False
    with pytest.raises(TypeError, match="marks"):
        addresses(things)


@pytest.mark.parametrize(
    "keys", [np.ones(3, np.float32), np.ones(6)[::2], np.ones(3, ">f8"), [1.0], np.ones((3, 1)), None]
)
def test_arguments_of_other_types_never_get_there(keys: object) -> None:
    things = some_things(3)
    assert ADD.call(addresses(things), keys) is None
    assert not things.marks.any()
