"""The invariants of `postings`: a row is filed under each value of its pivot, or admitted by planes and lists."""

from __future__ import annotations

import numpy as np

from matchwood.store.kernels.rows import ABSENT, COUNTED, JOINED, NARROWS, PLACE, PLAIN, SET, SIBLING
from matchwood.store.row_store import RowStore, bounds_of, set_of
from matchwood.structures.postings.kernels import layout
from matchwood.structures.postings.kernels.layout import BLOCK, HAVING, LACKING, LIVE, WORDS, Postings, place_of


def check_postings(postings: Postings, store: RowStore) -> None:
    """Raise AssertionError, saying where, if an invariant of `kernels.layout` is broken. O(rows * cells): for tests."""
    filed, placed = set(), set()
    axes = [_Axis(postings, number) for number in range(len(postings.axes))]
    for slot in store.live_slots().tolist():
        home = int(postings.homes[slot])
        assert home != int(layout.NONE), f"slot {slot} is neither filed nor in the planes"
        if home & int(layout.IS_FILED):
            filed.add(slot)
            _check_filed(postings, store, slot, home & ~int(layout.IS_FILED))
        else:
            assert postings.slots[home] == slot, f"slot {slot} does not know its position {home}"
            placed.add(home)
            _check_placed(postings, store, axes, slot, home)
    live = np.flatnonzero(_plane(postings, LIVE))
    assert placed == set(live.tolist()), "live positions and rows differ"
    dead = int(postings.counts[layout.POSITIONS]) - len(live)
    assert postings.counts[layout.DEAD] == dead, "dead positions are miscounted"
    found = [slot for file in postings.table if file["used"] for slot in _postings_of(postings, file)["slot"].tolist()]
    assert set(found) == filed, "files hold other rows than are filed"
    for list_ in postings.lists:
        members = postings.members[int(list_["start"]) : int(list_["start"]) + int(list_["size"])].astype(np.int64)
        assert (np.diff(members) > 0).all(), "a list is not ascending"


def _postings_of(postings: Postings, file: np.void) -> np.ndarray:
    if not file["size"]:
        return postings.filed[:0]
    return postings.filed[int(file["start"]) : int(file["start"]) + int(file["size"])]


def _entries(store: RowStore, slot: int) -> list[tuple[np.void, np.ndarray]]:
    """The entries of a row, each with its intervals."""
    row = store.state.rows[slot]
    start = int(row["start"])
    found = []
    for entry in store.state.entries[start : start + int(row["count"])]:
        parts = [(float(entry["lo"]), float(entry["hi"]))]
        if entry["kind"] & SET or entry["kind"] == COUNTED:
            parts = set_of(store.state.entries, start + int(entry["more"]))
        found.append((entry, np.array(parts, [("lo", "f8"), ("hi", "f8")])))
    return found


def _bound(store: RowStore, slot: int) -> float:
    """The upper bound of a row's score."""
    if len(store.state.ceilings):
        return float(store.state.ceilings["full"][slot])
    return float(((store.state.rows[slot]["flags"] >> 1).astype(np.uint32) << 16).view(np.float32))


def _score(store: RowStore, slot: int) -> float:
    """The score of a row if every predicate holds and every weight of the event is 1."""
    score = float(store.state.rows[slot]["priority"])
    for entry, _ in _entries(store, slot):
        score += 0.0 if entry["kind"] & JOINED else float(entry["weight"])
    return score


