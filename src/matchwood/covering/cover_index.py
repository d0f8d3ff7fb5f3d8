"""CoverIndex: finds covers among millions of subscriptions, and reduces a set to those that nothing covers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np

from matchwood.covering.base import ANY_ID, CoverBase, Found, first_of_each, largest_row
from matchwood.covering.kernels import forest
from matchwood.covering.kernels.build import build_subtrees
from matchwood.covering.kernels.forest import CoverForest
from matchwood.covering.kernels.lanes import LANES
from matchwood.covering.kernels.search import CoverQueries, covered_many
from matchwood.covering.kernels.signatures import assign_groups, relink
from matchwood.covering.kernels.update import delete_many, insert_many
from matchwood.encode.arrays import Int64s, Rows
from matchwood.errors import MatchwoodError, QueryError, StorageError
from matchwood.store.growth import grown
from matchwood.store.kernels.rows import NONE
from matchwood.store.reading import Slots
from matchwood.store.row_store import RowStore
from matchwood.store.storage import read_folder, write_folder

KIND = "covers"
VIEWS = ("points", "corners")
"""The pools of a forest that are `words` seen as another type."""
STORE = "store_"
"""The prefix of the store's arrays in a saved folder."""
REDUCED_AT_ONCE = 16_384

Progress = Callable[[int, int], None]


