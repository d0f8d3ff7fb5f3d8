"""The arrays of an MO-Tree: made for a plan, grown when a kernel asks for room. Both halves of the tree use them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from matchwood.store.growth import zeros
from matchwood.structures.mo_tree.kernels import layout as kernel
from matchwood.structures.mo_tree.kernels.block import TURNS
from matchwood.structures.mo_tree.kernels.layout import Tree
from matchwood.structures.mo_tree.kernels.order import pick, sort_by_number
from matchwood.structures.mo_tree.plan import Plan

WORD = np.dtype(np.uint64)
SAVED = [name for name in Tree._fields[: Tree._fields.index("ticks")] if name != "members"]
REPLAN = 4  # a tree that has outgrown its plan this many times is planned and laid out anew
SMALL = 2048  # no tree is laid out anew below
COUNTING_SORT = 1 << 17  # numbers up to which counting is faster than comparing


def new_tree(plan: Plan) -> Tree:
    """An empty tree of that plan."""
    axes, axis_of, cuts, begins, nearest, cells, counts = plan.arrays()
    directory = np.zeros(plan.buckets, kernel.HEAD)
    directory["first"] = directory["spare"] = kernel.NONE
    bits = zeros(8, WORD)
    return Tree(
        axes=axes,
        axis_of=axis_of,
        cuts=cuts,
        begins=begins,
        nearest=nearest,
        cells=cells,
        directory=directory,
        nodes=np.zeros(0, kernel.NODE),
        bits=bits,
        members=bits.view(np.uint32),
        places=np.zeros(0, kernel.PLACE),
        counts=counts,
        **_notes(counts),
    )


def most_for(planned: int) -> int:
    """How many rows or events a plan for so many is good for; none where there was nothing to plan for."""
    return REPLAN * max(planned, SMALL) if planned else 0


def _notes(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Room for the writer's notes, nothing noted."""
    layers, axes = int(counts[kernel.LAYERS]), int(counts[kernel.SLICED])
    return {
        "ticks": np.zeros(2 * layers, np.int64),
        "here": np.zeros(layers, np.uint32),
        "changes": zeros((int(counts[kernel.PLANES]) + axes) * kernel.LINE, WORD),
        "noted": np.zeros(1, WORD),
        "leaving": np.zeros(kernel.LINE, WORD),
        "stale": np.zeros(kernel.LINE, WORD),
        "turned": np.zeros(TURNS, np.int64),
        "turning": np.zeros(TURNS, WORD),
    }


def with_own_notes(tree: Tree) -> Tree:
    """The same tree for another writer at the same time, of other nodes."""
    return tree._replace(**_notes(tree.counts))


def grown_tree(tree: Tree, rows: int) -> Tree:
    """The tree with room for more nodes and words, for one row at least and by half of what there is: growth is amortised."""
    counts = tree.counts
    nodes, bits = tree.nodes, tree.bits
    if counts[kernel.NODES] == len(nodes):
        nodes = np.zeros(max(len(nodes) * 3 // 2, len(nodes) + rows // 256, 16), kernel.NODE)
        nodes[: len(tree.nodes)] = tree.nodes
    used = int(counts[kernel.WORDS])
    a_line = kernel.LINE * (kernel.HEAD_WORDS + int(counts[kernel.PLANES]) + 1)
    if used + a_line + kernel.LINE > len(bits):
        wanted = used + rows // kernel.LINE_ROWS * a_line + min(len(tree.directory), rows, 1024) * a_line // 4
        bits = zeros(max(wanted, used + used // 8 if used > 64 * a_line else 2 * used) + 2 * a_line, WORD)
        bits[:used] = tree.bits[:used]
    return tree._replace(nodes=nodes, bits=bits, members=bits.view(np.uint32))


def saved_tree(tree: Tree) -> dict[str, np.ndarray]:
    """The arrays of a tree without spare room, for saving. O(1)."""
    saved = {name: getattr(tree, name) for name in SAVED}
    saved["bits"] = tree.bits[: tree.counts[kernel.WORDS] + kernel.LINE]
    saved["nodes"] = tree.nodes[: tree.counts[kernel.NODES]]
    return saved


def restored_tree(saved: Mapping[str, np.ndarray]) -> Tree:
    """The tree that `saved_tree` gave."""
    arrays = {name: saved[name] for name in SAVED}
    return Tree(**arrays, members=saved["bits"].view(np.uint32), **_notes(saved["counts"]))


def order_by(numbers: np.ndarray, many: int) -> np.ndarray:
    """Places of the numbers, by rising number: neighbours in a bucket are written one after the other. O(n)."""
    if many > min(COUNTING_SORT, 8 * len(numbers)):
        return np.argsort(numbers, kind="stable").astype(np.uint32)
    order = np.empty(len(numbers), np.uint32)
    sort_by_number(numbers, np.zeros(many + 1, np.uint32), order)
    return order


def in_order(order: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """column[order] of each column: NumPy takes four times as long. O(n) each."""
    found = [np.empty(len(order), column.dtype) for column in columns]
    for column, picked in zip(columns, found, strict=True):
        pick(column, order, picked)
    return found


def ticks_of(tree: Tree, axis: np.void, keys: np.ndarray) -> np.ndarray:
    """The tick of each key on an axis of at most 1,024 ticks; 0 where it is NaN. O(keys log cuts)."""
    cuts = tree.cuts[int(axis["first_cut"]) : int(axis["first_cut"]) + int(axis["cuts"])]
    return np.where(np.isnan(keys), 0, np.searchsorted(cuts, keys, side="right"))
