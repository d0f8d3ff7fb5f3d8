"""The shared arrays of a forest: trees are planted in free regions and felled again.

Regions of each array are allocated first-fit and joined with their neighbours when they are freed; an array that is full grows
by half, or to exactly what a first tree needs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from matchwood.store.growth import grown
from matchwood.store.pool_check import check_regions
from matchwood.structures.ranked.kernels.bits import PAD
from matchwood.structures.ranked.kernels.layout import BLOCK, BLOCKS, COLUMNS, LISTS, NODE, NONE, TREE, Forest
from matchwood.structures.ranked.parts import Entries, Part


class Regions:
    """The free regions of an array: at most as many as there have been trees."""

    def __init__(self, used: int = 0, free: list[tuple[int, int]] | None = None) -> None:
        self.used = used
        self.free = free or []

    def take(self, size: int) -> int:
        """The start of a region of that size."""
        if size == 0:
            return 0
        for at, (start, length) in enumerate(self.free):
            if length >= size:
                self.free[at : at + 1] = [(start + size, length - size)] if length > size else []
                return start
        self.used += size
        return self.used - size

    def give(self, start: int, size: int) -> None:
        """Free a region."""
        if size == 0:
            return
        joined: list[tuple[int, int]] = []
        for begin, length in sorted([*self.free, (start, size)]):
            if joined and joined[-1][0] + joined[-1][1] == begin:
                joined[-1] = joined[-1][0], joined[-1][1] + length
            else:
                joined.append((begin, length))
        if joined and sum(joined[-1]) == self.used:
            self.used = joined.pop()[0]
        self.free = joined


REGIONS = ("entries", "blocks", "nodes", "keys", "spans")
FIRST = ("start", "first_block", "first_node", "first_key", "first_span")


class Pools:
    """The arrays of a forest and what is free in them."""

    def __init__(self, dimensions: int) -> None:
        self.state = empty_forest(dimensions)
        self.regions = {name: Regions() for name in REGIONS}

    def chain(self, dim: int) -> list[int]:
        """The trees of a dimension."""
        found, tree = [], int(self.state.firsts[dim]) if dim < len(self.state.firsts) else int(NONE)
        while tree != int(NONE):
            found.append(tree)
            tree = int(self.state.trees[tree]["next"])
        return found

    def live(self) -> list[int]:
        """All trees."""
        return [tree for dim in range(len(self.state.firsts)) for tree in self.chain(dim)]

    def widen(self, dimensions: int) -> None:
        """Make room for further dimensions."""
        firsts = self.state.firsts
        if dimensions > len(firsts):
            more = np.full(dimensions - len(firsts), NONE)
            self.state = self.state._replace(firsts=np.concatenate([firsts, more]))

    def plant(self, dim: int, part: Part) -> int:
        """Copy a tree into the pools, as the first of its dimension; return its number. O(its size)."""
        sizes = part.entries.size, len(part.blocks), len(part.nodes), len(part.keys), len(part.spans)
        at = {name: self.regions[name].take(size) for name, size in zip(REGIONS, sizes, strict=True)}
        self._reserve()
        state = self.state
        here = slice(at["entries"], at["entries"] + part.entries.size)
        for name, values in zip(COLUMNS, part.entries, strict=True):
            getattr(state, name)[here] = values
        state.link[at["entries"] + part.size : at["entries"] + part.entries.size] += at["blocks"]
        blocks = state.blocks[at["blocks"] : at["blocks"] + sizes[1]]
        blocks[:] = part.blocks
        blocks["start"] += np.uint32(at["entries"])
        nodes = state.nodes[at["nodes"] : at["nodes"] + sizes[2]]
        nodes[:] = part.nodes
        for child in ("left", "right"):
            nodes[child][nodes[child] != NONE] += np.uint32(at["nodes"])
        nodes["head"][nodes["list"] != NONE] += np.uint32(at["blocks"])
        nodes["list"][nodes["list"] != NONE] += np.uint32(at["entries"] if part.kind == LISTS else at["blocks"])
        state.keys[at["keys"] : at["keys"] + sizes[3]] = part.keys
        state.spans[at["spans"] : at["spans"] + sizes[4]] = part.spans
        return self._enter(dim, part, at, sizes)

    def _enter(self, dim: int, part: Part, at: dict[str, int], sizes: tuple[int, ...]) -> int:
        unused = np.flatnonzero(self.state.trees["size"] == 0)
        if not len(unused):
            unused = np.array([len(self.state.trees)])
            more = grown(self.state.trees, len(self.state.trees) + max(4, len(self.state.trees)))
            self.state = self.state._replace(trees=more)
        tree = int(unused[0])
        record = self.state.trees[tree : tree + 1]
        record["kind"], record["size"], record["leaves"] = part.kind, part.size, part.leaves
        record["root"] = part.root + (at["nodes"] if part.kind in (LISTS, BLOCKS) else at["blocks"])
        record["dead"], record["slack"] = 0, 0.0
        for name, first, size in zip(REGIONS, FIRST, sizes, strict=True):
            record[first], record[name] = at[name], size
        record["next"] = self.state.firsts[dim]
        self.state.firsts[dim] = tree
        return tree

    def fell(self, dim: int, tree: int) -> None:
        """Take a tree out of its dimension and free its regions. O(trees)."""
        chain = self.chain(dim)
        at = chain.index(tree)
        trees = self.state.trees
        following = trees[tree]["next"]
        if at:
            trees[chain[at - 1]]["next"] = following
        else:
            self.state.firsts[dim] = following
        for name, first in zip(REGIONS, FIRST, strict=True):
            self.regions[name].give(int(trees[tree][first]), int(trees[tree][name]))
        trees[tree]["size"] = 0

    def living(self, tree: int) -> Entries:
        """Copies of the intervals of a tree that are not dead. O(its size)."""
        record = self.state.trees[tree]
        here = slice(int(record["start"]), int(record["start"]) + int(record["size"]))
        entries = Entries(*(getattr(self.state, name)[here] for name in COLUMNS))
        return entries.take(np.flatnonzero(~np.isnan(entries.lo)))

    def raise_ancestors(self, tree: int, at: int, score: float) -> None:
        """Raise the best scores of the inner entries above an entry of a packed tree. O(levels log n)."""
        state, record = self.state, self.state.trees[tree]
        first = int(record["first_block"])
        blocks = state.blocks[first : first + int(record["blocks"])]
        base = int(record["start"])
        inner = state.link[base + int(record["size"]) : base + int(record["entries"])]
        while True:
            block = first + int(np.searchsorted(blocks["start"], at, side="right")) - 1
            above = int(np.searchsorted(inner, block))
            if above == len(inner) or inner[above] != block:
                return  # the root
            at = base + int(record["size"]) + above
            state.score[at] = max(state.score[at], score)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, cut to what is used."""
        cut = {name: getattr(self.state, name)[:size] for name, size in self._sizes().items()}
        free = [(REGIONS.index(name), *span) for name in REGIONS for span in self.regions[name].free]
        return {
            **cut,
            "trees": self.state.trees,
            "firsts": self.state.firsts,
            "free": np.array(free, np.int64).reshape(-1, 3),
        }

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray]) -> Pools:
        pools = cls(0)
        pools.state = Forest(**{name: saved[name] for name in Forest._fields})
        used = len(saved["lo"]) - PAD, *(len(saved[name]) for name in REGIONS[1:])
        for number, (name, size) in enumerate(zip(REGIONS, used, strict=True)):
            free = [(int(a), int(b)) for kind, a, b in saved["free"].tolist() if kind == number]
            pools.regions[name] = Regions(size, free)
        return pools

    def check(self) -> None:
        """Every element of every array belongs to one tree or is free."""
        trees = self.state.trees[self.live()]
        for name, first in zip(REGIONS, FIRST, strict=True):
            spans = [(int(t[first]), int(t[name])) for t in trees if t[name]] + self.regions[name].free
            check_regions(name, spans, self.regions[name].used)

    def _reserve(self) -> None:
        """Give every array the length that its regions need: by half more, or exactly that for a first tree."""
        state = self.state
        short = {name: size for name, size in self._sizes().items() if len(getattr(state, name)) < size}
        for name, size in short.items():
            length = len(getattr(state, name))
            short[name] = size if length <= PAD else max(size, length * 3 // 2)
        self.state = state._replace(**{name: grown(getattr(state, name), size) for name, size in short.items()})

    def _sizes(self) -> dict[str, int]:
        """How many elements of each array are in use."""
        used = {name: regions.used for name, regions in self.regions.items()}
        entries = used.pop("entries") + PAD
        return {**dict.fromkeys(COLUMNS, entries), **used}


def empty_forest(dimensions: int) -> Forest:
    return Forest(
        lo=np.zeros(PAD),
        hi=np.zeros(PAD),
        score=np.zeros(PAD),
        link=np.zeros(PAD, np.int64),
        blocks=np.zeros(0, BLOCK),
        nodes=np.zeros(0, NODE),
        keys=np.zeros(0),
        spans=np.zeros(0, np.uint32),
        trees=np.zeros(0, TREE),
        firsts=np.full(dimensions, NONE),
    )