class CoverIndex(CoverBase):
    """Subscriptions that can be searched for those that cover a given one, and for those that it covers.

    Layout and invariants: `kernels.forest`. A subscription may have several rows, interval sets, absences and circles;
    covering is what `covering.exact` defines, to the bit.

    `overflow` and `underflow` are the limits of a bucket (Covering IV-C); `overflow=None` puts every signature into one bucket:
    the naive scan.

    >>> from matchwood.encode.arrays import make_rows
    >>> index = CoverIndex()
    >>> index.insert(make_rows([1, 2], [0, 0], [0, 1, 2], [0, 0], [0, 0], [0.0, 2.0], [9.0, 3.0], [1, 1]))
    >>> query = make_rows([7], [0], [0, 1], [0], [0], [2.0], [3.0], [1])
    >>> index.covers_of(query, k=5).of(0).tolist(), index.covered_by(query).of(0).tolist()
    ([1, 2], [2])
    """

    state: CoverForest

    def __init__(self, *, overflow: int | None = 24, underflow: int | None = None) -> None:
        super().__init__()
        if underflow is None:
            underflow = 0 if overflow is None else overflow // 4
        if overflow is not None and not 0 <= underflow * 2 <= overflow:
            raise QueryError(f"expected 0 <= underflow <= overflow / 2, got {underflow} and {overflow}")
        self.overflow, self.underflow = overflow, underflow
        self._largest_row = 0
        counts = np.zeros(forest.COUNTS, np.int64)
        counts[forest.FREE_NODES] = int(NONE)
        counts[forest.REGIONS :] = counts[forest.PENDING] = forest.NOWHERE
        counts[forest.OVERFLOW] = forest.NEVER if overflow is None else overflow
        counts[forest.UNDERFLOW] = 0 if overflow is None else underflow
        counts[forest.TRIES] = 1
        tries = np.zeros(256, forest.TRIE)
        tries[0]["group"] = NONE
        self.state = CoverForest(
            groups=np.zeros(64, forest.GROUP),
            items=np.zeros(256, np.uint32),
            nodes=np.zeros(128, forest.NODE),
            places=np.zeros(0, forest.PLACE),
            tries=tries,
            links=_links(512),
            counts=counts,
            **_word_pools(np.zeros(1024, np.int64)),
        )

    def covered_by(self, rows: Rows) -> Found:
        """All subscriptions that each given one covers, equals included. O(groups + visited nodes)."""
        return self._answer(covered_many, self._queries(rows, ANY_ID, 1), 1024)

    def reduce(self, progress: Progress | None = None) -> tuple[Int64s, dict[int, int]]:
        """(ids that nothing else covers, ascending; covered id -> one of those that covers it).

        Of equals the smallest id is kept. The kept set is minimal: no kept subscription covers another. One search for each
        subscription.
        """
        kept, covered, cover = self.reduce_arrays(progress)
        return kept, dict(zip(covered.tolist(), cover.tolist(), strict=True))

    def reduce_arrays(self, progress: Progress | None = None) -> tuple[Int64s, Int64s, Int64s]:
        """As `reduce`, the map as two arrays."""
        ids = self.store.ids()
        slots = self.store.slots_of(ids)
        heads = slots[first_of_each(self.store.state.rows["id"][slots])]
        cover = np.full(len(ids), -1, np.int64)
        for start in range(0, len(ids), REDUCED_AT_ONCE):
            part = slice(start, min(start + REDUCED_AT_ONCE, len(ids)))
            found = self._find_covers(CoverQueries(self.store.state, heads[part], ids[part], 1))
            cover[part][np.diff(found.offsets) > 0] = found.ids
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
    def signatures(self) -> int:
        """The number of different attribute signatures that there are or have been."""
        return int(self.state.counts[forest.GROUPS])

    @property
    def nbytes(self) -> int:
        views = sum(int(getattr(self.state, name).nbytes) for name in VIEWS)
        return self.store.nbytes + self.state.nbytes - views

    def check(self) -> None:
        """Verify the invariants of `kernels.forest`. O(n), in Python: for tests."""
        from matchwood.covering.forest_check import check_forest

        self.store.check()
        check_forest(self.state, self.store)

    def save(self, path: str | Path) -> None:
        """Write the index to a new folder that `load` can map. O(bytes)."""
        counts = self.state.counts
        used = {
            "groups": counts[forest.GROUPS],
            "items": counts[forest.ITEMS],
            "nodes": counts[forest.NODES],
            "words": counts[forest.WORDS] + LANES,
            "places": self.store.slots,
            "tries": counts[forest.TRIES],
        }
        own = {name: pool[: used.get(name, len(pool))] for name, pool in self.state._asdict().items()}
        arrays = {STORE + name: pool for name, pool in self.store.arrays().items()}
        arrays |= {name: pool for name, pool in own.items() if name not in VIEWS}
        write_folder(Path(path), KIND, {"overflow": self.overflow, "underflow": self.underflow}, arrays)

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Self:
        """The index saved at `path`, mapped into memory; changes stay in this process. `verify` as for `read_folder`."""
        about, arrays = read_folder(Path(path), KIND, verify=verify)
        try:
            index = cls(overflow=about["overflow"], underflow=about["underflow"])
            own = {name: pool for name, pool in arrays.items() if not name.startswith(STORE)}
            index.store = RowStore.of_arrays(
                {name.removeprefix(STORE): pool for name, pool in arrays.items() if name.startswith(STORE)}
            )
            index.state = CoverForest(**{**own, **_word_pools(own["words"])})
            if len(index.state.words) < index.state.counts[forest.WORDS] + LANES:
                raise ValueError("words.npy is too short")
            index._largest_row = int(index.state.groups["size"].max(initial=0))
            index._make_room(index._largest_row)
        except (LookupError, TypeError, ValueError, MatchwoodError) as error:
            raise StorageError(f"{path}: the saved covers are incomplete: {error!r}") from None
        return index

    def add_rows(self, rows: Rows) -> Slots:
        added = super().add_rows(rows)
        self._largest_row = max(self._largest_row, largest_row(rows) if rows.size else 0)
        slots, places = self.store.slots, self.state.places
        if slots > len(places):
            self.state = self.state._replace(places=grown(places, max(slots, len(places) * 3 // 2)))
        return added

    def settle(self, *, grow: bool) -> None:
        """Rebuild what is pending, or enlarge the pools that may have been too small."""
        counts = self.state.counts
        if counts[forest.PENDING] != forest.NOWHERE:
            top = np.array([counts[forest.PENDING]], np.uint32)
            self._build(top, np.zeros(0, np.uint32), np.zeros(1, np.int64))
            counts[forest.PENDING] = forest.NOWHERE
        elif grow and not self._grow_signatures():
            self._set_words(len(self.state.words) * 3 // 2)
            self._reserve(64, 2 * self._largest_row + 8)

    def _plant(self, slots: Slots) -> None:
        """Enter rows one by one, or rebuild the trees of all their signatures if they are many."""
        if 4 * len(slots) > int(self.state.counts[forest.ROWS]):
            self._plant_all(slots)
            return
        done = 0
        while done < len(slots):
            first = done
            done = int(insert_many(self.state, self.store.state, slots, first, self.scratch))
            self.settle(grow=done == first)

    def _uproot(self, slots: Slots) -> None:
        done = 0
        while done < len(slots):
            done = int(delete_many(self.state, self.store.state, slots, done, self.scratch))
            self.settle(grow=False)

    def _plant_all(self, slots: Slots) -> None:
        groups = np.empty(len(slots), np.uint32)
        done = 0
        while done < len(slots):
            done = int(assign_groups(self.state, self.store.state, slots, done, self.scratch, groups))
            if done < len(slots):
                self._grow_signatures()
        changed, sizes = np.unique(groups, return_counts=True)
        roots = self.state.groups["root"][changed]
        self._build(roots, slots[np.argsort(groups, kind="stable")], np.cumsum(sizes))

    def _build(self, tops: Slots, slots: Slots, ends: Int64s) -> None:
        """Rebuild the subtrees of `tops` with their share of the new rows (`build_subtrees`)."""
        done = 0
        while True:
            store = self.store.state
            done = int(build_subtrees(self.state, tops, store, slots, ends, done, self.scratch))
            if done == len(tops):
                return
            node = self.state.nodes[tops[done]]
            new = int(ends[done]) - (int(ends[done - 1]) if done else 0)
            self._reserve(int(node["count"]) + new, int(self.state.groups[node["group"]]["stride"]))

    def _reserve(self, records: int, stride: int) -> None:
        """Make room to move that many records, in scratch and in the pools."""
        counts, scratch = self.state.counts, self.scratch
        if records > len(scratch.members) or records * stride > len(scratch.records):
            members = max(records * 5 // 4, len(scratch.members))
            self.scratch = scratch._replace(
                members=np.zeros(members, np.int64),
                order=np.zeros(members, np.int64),
                records=np.zeros(max(records * stride * 5 // 4, len(scratch.records))),
            )
        words = int(counts[forest.WORDS]) + 5 * (records + 64) * (stride + 2) // 2 + 64
        if words > len(self.state.words):
            self._set_words(max(words, len(self.state.words) * 3 // 2))
        nodes = int(counts[forest.NODES]) + 2 * records + 16
        if nodes > len(self.state.nodes):
            self.state = self.state._replace(nodes=grown(self.state.nodes, max(nodes, len(self.state.nodes) * 3 // 2)))

    def _grow_signatures(self) -> bool:
        """Make room for a signature of the largest row; was there none?"""
        counts = self.state.counts
        more = self._largest_row + 1
        used = {"groups": forest.GROUPS, "items": forest.ITEMS, "tries": forest.TRIES, "nodes": forest.NODES}
        pools: dict[str, np.ndarray] = {}
        for name, position in used.items():
            pool, needed = getattr(self.state, name), int(counts[position]) + more
            if needed > len(pool):
                pools[name] = grown(pool, 2 * needed)
        needed = 2 * (int(counts[forest.LINKS]) + more)
        if needed > len(self.state.links):
            pools["links"] = _links(1 << (2 * needed).bit_length())
            relink(self.state.links, pools["links"])
        self.state = self.state._replace(**pools)
        return bool(pools)

    def _set_words(self, size: int) -> None:
        self.state = self.state._replace(**_word_pools(grown(self.state.words, size)))


def _word_pools(words: np.ndarray) -> dict[str, np.ndarray]:
    return {"words": words, "points": words.view(np.float64), "corners": words.view(np.float32)}


def _links(size: int) -> np.ndarray:
    links = np.zeros(size, forest.LINK)
    links["key"] = forest.NO_KEY
    return links
