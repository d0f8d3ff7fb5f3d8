"""Live events: those that subscriptions of the future may still match, in the event half of an MO-Tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Matches, Rows
from matchwood.encode.picking import pick_groups
from matchwood.errors import EventError, QueryError
from matchwood.index import mo_tree_plan as plans
from matchwood.index.batch_order import FEWEST, centres_of, neighbours, put_back
from matchwood.index.growth import grown, zeros
from matchwood.index.mo_tree_state import WORD, grown_tree, new_tree, order_by, restored_tree, saved_tree, ticks_of
from matchwood.index.protocol import MOST_ROOM_GUESSED, new_values
from matchwood.index.row_store import RowStore
from matchwood.kernels import live_events as kernel
from matchwood.kernels import live_events_match as matching
from matchwood.kernels import mo_tree
from matchwood.kernels.direct import EVENTS, FLOAT64, INT64, Direct, exact
from matchwood.kernels.live_events import Live
from matchwood.kernels.live_events_match import LiveScratch, Parts
from matchwood.kernels.mo_tree_match import FOUND
from matchwood.kernels.results import Out
from matchwood.kernels.store import EXACT_CLASSES
from matchwood.kernels.verify import ALL, ANY
from matchwood.lang.evaluate import Mode, mode_of

REPLAN = 4
SMALL = 2048
KEPT = (*EVENTS, INT64, FLOAT64)  # the types of events, ids and untils
KEEP_ONE, REMOVE_ONE, SWEEP = map(Direct, (kernel.keep_one, kernel.remove_one, kernel.sweep))
ALWAYS_SWEPT = 4  # events looked at for expiry for each that is inserted: memory comes back though nobody subscribes


class LiveEvents:
    """Events with an id and an `until` (exclusive), matched against rows that arrive later.

    Layout and kernels: `kernels.live_events` (places), `kernels.live_events_match` (answers). An event costs 8 bytes a value
    and 44 for its record, together in whole cache lines, 8 to be found by id and about 45 for its planes.
    Expired events are never returned. They are removed when a subscription meets them, by `sweep`, and by
    inserting: each event inserted looks at four others.
    One writer; matching writes too, since it removes what has expired.
    """

    def __init__(self, *, like: Callable[[], Sequence[tuple[int, int, bool]]] | None = None) -> None:
        self._like = like
        self._planned_for = 0
        self._tree = new_tree(plans.Plan((), 0))
        counts = np.zeros(kernel.COUNTS, np.int64)
        counts[kernel.FREE_SLOT], counts[kernel.REGIONS :] = int(mo_tree.NONE), int(kernel.FREE)
        table = np.full(16, mo_tree.NONE, np.uint32)
        self._live = _live(np.zeros(0, kernel.EVENT), np.zeros(0), table, counts)
        self._room: LiveScratch | None = None
        self._one = np.zeros(1, np.uint32), np.zeros(1, np.uint32)  # the slot and the bucket of a single event
        self._hits_per_row = 0.0  # of the last batch: the first guess of room for the next
        self.candidates = np.zeros(1, np.int64)

    def __len__(self) -> int:
        """How many events are kept, expired ones not yet removed included."""
        return int(self._live.counts[kernel.LIVE])

    @property
    def nbytes(self) -> int:
        live = sum(array.nbytes for array in self._live) - self._live.words.nbytes  # which is the memory of the keys
        return live + self._tree.bits.nbytes + self._tree.nodes.nbytes + self._tree.directory.nbytes

    def insert(self, events: Events, ids: Int64s, until: Float64s, *, now: float = -np.inf) -> None:
        """Keep events under new ids until their `until`, all or (if an id is kept already) none. O(entries) amortised."""
        if len(ids) != 1 or not self._keep_one(events, ids, until):
            ids, until = np.ascontiguousarray(ids, np.int64), np.ascontiguousarray(until, np.float64)
            if not len(ids) == len(until) == events.size:
                raise QueryError(
                    f"expected an id and an until for each of {events.size} events, got {len(ids)}, {len(until)}"
                )
            if len(ids):
                self._keep(events, ids, until)
        if now > -np.inf:
            self.sweep(now, ALWAYS_SWEPT * len(ids))

    def _keep_one(self, events: Events, ids: Int64s, until: Float64s) -> bool:
        """Keep one event in one call of a kernel; False (and nothing done) if there is no room, or something is wrong."""
        if not (isinstance(ids, np.ndarray) and isinstance(until, np.ndarray) and exact((*events, ids, until), KEPT)):
            return False
        most = REPLAN * self._planned_for
        code = int(KEEP_ONE(self._tree, self._live, events, ids, until, most, *self._one))
        if code == kernel.UNPLACED:
            self._insert(self._one[0].copy())
        return code in (kernel.DONE, kernel.UNPLACED)

    def _keep(self, events: Events, ids: Int64s, until: Float64s) -> None:
        self._check_new(ids)
        slots = np.empty(len(ids), np.uint32)
        done = 0
        while (done := int(kernel.keep_events(self._live, events, ids, until, done, slots))) < len(ids):
            self._grow(events, done)
        self._insert(slots)

    def delete(self, ids: Int64s) -> None:
        """Remove events by id, all or (if one is not kept) none."""
        ids = np.ascontiguousarray(ids, np.int64)
        if len(ids) == 1 and REMOVE_ONE(self._tree, self._live, int(ids[0])) == kernel.DONE:
            return
        slots = self._slots(ids)
        if (slots == mo_tree.NONE).any():
            raise EventError(f"event {ids[slots == mo_tree.NONE][0]} is not there")
        if not (ids[1:] > ids[:-1]).all() and len(np.unique(ids)) != len(ids):
            raise EventError("an event is named twice in one delete")
        order = order_by(self._live.events["node"][slots], int(self._tree.counts[mo_tree.NODES]))
        kernel.remove_events(self._tree, self._live, slots[order])

    def knows(self, ids: Int64s) -> np.ndarray:
        """Which of these events are kept? O(ids)."""
        return np.asarray(self._slots(np.ascontiguousarray(ids, np.int64)) != mo_tree.NONE)

    def sweep(self, now: float, limit: int = 1024) -> int:
        """Look at the next `limit` events, round and round, and remove those that have expired; return how many. O(limit)."""
        return int(SWEEP(self._tree, self._live, float(now), int(limit)))

    def match(
        self, rows: Rows, now: float, *, k: int | None = None, mode: Mode | str = Mode.ALL, combine: object = None
    ) -> Matches:
        """The live events of each subscription (adjacent rows of one id) with their scores; with k the best, in rank order.

        Ties go to smaller event ids. An event whose `until` is `now` has expired.
        """
        if k is not None and (isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1):
            raise QueryError(f"expected k to be a whole number >= 1, got {k!r}")
        how = ANY if mode_of(mode) is Mode.ANY else ALL
        store = RowStore()
        slots = store.add(rows) if rows.size else np.zeros(0, np.uint32)
        heads = np.flatnonzero(np.concatenate([[True], rows.ids[1:] != rows.ids[:-1]])) if rows.size else slots
        groups = np.append(heads, rows.size).astype(np.int64)
        order = self._order(rows, groups, how)
        if order is not None:
            groups, at = pick_groups(groups, order)
            slots = slots[at]
        most = min(int(k), max(len(self), 1)) if k else 0
        scratch = self._scratch(store)
        ends = np.zeros(len(groups) - 1, np.int64)
        ids: list[Int64s] = []
        scores: list[Float64s] = []
        # A guess that is too small costs a copy of the answers.
        expected = min(int(1.2 * self._hits_per_row * len(ends)), MOST_ROOM_GUESSED)
        room, done, before = max(1024, 4 * len(ends), most, 0 if k else expected), 0, 0
        while done < len(ends):
            out = Out(np.empty(room, np.int64), np.empty(room))
            state = self._tree, self._live, store.state, slots, groups, done, scratch
            first, done = done, int(matching.match_rows(*state, now, how, combine, most, out, ends, self.candidates))
            if done == first:
                room *= 4
                continue
            n = int(ends[done - 1])
            ends[first:done] += before
            before += n
            ids.append(out.ids[:n])
            scores.append(out.scores[:n])
            room = max(room, 2 * n)
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        if not k and len(ends):
            self._hits_per_row = before / len(ends)
        if len(ids) == 1:
            found = Matches(offsets, ids[0], scores[0])
        else:
            found = Matches(
                offsets, np.concatenate([np.zeros(0, np.int64), *ids]), np.concatenate([np.zeros(0), *scores])
            )
        return found if order is None else put_back(found, order)

    def _order(self, rows: Rows, groups: Int64s, how: int) -> Int64s | None:
        """In which order the subscriptions had better be answered, if it matters."""
        tree = self._tree
        layers = tree.axes[: min(2, int(tree.counts[mo_tree.LAYERS]))]
        if len(groups) <= FEWEST or not len(layers) or how == ANY:
            return None
        return neighbours([ticks_of(tree, axis, centres_of(rows, groups[:-1], int(axis["dim"]))) for axis in layers])

    def arrays(self) -> dict[str, np.ndarray]:
        """The kept events and their tree without spare room, for saving. O(1)."""
        live, counts = self._live, self._live.counts
        keys = live.keys[: counts[kernel.KEYS] + 1]
        saved = {"events": live.events[: counts[kernel.SLOTS]], "keys": keys, "table": live.table, "counts": counts}
        tree = {f"tree_{name}": array for name, array in saved_tree(self._tree).items()}
        return {**saved, **tree, "planned_for": np.array([self._planned_for])}

    @classmethod
    def of_arrays(
        cls, saved: Mapping[str, np.ndarray], *, like: Callable[[], Sequence[tuple[int, int, bool]]] | None = None
    ) -> LiveEvents:
        """The events that `arrays` gave, as they were. O(1)."""
        kept = cls(like=like)
        kept._live = _live(*(saved[name] for name in ("events", "keys", "table", "counts")))
        kept._tree = restored_tree({n.removeprefix("tree_"): a for n, a in saved.items() if n.startswith("tree_")})
        kept._planned_for = int(saved["planned_for"][0])
        return kept

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken. O(n), in Python: for tests."""
        live, tree = self._live, self._tree
        kept = self._slots_in_use()
        assert len(kept) == len(self), "live events are miscounted"
        starts = live.events["start"][kept].astype(np.int64)
        ids = live.words[starts + kernel.ID].astype(np.int64)
        assert self.knows(ids).all(), "an event cannot be found"
        assert (self._slots(ids) == kept).all(), "an event stands under another's id"
        assert int((live.table != mo_tree.NONE).sum()) == len(kept), "the table and the events differ"
        numbers = np.zeros(len(kept), np.uint32)
        kernel.locate_events(tree, live, kept, numbers)
        for slot, id_, number in zip(kept.tolist(), ids.tolist(), numbers.tolist(), strict=True):
            event = live.events[slot]
            node = tree.nodes[int(event["node"])]
            assert node["number"] == number, f"event {id_} stands in the wrong bucket"
            start, words, at = int(node["start"]), int(node["words"]), int(event["position"])
            assert tree.members[2 * start + at] == event["start"], f"event {id_} is misplaced"
            word = start + mo_tree.MEMBER_WORDS * words + at // 64
            assert int(tree.bits[word]) >> (at % 64) & 1, f"event {id_} stands at a free position"
        assert int(tree.nodes["count"][tree.nodes["words"] > 0].sum()) == len(kept), "nodes and live events differ"

    def _slots_in_use(self) -> np.ndarray:
        used = self._live.events["node"][: self._live.counts[kernel.SLOTS]] != mo_tree.NONE
        return np.flatnonzero(used).astype(np.uint32)

    def _insert(self, slots: np.ndarray) -> None:
        if not self._planned_for or len(self) > REPLAN * max(self._planned_for, SMALL):
            slots = self._slots_in_use()
            self._tree = new_tree(plans.planned_events(self._live, slots, self._like() if self._like else ()))
            self._planned_for = len(slots)
            slots = self._reorder(slots)
        numbers = np.empty(len(slots), np.uint32)
        kernel.locate_events(self._tree, self._live, slots, numbers)
        order = order_by(numbers, len(self._tree.directory))
        slots, numbers = slots[order], numbers[order]
        done = 0
        while (done := int(kernel.place_events(self._tree, self._live, slots, numbers, done))) < len(slots):
            self._tree = grown_tree(self._tree, len(slots) - done)
            self._room = None

    def _reorder(self, slots: np.ndarray) -> np.ndarray:
        """Lay the kept events out in the order of their buckets, without holes; return their new slots. O(n).

        Those that are verified together then lie together: a third less for a subscription that matches hundreds.
        """
        numbers = np.empty(len(slots), np.uint32)
        kernel.locate_events(self._tree, self._live, slots, numbers)
        slots = slots[order_by(numbers, len(self._tree.directory))]
        live, counts = self._live, self._live.counts
        events, keys = zeros(len(slots), kernel.EVENT), zeros(int(counts[kernel.KEYS]) + 1, WORD)
        end = int(kernel.lay_out(live, slots, events, keys))
        counts[kernel.SLOTS], counts[kernel.KEYS], counts[kernel.CURSOR] = len(slots), end, 0
        counts[kernel.FREE_SLOT], counts[kernel.REGIONS :] = int(mo_tree.NONE), int(kernel.FREE)
        live.table[:] = mo_tree.NONE
        self._live = _live(events, keys[: end + 1].view(np.float64), live.table, counts)
        kernel.enter_all(self._live, live.table)
        self._room = None
        return np.arange(len(slots), dtype=np.uint32)

    def _slots(self, ids: Int64s) -> np.ndarray:
        slots = np.empty(len(ids), np.uint32)
        kernel.slots_of_ids(self._live, ids, slots)
        return slots

    def _check_new(self, ids: Int64s) -> None:
        if ids.min() < 0:
            raise EventError(f"expected event ids that are not negative, got {ids.min()}")
        if not (ids[1:] > ids[:-1]).all() and len(np.unique(ids)) != len(ids):
            raise EventError("an event id is given twice")
        there = self.knows(ids)
        if there.any():
            raise EventError(f"event {ids[there][0]} is there already")

    def _grow(self, events: Events, done: int) -> None:
        """Room for the rest of the events, and by a quarter at least."""
        live, counts = self._live, self._live.counts
        more = events.size - done
        slots = _enough(len(live.events), int(counts[kernel.SLOTS]) + more)
        keys = _enough(len(live.keys), int(counts[kernel.KEYS]) + _space_needed(events, done) + 64)
        table = live.table
        wanted = 2 * (len(self) + more) + 2
        if wanted > len(table):
            table = np.full(1 << (wanted - 1).bit_length(), mo_tree.NONE, np.uint32)
            kernel.enter_all(live, table)
        self._live = _live(grown(live.events, slots), grown(live.keys, keys), table, counts)
        self._room = None

    def _scratch(self, store: RowStore) -> LiveScratch:
        """Scratch for this store of rows; what does not depend on it is kept between calls."""
        tree, room = self._tree, self._room
        dims = max(store.dimensions, 1)
        names = int(store.state.rows["count"].max(initial=1))
        if room is None or len(room.values) < dims or len(room.lo) < names or len(room.seen) < len(self._live.events):
            axes, most = len(tree.axes), int(self._live.counts[kernel.MOST]) + 1
            begins, ends, runs, digits = (np.zeros(axes + 1, np.int64) for _ in range(4))
            self._room = room = LiveScratch(
                new_values(dims),
                np.zeros(dims, np.int64),
                np.zeros(names),
                np.zeros(names),
                np.zeros(names, np.uint64),
                np.zeros(len(self._live.events), np.uint32),
                Parts(np.zeros(most), np.zeros(most)),
                begins,
                ends,
                np.zeros(2 * axes + 2, np.int64),
                np.zeros(2 * axes + 2, np.int64),
                np.zeros(len(tree.cells) + 2 * axes + 1, np.int64),
                runs,
                digits,
                np.zeros(len(tree.nodes) + 1, np.uint32),
                np.zeros(mo_tree.LINE, np.uint64),
                np.zeros(FOUND, np.uint32),
            )
        elif len(room.parts.lo) <= self._live.counts[kernel.MOST]:
            self._room = None
            return self._scratch(store)
        return room


def _live(events: np.ndarray, keys: np.ndarray, table: np.ndarray, counts: np.ndarray) -> Live:
    return Live(events, keys, keys.view(np.uint64), table, counts)


def _space_needed(events: Events, done: int) -> int:
    """An upper bound of the words that the regions of events[done:] take, rounding of large ones included."""
    values = int(events.offsets[-1] - events.offsets[done])
    loose = (
        (events.lo != events.hi).any() or (events.weight != 1.0).any() or (events.dims[1:] == events.dims[:-1]).any()
    )
    listed = events.dims.max(initial=0) >= kernel.MASKED
    runs = 4 if loose else 2 if listed else 1
    most = kernel.HEAD + runs * int(np.diff(events.offsets[done:]).max(initial=0))
    words = runs * values + (kernel.HEAD + mo_tree.LINE - 1) * (events.size - done)
    return words if most <= mo_tree.LINE * EXACT_CLASSES else 2 * words


def _enough(size: int, wanted: int) -> int:
    return size if size >= wanted else max(wanted, size + size // 4)
