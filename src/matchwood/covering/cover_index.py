"""CoverIndex: finds covers among millions of subscriptions, and reduces a set to those that nothing covers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from matchwood.covering.kernels import build as covering_build
from matchwood.covering.kernels import forest as forest_kernel
from matchwood.covering.kernels import search as search_kernel
from matchwood.covering.kernels import signatures as covering_signatures
from matchwood.covering.kernels import update as covering_update
from matchwood.covering.kernels.forest import Forest, Scratch
from matchwood.encode.arrays import Int64s, Rows
from matchwood.errors import MatchwoodError, QueryError, StorageError, SubscriptionError, UnsupportedError
from matchwood.store.growth import grown
from matchwood.store.kernels.rows import NONE
from matchwood.store.row_store import RowStore, Slots
from matchwood.store.storage import read_folder, write_folder

ALL = 1 << 62
"""As `k`: every cover."""
ANY_ID = np.iinfo(np.int64).max
"""As `before`: equals count as covers whatever their id."""

KIND = "covers"
VIEWS = ("points", "corners")
"""The pools of a forest that are `words` seen as another type."""

Progress = Callable[[int, int], None]


class Found(NamedTuple):
    """Ids found for each query, CSR."""

    offsets: Int64s
    ids: Int64s

    def of(self, query: int) -> Int64s:
        return self.ids[self.offsets[query] : self.offsets[query + 1]]


@dataclass(frozen=True, slots=True)
class Work:
    """What searches did: Covering's measures (V-A)."""

    searches: int
    nodes_visited: int
    points_compared: int


