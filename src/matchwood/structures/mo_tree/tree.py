"""The arrays of an MO-Tree: made for a plan, grown when a kernel needs room, saved. Rows and live events both use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from matchwood.jit.state import State
from matchwood.store.growth import grown, zeros
from matchwood.structures.mo_tree.kernels import layout as kernel
from matchwood.structures.mo_tree.kernels.layout import Tree, TreeCount
from matchwood.structures.mo_tree.plan import TreePlan

WORD = np.dtype(np.uint64)
SAVED = ("axes", "axis_of", "cuts", "levels", "cells", "directory", "nodes", "bits", "places", "counts")
REPLAN = 4  # a tree that has outgrown its plan this many times is planned and laid out anew
SMALL = 2048  # no tree is laid out anew below


def new_tree(plan: TreePlan) -> Tree:
    """An empty tree of that plan."""
    directory = np.zeros(plan.buckets, kernel.HEAD)
    directory["first"] = directory["spare"] = kernel.NONE
    arrays = {"directory": directory, "nodes": np.zeros(0, kernel.NODE), "places": np.zeros(0, kernel.PLACE)}
    return _tree({**plan.arrays(), **arrays, "bits": zeros(kernel.LINE, WORD)})


def restored_tree(saved: Mapping[str, np.ndarray]) -> Tree:
    """The tree that `saved_tree` gave."""
    return _tree({name: saved[name] for name in SAVED})


def _tree(arrays: dict[str, np.ndarray]) -> Tree:
    counts = arrays["counts"]
    return Tree(
        **arrays,
        members=arrays["bits"].view(np.uint32),
        here=np.zeros(int(counts[TreeCount.LAYERS]), np.uint32),
        changes=zeros(int(counts[TreeCount.PLANES]) * kernel.LINE, WORD),
        written=zeros(kernel.LINE, WORD),
    )


def saved_tree(tree: Tree) -> dict[str, np.ndarray]:
    """The arrays of a tree without spare room, for saving. O(1)."""
    saved = {name: getattr(tree, name) for name in SAVED}
    saved["bits"] = tree.bits[: tree.counts[TreeCount.WORDS] + kernel.LINE]
    saved["nodes"] = tree.nodes[: tree.counts[TreeCount.NODES]]
    return saved


def capacity_of(planned: int) -> int:
    """How many rows or events a plan for so many is good for; none where there was nothing to plan for."""
    return REPLAN * max(planned, SMALL) if planned else 0


def with_places(tree: Tree, slots: int) -> Tree:
    """The tree with a place for each of so many slots."""
    if len(tree.places) >= slots:
        return tree
    places = grown(tree.places, slots)
    places["node"][len(tree.places) :] = kernel.NONE
    return tree._replace(places=places)


def grown_tree(tree: Tree, rows: int) -> Tree:
    """The tree with larger pools: room for one row at least, and an eighth to a half more, so that growth is amortised."""
    counts, nodes, bits = tree.counts, tree.nodes, tree.bits
    if counts[TreeCount.NODES] == len(nodes):
        nodes = grown(nodes, max(len(nodes) * 3 // 2, len(nodes) + rows // 256, 16))
    used = int(counts[TreeCount.WORDS])
    full_node = kernel.LINE * (kernel.HEAD_WORDS + int(counts[TreeCount.PLANES]) + 1)
    if used + full_node + kernel.LINE > len(bits):
        wanted = used + rows // kernel.LINE_ROWS * full_node + min(len(tree.directory), rows, 1024) * full_node // 4
        spare = used // 8 if used > 64 * full_node else used
        bits = zeros(max(wanted, used + spare) + 2 * full_node, WORD)
        bits[:used] = tree.bits[:used]
    return tree._replace(nodes=nodes, bits=bits, members=bits.view(np.uint32))


def placed(tree: Tree, place: Callable[..., int], store: State, slots: np.ndarray, numbers: np.ndarray) -> Tree:
    """The tree with what is at these slots put into its buckets by the kernel `place`; equal buckets are adjacent."""
    done = 0
    while (done := int(place(tree, store, slots, numbers, done))) < len(slots):
        tree = grown_tree(tree, len(slots) - done)
    return tree


def in_order(slots: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both by rising number of the bucket. O(n log n)."""
    if len(slots) < 2:
        return slots, numbers
    order = np.argsort(numbers, kind="stable")
    return slots[order], numbers[order]


def ticks_of(tree: Tree, axis: np.void, keys: np.ndarray) -> np.ndarray:
    """The tick of each key on an axis; 0 where it is NaN. O(keys log cuts)."""
    cuts = tree.cuts[int(axis["first_cut"]) : int(axis["first_cut"]) + int(axis["cuts"])]
    return np.where(np.isnan(keys), 0, np.searchsorted(cuts, keys, side="right"))