def _check_filed(postings: Postings, store: RowStore, slot: int, pivot: int) -> None:
    entries = _entries(store, slot)
    entry, parts = entries[pivot & layout.ENTRY_MASK]
    if pivot >> layout.PART:
        assert _asks_all(store, slot, entry, len(parts)), f"slot {slot} is filed under one of several values"
        parts = parts[(pivot >> layout.PART) - 1 :][:1]
    assert (parts["lo"] == parts["hi"]).all(), f"slot {slot}: its pivot names other things than values"
    keys = {(int(e["dim"]), float(part["lo"])) for e, each in entries for part in each if part["lo"] == part["hi"]}
    for part in parts:
        file = postings.table[int(place_of(postings.table, int(entry["dim"]), float(part["lo"])))]
        mine = [p for p in _postings_of(postings, file) if p["slot"] == slot]
        assert len(mine) == 1, f"slot {slot} is filed {len(mine)} times under {part['lo']}"
        assert mine[0]["score"] == _score(store, slot), f"slot {slot}: its posting has another score"
        assert bool(mine[0]["flags"] & layout.SEVERAL) == (len(parts) > 1), f"slot {slot}: wrong mark of several values"
        whole = bool(mine[0]["flags"] & layout.WHOLE)
        assert whole == _is_whole(store, slot, pivot, mine[0]), f"slot {slot}: wrong mark of a whole row"
        dim, lo, hi = int(mine[0]["dim"]), float(mine[0]["lo"]), float(mine[0]["hi"])
        if mine[0]["flags"] & layout.KEYED:
            assert (dim, lo) in keys, f"slot {slot}: {lo} is no key of the row"
            assert len(parts) > 1 or (dim, lo) != (int(entry["dim"]), float(part["lo"])), f"slot {slot}: one key twice"
            assert hi == layout.filter_bit(dim, lo), f"slot {slot}: wrong bit of its second key"
        elif dim != layout.NO_SECOND:
            seconds = {(int(e["dim"]), float(e["lo"]), float(e["hi"])) for e, _ in entries}
            assert (dim, lo, hi) in seconds, f"slot {slot}: {dim, lo, hi} is no interval of the row"


def _asks_all(store: RowStore, slot: int, entry: np.void, values: int) -> bool:
    if entry["kind"] != COUNTED:
        return False
    start = int(store.state.rows[slot]["start"])
    return bounds_of(store.state.entries, start + int(entry["more"]))[0] == values


def _is_whole(store: RowStore, slot: int, pivot: int, posting: np.void) -> bool:
    """Do the pivot and the second key or interval decide?"""
    entries = _entries(store, slot)
    if store.state.rows[slot]["flags"] & SIBLING:
        return False
    if [entry["kind"] for entry, _ in entries] == [PLAIN, COUNTED]:
        (head, _), (counted, parts) = entries
        start = int(store.state.rows[slot]["start"])
        bounds = tuple(bounds_of(store.state.entries, start + int(counted["more"])))
        is_two = bounds == (2.0, np.inf) and len(parts) == 2 and (parts["lo"] == parts["hi"]).all()
        return bool(is_two and head["lo"] == head["hi"] and head["lo"] in parts["lo"])
    rest = [entry["kind"] for i, (entry, _) in enumerate(entries) if i != pivot & layout.ENTRY_MASK]
    if entries[pivot & layout.ENTRY_MASK][0]["kind"] & ~SET:
        return False
    return bool(posting["dim"] == layout.NO_SECOND) if not rest else rest == [PLAIN]


def _plane(postings: Postings, plane: int) -> np.ndarray:
    """The bits of a plane, by position. O(positions)."""
    words = postings.bits.reshape(-1, int(postings.counts[layout.PLANES]), WORDS)[:, plane]
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return bits[: int(postings.counts[layout.POSITIONS])].astype(bool)


class _Axis:
    """What the planes and lists of an axis admit."""

    def __init__(self, postings: Postings, number: int) -> None:
        axis = postings.axes[number]
        self.dim, plane, cut = int(axis["dim"]), int(axis["plane"]), int(axis["cut"])
        self.lacking, having = _plane(postings, plane + LACKING), _plane(postings, plane + HAVING)
        self.cuts = postings.cuts[cut : cut + int(axis["cuts"])]
        with np.errstate(over="ignore"):
            self.lows, self.highs = np.append(-np.inf, self.cuts), np.append(np.nextafter(self.cuts, -np.inf), np.inf)
        self.admitted = np.tile(having, (len(self.cuts) + 1, 1))
        """By cell and position."""
        for cell in range(len(self.admitted)):
            at = cut + number + cell
            if postings.plane_of[at] >= 0:
                self.admitted[cell] = _plane(postings, int(postings.plane_of[at]))
            for list_, admits in zip(postings.lists[2 * at : 2 * at + 2], (True, False), strict=True):
                start = int(list_["start"])
                self.admitted[cell, postings.members[start : start + int(list_["size"])]] = admits

    def check(self, position: int, held: list[tuple[np.void, np.ndarray]], *, is_exact: bool) -> None:
        where = f"position {position}, dimension {self.dim}"
        absent = all(entry["kind"] == ABSENT for entry, _ in held)
        assert self.lacking[position] == absent, f"{where}: wrong bit for events that lack it"
        meets = np.ones(len(self.admitted), bool)
        for entry, parts in held:
            starts = np.searchsorted(parts["hi"], self.lows)
            begins = np.append(parts["lo"], np.inf)[starts]
            meets &= (entry["kind"] != ABSENT) & (starts < len(parts)) & (begins <= self.highs)
        admitted = self.admitted[:, position]
        assert (admitted | ~meets).all(), f"{where}: cell {np.argmin(admitted | ~meets)} does not admit it"
        if is_exact:
            assert (meets | ~admitted).all(), f"{where}: cell {np.argmin(meets | ~admitted)} admits it, and it is exact"


