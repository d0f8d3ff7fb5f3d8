"""Bulk changes of an MO-Tree's nodes, each node by one thread. Both halves of the tree use them.

Room is given out and taken back by the thread that calls; what lies between, the writing of bits, is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from matchwood.index.mo_tree_state import grown_tree, with_own_notes
from matchwood.index.workers import run, threads_for
from matchwood.kernels.mo_tree import Tree
from matchwood.kernels.mo_tree_nodes import PIECE, open_nodes

Job = Callable[[], Any]


def place_all(tree: Tree, place: Callable[..., None], *what: Any) -> Tree:
    """Place rows or events by the kernel `place`; `what` ends with their slots and buckets, by rising bucket. Return the tree,
    which may have grown."""
    *what_, numbers = what
    tree, pieces = _opened(tree, numbers)
    threads = threads_for(len(numbers))
    cuts = np.searchsorted(pieces["first"], np.arange(threads + 1) * len(numbers) // threads)
    jobs = [
        partial(place, own, *what_, pieces[begin:end])
        for own, begin, end in zip(each_own(tree), cuts[:-1], cuts[1:], strict=False)
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


def each_own(tree: Tree) -> Iterator[Tree]:
    """The tree for one thread after the other: itself, then with notes of their own."""
    yield tree
    while True:
        yield with_own_notes(tree)
