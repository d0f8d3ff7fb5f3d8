"""Bulk changes of an MO-Tree by several threads.

Rows are stored, sliced and rewritten in the order in which they come, by any of them. Planes are written node by node, each node
by one; room in nodes is given out before and taken back afterwards, by the thread that calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.store.kernels.rows import Store
from matchwood.store.row_store import Slots
from matchwood.store.workers import jobs_for, run, shares, shares_by, threads_for
from matchwood.structures.mo_tree.kernels.layout import NODES, Tree
from matchwood.structures.mo_tree.kernels.nodes import PIECE, open_nodes, release_nodes
from matchwood.structures.mo_tree.kernels.place import clear_rows
from matchwood.structures.mo_tree.kernels.spans import SPAN
from matchwood.structures.mo_tree.kernels.update import Moving, new_moving, update_rows
from matchwood.structures.mo_tree.state import grown_tree, in_order, order_by, with_own_notes

MOST_WAITING = 8192  # rows or events that are stored and not placed
FEW = 64  # rows or events that are placed as they come: sorted by bucket hardly two would be neighbours


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
    parts = jobs_for(threads)
    cuts = np.searchsorted(pieces["first"], np.arange(parts + 1) * len(numbers) // parts)
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


def remove_all(tree: Tree, slots: Slots, nodes: np.ndarray, *meanwhile: Callable[[np.ndarray], Any]) -> None:
    """Take the rows at these slots out of their nodes. What is done meanwhile leaves the tree alone; it is told an order of the
    slots by node."""
    order, threads = order_by(nodes, int(tree.counts[NODES])), threads_for(len(slots))
    slots, nodes = in_order(order, slots, nodes)
    jobs = [
        partial(clear_rows, own, slots[part], nodes[part])
        for own, part in zip(_each_own(tree), shares_by(nodes, max(threads - len(meanwhile), 1)), strict=False)
    ]
    run([*(partial(other, order) for other in meanwhile), *jobs], threads)
    release_nodes(tree, nodes)


def rewrite_all(tree: Tree, store: Store, rows: Rows, slots: Slots, spans: np.ndarray) -> Moving:
    """Rewrite the rows at these slots (`update_rows`), and take those that move out of their nodes; say what is left to do."""
    threads = threads_for(len(slots))
    jobs = [
        partial(_rewrite, own, store, rows, slots, part, spans)
        for own, part in zip(_each_own(tree), shares(len(slots), threads), strict=False)
    ]
    moving = Moving._make(map(np.concatenate, zip(*run(jobs, threads), strict=True)))
    remove_all(tree, moving.slots, moving.nodes)
    return moving


def _rewrite(tree: Tree, store: Store, rows: Rows, slots: Slots, part: slice, spans: np.ndarray) -> Moving:
    """`rewrite_all` of a part of the rows, which are not taken out yet."""
    moving = new_moving(part.stop - part.start)
    moves, odds = update_rows(tree, store, rows, part.start, part.stop, slots, moving, spans)
    return Moving._make([*(column[:moves] for column in moving[:-1]), moving.odd[:odds]])


def _each_own(tree: Tree) -> Iterator[Tree]:
    """The tree for one job after the other: itself, then with notes of their own."""
    yield tree
    while True:
        yield with_own_notes(tree)