def _excludes(entry: np.void) -> bool:
    return bool(entry["kind"] & SET and entry["lo"] == -np.inf and entry["hi"] == np.inf)


def _excludes_only(store: RowStore, slot: int, entry: np.void) -> bool:
    start = int(store.state.rows[slot]["start"])
    return bool(entry["kind"] == COUNTED and bounds_of(store.state.entries, start + int(entry["more"]))[1] == 0.0)


def _check_hulls(postings: Postings, store: RowStore, slot: int, block: int) -> None:
    ceiling = store.state.ceilings[slot]
    for g in (0, 1):
        hull, kind = postings.hulls[2 * block + g], int(ceiling[f"kind{g}"])
        if hull["state"] == layout.MIXED:
            continue
        where = f"hull {g} of block {block}"
        assert hull["state"] == layout.HELD, f"{where} does not know of slot {slot}"
        assert hull["kind"] == kind & (3 | PLACE), f"{where} is of another kind than slot {slot}"
        assert (hull["dim"], hull["lat"]) == (ceiling[f"dim{g}"], ceiling[f"lat{g}"]), (
            f"{where} is of another attribute"
        )
        assert hull["slope"] <= ceiling[f"slope{g}"], f"{where} is steeper than slot {slot}"
        assert hull["offset"] >= ceiling[f"offset{g}"], f"{where} falls sooner than slot {slot}"
        assert hull["weight"] <= ceiling[f"weight{g}"], f"{where} weighs more than slot {slot}"
        key = np.array([ceiling[f"key{g}"]])
        if kind & PLACE:
            origin = *key.view(np.float32).tolist(), float(ceiling[f"z{g}"])
            box = [(hull["west"], hull["east"]), (hull["south"], hull["north"]), (hull["bottom"], hull["top"])]
        else:
            origin, box = tuple(key.view(np.float64).tolist()), [(hull["west"], hull["east"])]
        assert all(lo <= at <= hi for at, (lo, hi) in zip(origin, box, strict=True)), f"slot {slot} is outside {where}"


def _check_placed(postings: Postings, store: RowStore, axes: list[_Axis], slot: int, position: int) -> None:
    row = store.state.rows[slot]
    assert not _bound(store, slot) > postings.bounds[position // BLOCK], f"slot {slot} may score more than its block"
    if len(postings.hulls):
        _check_hulls(postings, store, slot, position // BLOCK)
    assert postings.hits[position]["score"] == _score(store, slot), (
        f"position {position} has another score than its row"
    )
    assert postings.hits[position]["id"] == row["id"], f"position {position} has another id than its row"
    by_axis: dict[int, list[tuple[np.void, np.ndarray]]] = {}
    is_exact = bool(postings.exact[position >> 6] >> np.uint64(position & 63) & np.uint64(1))
    excluding = False
    for entry, parts in _entries(store, slot):
        excluding |= _excludes(entry) or _excludes_only(store, slot, entry)
        dim = int(entry["dim"])
        number = int(postings.axis_of[dim]) if dim < len(postings.axis_of) else -1
        if _excludes_only(store, slot, entry):
            assert number < 0 or postings.axes[number]["excludes"], (
                f"axis {number} does not tell that slot {slot} excludes"
            )
            continue
        assert not (is_exact and (number < 0 or entry["kind"] & NARROWS)), f"slot {slot} is no exact one"
        if number >= 0 and not entry["kind"] & NARROWS:
            by_axis.setdefault(number, []).append((entry, parts))
    for_lists = bool(postings.exact_for_lists[position >> 6] >> np.uint64(position & 63) & np.uint64(1))
    assert for_lists == (is_exact and not excluding), f"slot {slot}: wrong bit of one that is exact for lists"
    for number, axis in enumerate(axes):
        axis.check(position, by_axis.get(number, []), is_exact=is_exact)
