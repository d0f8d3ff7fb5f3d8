"""States: what they declare, what they refuse, and what kernels read and write through them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array, nested

PAIR = np.dtype([("key", "f8"), ("count", "u4"), ("pad", "u4")])


class Pool(State):
    pairs: np.ndarray = array(PAIR)
    counts: np.ndarray = array(np.int64)


class Grid(State):
    cells: np.ndarray = array(np.float32, ndim=2)
    pool: Pool = nested(Pool)
    words: np.ndarray = array(np.uint64)


class Other(State):
    """The same arrays as a pool, in another class."""

    pairs: np.ndarray = array(PAIR)
    counts: np.ndarray = array(np.int64)


@helper
def add_pair(pool, at, key):
    pool.pairs[at].key += key
    pool.pairs[at].count += np.uint32(1)
    pool.counts[0] += 1


@kernel
def add_to_pool(pool, at, key):
    add_pair(pool, at, key)
    return pool.counts[0]


@kernel
def copy_first(source, target):
    target.pairs[0] = source.pairs[0]
    target.counts[0] = source.counts.size


@kernel
def fill_grid(grid, value):
    """Number the cells by row and column; write through the state inside."""
    rows, columns = grid.cells.shape
    for r in range(rows):
        for c in range(columns):
            grid.cells[r, c] = value + 10 * r + c
    add_pair(grid.pool, 1, np.float64(grid.cells[1, 2]))
    grid.words[grid.words.size - 1] = np.uint64(7)
    return grid.pool.pairs.size


@kernel
def sum_row(grid, r):
    total = 0.0
    row = grid.cells[r]
    for c in range(row.size):
        total += row[c]
    return total


def new_pool(size: int = 4) -> Pool:
    return Pool(pairs=np.zeros(size, PAIR), counts=np.zeros(2, np.int64))


def new_grid(rows: int = 2, columns: int = 3) -> Grid:
    return Grid(cells=np.zeros((rows, columns), np.float32), pool=new_pool(), words=np.zeros(5, np.uint64))


def test_a_state_has_its_arrays_as_attributes_in_the_order_of_their_declaration() -> None:
    pairs, counts = np.zeros(4, PAIR), np.zeros(2, np.int64)
    pool = Pool(counts=counts, pairs=pairs)
    assert Pool._fields == ("pairs", "counts")
    assert pool.pairs is pairs
    assert pool.counts is counts
    assert pool.nbytes == pairs.nbytes + counts.nbytes
    assert new_grid().nbytes == 24 + pool.nbytes + 40


@pytest.mark.parametrize("names", [("pairs",), ("pairs", "counts", "free"), ("pairs", "count")])
def test_every_array_must_be_given_and_no_other(names: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="Pool: expected pairs, counts, got pairs"):
        Pool(**{name: np.zeros(1, np.int64) for name in names})


def test_a_state_cannot_be_changed() -> None:
    pool = new_pool()
    with pytest.raises(AttributeError, match=r"Pool is immutable: use _replace\(counts=...\)"):
        pool.counts = np.zeros(3, np.int64)


def read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    "counts",
    [
        np.zeros(4),
        np.zeros(4, np.int32),
        np.zeros(4, np.int64).astype(">i8"),
        np.zeros(8, np.int64)[::2],
        np.zeros((2, 2), np.int64),
        read_only(np.zeros(4, np.int64)),
        [0, 0],
        None,
    ],
    ids=["float64", "int32", "big-endian", "strided", "two dimensions", "read-only", "list", "None"],
)
def test_an_array_that_kernels_would_misread_is_refused(counts: object) -> None:
    expected = r"Pool.counts: expected a contiguous, writable array of 1 dimensions and type int64, got"
    with pytest.raises(TypeError, match=expected):
        Pool(pairs=np.zeros(4, PAIR), counts=counts)
    with pytest.raises(TypeError, match=expected):
        new_pool()._replace(counts=counts)


def test_a_matrix_must_lie_row_by_row() -> None:
    with pytest.raises(TypeError, match=r"Grid.cells: expected a contiguous, writable array of 2 dimensions"):
        new_grid()._replace(cells=np.zeros((3, 4), np.float32).T)


@pytest.mark.parametrize("pool", [Other(pairs=np.zeros(4, PAIR), counts=np.zeros(2, np.int64)), np.zeros(4), None])
def test_a_nested_state_must_be_of_the_declared_class(pool: object) -> None:
    with pytest.raises(TypeError, match=r"Grid.pool: expected .*Pool.*, got"):
        new_grid()._replace(pool=pool)


def test_replacing_an_unknown_array_is_refused() -> None:
    with pytest.raises(TypeError, match="Pool: expected pairs, counts, got free"):
        new_pool()._replace(free=np.zeros(1, np.int64))


def test_a_kernel_reads_and_writes_the_arrays_of_a_state() -> None:
    pool = new_pool()
    assert add_to_pool(pool, 3, 2.5) == 1
    assert add_to_pool(pool, 3, 1.0) == 2
    assert pool.pairs["key"].tolist() == [0, 0, 0, 3.5]
    assert pool.pairs["count"].tolist() == [0, 0, 0, 2]


def test_a_kernel_reaches_matrices_and_nested_states() -> None:
    grid = new_grid()
    assert fill_grid(grid, 0.5) == 4
    assert grid.cells.tolist() == [[0.5, 1.5, 2.5], [10.5, 11.5, 12.5]]
    assert grid.pool.pairs["key"].tolist() == [0, 12.5, 0, 0]
    assert grid.words.tolist() == [0, 0, 0, 0, 7]
    assert sum_row(grid, 1) == 34.5


def test_a_kernel_takes_two_states_of_one_class() -> None:
    a, b = new_pool(), new_pool(9)
    add_to_pool(b, 0, 4.0)
    copy_first(b, a)
    assert a.pairs[0] == b.pairs[0]
    assert (a.counts[0], b.counts[0]) == (2, 1)


def test_states_of_two_classes_with_equal_arrays_are_two_types() -> None:
    pool, other = new_pool(), Other(pairs=np.zeros(4, PAIR), counts=np.zeros(2, np.int64))
    assert add_to_pool(pool, 0, 1.0) == add_to_pool(other, 0, 1.0) == 1
    assert Pool._numba_type_ != Other._numba_type_


def test_a_state_that_replaces_another_between_calls_is_the_one_that_is_read() -> None:
    grid = new_grid()
    for rows, columns in [(2, 3), (5, 4), (2, 70)]:
        grid = grid._replace(cells=np.zeros((rows, columns), np.float32), pool=new_pool(rows + 1))
        assert fill_grid(grid, 0.0) == rows + 1
        assert grid.cells[-1, -1] == 10 * (rows - 1) + columns - 1


def test_replacing_an_array_leaves_the_old_state_as_it_was() -> None:
    old = new_pool(2)
    new = old._replace(pairs=np.zeros(6, PAIR))
    add_to_pool(new, 5, 1.0)
    add_to_pool(old, 1, 3.0)
    assert old.pairs["key"].tolist() == [0, 3]
    assert new.pairs["key"].tolist() == [0, 0, 0, 0, 0, 1]
    assert old.counts is new.counts


@pytest.mark.parametrize("again", [copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_a_copy_has_arrays_of_its_own(again) -> None:
    grid = new_grid()
    fill_grid(grid, 1.0)
    other = again(grid)
    assert other.cells.tolist() == grid.cells.tolist()
    assert other.address != grid.address
    fill_grid(other, 5.0)
    assert grid.cells[0, 0] == 1.0
    assert grid.pool.counts[0] == 1
    assert other.pool.counts[0] == 2


def test_a_shallow_copy_shares_the_arrays() -> None:
    pool = new_pool()
    add_to_pool(copy.copy(pool), 0, 1.0)
    assert pool.counts[0] == 1


def test_a_kernel_that_reads_an_unknown_attribute_does_not_compile() -> None:
    @kernel
    def reads_nothing(pool):
        return pool.nothing[0]

    with pytest.raises(Exception, match="nothing"):
        reads_nothing(new_pool())