class CoverIndex:
    """Subscriptions, searchable for those that cover a given one and those that it covers.

    Layout and invariants: `kernels.forest`. A subscription may have several rows, interval sets, absences and circles;
    covering is what `covering.exact` says, to the bit. One writer, no reader at the same time.

    `overflow` and `underflow` are the limits of a bucket (Covering IV-C); `overflow=None` keeps every signature in one bucket:
    the naive scan.

    >>> from matchwood.encode.arrays import make_rows
    >>> index = CoverIndex()
    >>> index.insert(make_rows([1, 2], [0, 0], [0, 1, 2], [0, 0], [0, 0], [0.0, 2.0], [9.0, 3.0], [1, 1]))
    >>> query = make_rows([7], [0], [0, 1], [0], [0], [2.0], [3.0], [1])
    >>> index.covers_of(query, k=5).of(0).tolist(), index.covered_by(query).of(0).tolist()
    ([1, 2], [2])
    """

    def __init__(self, *, overflow: int | None = 256, underflow: int | None = None) -> None:
        if underflow is None:
            underflow = 0 if overflow is None else overflow // 4
        if overflow is not None and not 0 <= underflow * 2 <= overflow:
            raise QueryError(f"expected 0 <= underflow <= overflow / 2, got {underflow} and {overflow}")
        self.overflow, self.underflow = overflow, underflow
        self.store = RowStore()
        counts = np.zeros(forest_kernel.COUNTS, np.int64)
        counts[forest_kernel.FREE_NODE] = int(NONE)
        counts[forest_kernel.REGIONS :] = counts[forest_kernel.PENDING] = forest_kernel.NO_WHERE
        counts[forest_kernel.OVERFLOW] = forest_kernel.NEVER if overflow is None else overflow
        counts[forest_kernel.UNDERFLOW] = 0 if overflow is None else underflow
        counts[forest_kernel.TRIES] = 1
        words = np.zeros(1024, np.int64)
        self.state = Forest(
            np.zeros(8, forest_kernel.GROUP),
            np.zeros(64, np.uint32),
            np.zeros(128, forest_kernel.NODE),
            words,
            words.view(np.float64),
            words.view(np.float32),
            np.zeros(0, forest_kernel.PLACE),
            np.zeros(16, forest_kernel.TRIE),
            _links(64),
            counts,
        )
        self.state.tries[0]["group"] = NONE
        self.scratch = new_scratch(256, 4096)
        self.counters = np.zeros(3, np.int64)

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return self.store.subscriptions

    def insert(self, rows: Rows) -> None:
        """Add the rows of new subscriptions. O(log n) a row; many at once are built in bulk."""
        if rows.size:
            if int(np.diff(rows.offsets).max()) > forest_kernel.MAX_ITEMS:
                raise UnsupportedError(f"a row has more than {forest_kernel.MAX_ITEMS} entries")
            slots = self.store.add(rows)
            self.plant(slots)

    def plant(self, slots: Slots) -> None:
        """Enter rows that are in the store into the trees."""
        self.reserve_places()
        if len(slots) > 256 + int(self.state.counts[forest_kernel.ROWS]) // 4:
            self._build(slots)
            return
        done = 0
        while done < len(slots):
            first = done
            done = int(covering_update.insert_many(self.state, self.store.state, slots, done, self.scratch))
            self.settle(grow=done == first)

    def delete(self, ids: Int64s) -> None:
        """Remove subscriptions, all or (if one is not known) none. O(log n) a row."""
        ids = np.ascontiguousarray(ids, np.int64)
        if len(np.unique(ids)) != len(ids):
            raise SubscriptionError("a subscription is named twice in one delete")
        self.uproot(self.store.slots_of(ids))
        self.store.remove(ids)

    def uproot(self, slots: Slots) -> None:
        """Take rows that are still in the store out of the trees."""
        done = 0
        while done < len(slots):
            done = int(covering_update.delete_many(self.state, slots, done, self.scratch))
            self.settle(grow=False)

    def covers_of(self, rows: Rows, *, k: int = 1, before: int | Int64s = ANY_ID) -> Found:
        """Up to k subscriptions that cover each given one (Covering's cov_k), in no particular order.

        Equals, which cover each other, count only if their id is smaller than `before`.
        """
        if k < 1:
            raise QueryError(f"expected k >= 1, got {k}")
        other = RowStore()
        slots = other.add(rows)
        heads = slots[_first_of_each(rows.ids)]
        limits = np.ascontiguousarray(np.broadcast_to(np.asarray(before, np.int64), heads.shape))
        return self._covers(other, heads, limits, min(k, max(len(self), 1)))

    def cover_of(self, rows: Rows) -> list[int | None]:
        """One cover of each subscription, or None."""
        found = self.covers_of(rows)
        return [int(found.of(q)[0]) if len(found.of(q)) else None for q in range(len(found.offsets) - 1)]

    def covered_by(self, rows: Rows) -> Found:
        """All subscriptions that each given one covers, equals included. O(groups + what is visited)."""
        other = RowStore()
        slots = other.add(rows)
        heads = slots[_first_of_each(rows.ids)]

        def run(first: int, out: Int64s, ends: Int64s) -> int:
            state = self.state, self.store.state, other.state
            return int(search_kernel.covered_many(*state, heads, first, self.scratch, out, ends, self.counters))

        return _collected(len(heads), 1024, run)

    def reduce(self, progress: Progress | None = None) -> tuple[Int64s, dict[int, int]]:
        """(ids that nothing else covers, ascending; covered id -> one of those that covers it).

        Of equals the smallest id is kept. The kept set is minimal: no kept subscription covers another. One search a
        subscription.
        """
        kept, covered, cover = self.reduce_arrays(progress)
        return kept, dict(zip(covered.tolist(), cover.tolist(), strict=True))

    def reduce_arrays(self, progress: Progress | None = None) -> tuple[Int64s, Int64s, Int64s]:
        """As `reduce`, the map as two arrays."""
        ids = self.store.ids()
        heads = self._heads(ids)
        cover = np.full(len(ids), -1, np.int64)
        step = 16_384
        for start in range(0, len(ids), step):
            part = slice(start, min(start + step, len(ids)))
            found = self._covers(self.store, heads[part], ids[part], 1)
            has = np.diff(found.offsets) > 0
            cover[part][has] = found.ids
            if progress is not None:
                progress(part.stop, len(ids))
        at = np.flatnonzero(cover >= 0)
        to = np.arange(len(ids))
        to[at] = np.searchsorted(ids, cover[at])
        while True:  # a cover may be covered: follow to the top, doubling the steps
            further = to[to]
            if (further == to).all():
                break
            to = further
        return ids[cover < 0], ids[at], ids[to[at]]

    @property
    def work(self) -> Work:
        """What all searches so far did."""
        visited, compared, searches = self.counters.tolist()
        return Work(searches, visited, compared)

    @property
    def signatures(self) -> int:
        """How many different attribute signatures there are or have been."""
        return int(self.state.counts[forest_kernel.GROUPS])

    @property
    def nbytes(self) -> int:
        pools: dict[str, int] = {name: array.nbytes for name, array in self.state._asdict().items()}
        return self.store.nbytes + sum(int(size) for name, size in pools.items() if name not in ("points", "corners"))

    def check(self) -> None:
        """Verify the invariants of `kernels.forest`. O(n), in Python: for tests."""
        from matchwood.covering.forest_check import check_forest

        self.store.check()
        check_forest(self.state, self.store)

    def save(self, path: str | Path) -> None:
        """Write the index to a new folder that `load` can map. O(bytes)."""
        counts = self.state.counts
        used = {
            "groups": counts[forest_kernel.GROUPS],
            "items": counts[forest_kernel.ITEMS],
            "nodes": counts[forest_kernel.NODES],
            "words": counts[forest_kernel.WORDS],
            "places": self.store.slots,
            "tries": counts[forest_kernel.TRIES],
        }
        own = {name: array[: used.get(name, len(array))] for name, array in self.state._asdict().items()}
        arrays = {f"store_{name}": array for name, array in self.store.arrays().items()}
        arrays |= {name: array for name, array in own.items() if name not in VIEWS}
        write_folder(Path(path), KIND, {"overflow": self.overflow, "underflow": self.underflow}, arrays)

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Self:
        """The index saved at `path`, mapped into memory; changes stay in this process. `verify` as for `read_folder`."""
        about, arrays = read_folder(Path(path), KIND, verify=verify)
        try:
            index = cls(overflow=about["overflow"], underflow=about["underflow"])
            prefix = "store_"
            index.store = RowStore.of_arrays(
                {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            )
            words = arrays["words"]
            pools = {**arrays, "points": words.view(np.float64), "corners": words.view(np.float32)}
            index.state = Forest(*(pools[name] for name in Forest._fields))
        except (LookupError, TypeError, ValueError, MatchwoodError) as error:
            raise StorageError(f"{path}: the saved covers are incomplete: {error!r}") from None
        return index

    def settle(self, *, grow: bool) -> None:
        """Do what a kernel stopped for: a rebuild that asks for more scratch, or larger pools."""
        counts = self.state.counts
        top = int(counts[forest_kernel.PENDING])
        if top != forest_kernel.NO_WHERE:
            node = self.state.nodes[top]
            stride = int(self.state.groups[int(node["group"])]["stride"])
            self._reserve(int(node["count"]), stride)
            assert covering_build.rebuild(self.state, top, self.scratch)
            counts[forest_kernel.PENDING] = forest_kernel.NO_WHERE
        elif grow:
            self._grow_all()

    def _covers(self, other: RowStore, heads: Slots, before: Int64s, k: int) -> Found:
        def run(first: int, out: Int64s, ends: Int64s) -> int:
            state = self.state, self.store.state, other.state
            done = search_kernel.cover_many(*state, heads, before, k, first, self.scratch, out, ends, self.counters)
            return int(done)

        return _collected(len(heads), max(k, 1024), run)

    def _heads(self, ids: Int64s) -> Slots:
        slots = self.store.slots_of(ids)
        return slots[_first_of_each(self.store.state.rows["id"][slots])]

    def _build(self, slots: Slots) -> None:
        groups = np.empty(len(slots), np.uint32)
        done = 0
        while done < len(slots):
            done = int(covering_build.assign_groups(self.state, self.store.state, slots, done, self.scratch, groups))
            if done < len(slots):
                self._grow_all()
        order = np.argsort(groups, kind="stable")
        slots, groups = slots[order], groups[order]
        done = 0
        while done < len(slots):
            done = int(covering_build.build_groups(self.state, self.store.state, slots, groups, done, self.scratch))
            if done < len(slots):
                group = self.state.groups[groups[done]]
                root = int(group["root"])
                there = 0 if root == int(NONE) else int(self.state.nodes[root]["count"])
                end = int(np.searchsorted(groups, groups[done], side="right"))
                self._reserve(there + end - done, int(group["stride"]))

    def _reserve(self, records: int, stride: int) -> None:
        """Room to move that many records: in scratch and in the pools."""
        if records > len(self.scratch.members) or records * stride > len(self.scratch.records):
            self.scratch = new_scratch(
                max(records * 5 // 4, len(self.scratch.members)),
                max(records * stride * 5 // 4, len(self.scratch.records)),
            )
        counts, forest = self.state.counts, self.state
        words = 5 * (records + 64) * (stride + 2) // 2 + 64
        if counts[forest_kernel.WORDS] + words > len(forest.words):
            self._set_words(max(len(forest.words) * 3 // 2, int(counts[forest_kernel.WORDS]) + words))
        nodes = int(counts[forest_kernel.NODES]) + 2 * records + 16
        if nodes > len(forest.nodes):
            self.state = self.state._replace(nodes=grown(forest.nodes, max(nodes, len(forest.nodes) * 3 // 2)))

    def _grow_all(self) -> None:
        """Half as many words again, twice the other pools, and room for any one row."""
        forest, counts = self.state, self.state.counts
        self._reserve(64, 2 * forest_kernel.MAX_ITEMS)
        forest = self.state
        spare = 2 * forest_kernel.MAX_ITEMS
        self._set_words(len(forest.words) * 3 // 2)
        sizes = {
            "groups": int(counts[forest_kernel.GROUPS]) + 64,
            "items": int(counts[forest_kernel.ITEMS]) + spare,
            "tries": int(counts[forest_kernel.TRIES]) + spare,
        }
        pools = {
            name: grown(getattr(forest, name), max(2 * size, len(getattr(forest, name))))
            for name, size in sizes.items()
        }
        links = forest.links
        if 4 * (int(counts[forest_kernel.LINKS]) + spare) > len(links):
            links = _links(1 << (8 * (int(counts[forest_kernel.LINKS]) + spare)).bit_length() - 1)
            covering_signatures.relink(forest.links, links)
        self.state = self.state._replace(links=links, **pools)

    def _set_words(self, size: int) -> None:
        words = grown(self.state.words, size)
        self.state = self.state._replace(words=words, points=words.view(np.float64), corners=words.view(np.float32))

    def reserve_places(self) -> None:
        """A place for every slot of the store."""
        slots = self.store.slots
        if slots > len(self.state.places):
            self.state = self.state._replace(
                places=grown(self.state.places, max(slots, len(self.state.places) * 3 // 2))
            )


def _first_of_each(ids: Int64s) -> NDArray[np.bool_]:
    return np.concatenate([np.ones(1, np.bool_), ids[1:] != ids[:-1]]) if len(ids) else np.zeros(0, np.bool_)


def _collected(queries: int, room: int, run: Callable[[int, Int64s, Int64s], int]) -> Found:
    """Call a kernel until every query is done, with more room whenever it asks."""
    ends = np.zeros(queries, np.int64)
    parts: list[Int64s] = []
    done = before = 0
    while done < queries:
        out = np.empty(room, np.int64)
        first, done = done, run(done, out, ends)
        room *= 2
        if done == first:
            continue
        n = int(ends[done - 1])
        ends[first:done] += before
        before += n
        parts.append(out[:n])
    return Found(np.concatenate([np.zeros(1, np.int64), ends]), np.concatenate([np.zeros(0, np.int64), *parts]))


def _links(size: int) -> np.ndarray:
    links = np.zeros(size, forest_kernel.LINK)
    links["key"] = forest_kernel.NO_KEY
    return links


def new_scratch(members: int, records: int) -> Scratch:
    """Room for one operation of the kernels, and to build a subtree of that many members and coordinates anew."""
    most = 2 * forest_kernel.MAX_ITEMS
    return Scratch(
        np.zeros(most, np.uint32),
        np.zeros(2 * most),
        np.zeros(2 * most),
        np.zeros(2 * most, np.float32),
        np.zeros(2 * most, np.int64),
        np.zeros(4 * forest_kernel.STACK, np.int64),
        np.zeros(members, np.int64),
        np.zeros(members, np.int64),
        np.zeros(records),
        np.zeros(forest_kernel.SAMPLE),
    )
