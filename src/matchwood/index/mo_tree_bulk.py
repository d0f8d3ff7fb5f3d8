"""Bulk changes of an MO-Tree by several threads, each node by one of them.

Room in nodes is given out and taken back by the thread that calls; what lies between, the writing of bits, is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.index.mo_tree_state import grown_tree, in_order, order_by, with_own_notes
from matchwood.index.row_store import Slots
from matchwood.index.workers import borders, run, shares, shares_by, threads_for
from matchwood.kernels.mo_tree import NODES, Tree
from matchwood.kernels.mo_tree_nodes import PIECE, open_nodes, release_nodes
from matchwood.kernels.mo_tree_place import clear_rows
from matchwood.kernels.mo_tree_spans import SPAN
from matchwood.kernels.mo_tree_update import list_owned, new_moving, update_rows
from matchwood.kernels.store import Store

MOST_WAITING = 8192  # rows or events that are stored and not placed
FEW = 64  # rows or events that are placed as they come: sorted by bucket hardly two would be neighbours
SAMPLED = 1024  # rows whose nodes are looked at to part an update


class Left(NamedTuple):
    """What an update leaves to be done."""

    rows: np.ndarray  # uint32, which of its rows are to be placed
    slots: np.ndarray  # uint32, and where they are stored
    numbers: np.ndarray  # uint32, in which bucket
    nodes: np.ndarray  # uint32, where they stood, in another order
    odd: np.ndarray  # uint32, which have another shape than before and are untouched


def put_and_slice(
    tree: Tree, new: Rows | Events, put: Callable[[], Slots], slice_: Callable[..., None]
) -> tuple[Slots, np.ndarray, np.ndarray]:
    """Store rows or events by `put`, and meanwhile find their buckets and spans by the kernel `slice_`; return all three."""
    numbers, spans = np.empty(new.size, np.uint32), np.empty(len(new.dims), SPAN)
    threads = threads_for(new.size)
    jobs = [
        partial(slice_, own, new, part.start, part.stop, numbers, spans)
        for own, part in zip(_each_own(tree), shares(new.size, max(threads - 1, 1)), strict=False)
    ]
    return run([put, *jobs], threads)[0], numbers, spans


def place_all(tree: Tree, numbers: np.ndarray, place: Callable[..., None], *what: Any) -> Tree:
    """Place rows or events, whose buckets are `numbers`, by the kernel `place`; all by rising bucket. Return the tree, which may
    have grown."""
    tree, pieces = _opened(tree, numbers)
    threads = threads_for(len(numbers))
    cuts = np.searchsorted(pieces["first"], np.arange(threads + 1) * len(numbers) // threads)
    jobs = [
        partial(place, own, *what, pieces[begin:end])
        for own, begin, end in zip(_each_own(tree), cuts[:-1], cuts[1:], strict=False)
    ]
    run(jobs, threads)
    return tree


def _opened(tree: Tree, numbers: np.ndarray) -> tuple[Tree, np.ndarray]:
    """The tree with room for rows of these buckets, and the pieces that say who goes where."""
    pieces = np.empty(len(numbers), PIECE)
    done, n = open_nodes(tree, numbers, 0, pieces, 0)
    while done < len(numbers):
        tree = grown_tree(tree, len(numbers) - done)
        done, n = open_nodes(tree, numbers, done, pieces, n)
    return tree, pieces[:n]


def remove_all(tree: Tree, store: Store, slots: Slots, *meanwhile: Callable[[np.ndarray], Any]) -> None:
    """Take the rows at these slots out of their nodes. What is done meanwhile leaves the tree alone; it is told an order of the
    slots by node."""
    (nodes,) = in_order(slots, tree.places["node"])
    order = order_by(nodes, int(tree.counts[NODES]))
    nodes, slots = in_order(order, nodes, slots)
    none, threads = np.zeros(0, np.uint64), threads_for(len(slots))
    jobs = [
        partial(clear_rows, own, store, slots[part], nodes[part], none)
        for own, part in zip(_each_own(tree), shares_by(nodes, max(threads - len(meanwhile), 1)), strict=False)
    ]
    run([*(partial(other, order) for other in meanwhile), *jobs], threads)
    release_nodes(tree, nodes)


def rewrite_all(tree: Tree, store: Store, rows: Rows, slots: Slots, spans: np.ndarray) -> Left:
    """Rewrite the rows at these slots (`update_rows`), and take those that move out of their nodes; say what is left to do."""
    threads = threads_for(len(slots))
    sample = tree.places["node"][slots[:: max(len(slots) // SAMPLED, 1)]]
    cuts = [0, *borders(sample, threads)[1:-1], int(tree.counts[NODES])]
    jobs = [
        partial(_rewrite, own, store, rows, slots, between, spans)
        for own, *between in zip(_each_own(tree), cuts[:-1], cuts[1:], strict=False)
    ]
    left = Left._make(map(np.concatenate, zip(*run(jobs, threads), strict=True)))
    release_nodes(tree, left.nodes)
    return left


def _rewrite(tree: Tree, store: Store, rows: Rows, slots: Slots, between: list[int], spans: np.ndarray) -> Left:
    """`rewrite_all` of the rows in the nodes from the first to below the second, which are not released yet."""
    which, mine = np.empty(len(slots), np.uint32), np.empty(len(slots), np.uint32)
    many = int(list_owned(tree, slots, *between, which, mine))
    moving = new_moving(many)
    moves, odds = update_rows(tree, store, rows, which[:many], mine[:many], moving, spans)
    order = order_by(moving.nodes[:moves], int(tree.counts[NODES]))
    gone, nodes, axes = in_order(order, moving.slots, moving.nodes, moving.axes)
    clear_rows(tree, store, gone, nodes, axes)
    return Left(moving.rows[:moves], moving.slots[:moves], moving.numbers[:moves], nodes, moving.odd[:odds])


def _each_own(tree: Tree) -> Iterator[Tree]:
    """The tree for one thread after the other: itself, then with notes of their own."""
    yield tree
    while True:
        yield with_own_notes(tree)
