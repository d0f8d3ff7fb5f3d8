"""VCR: rectangles cut into virtual construct rectangles, so that a point finds its rows in a few lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Int64s
from matchwood.errors import QueryError, SubscriptionError
from matchwood.index import vcr_plan as plan
from matchwood.index.protocol import EVERYTHING, Capability, Index
from matchwood.index.row_store import Slots
from matchwood.index.vcr_geometry import Constructs, Rectangle
from matchwood.kernels import vcr as kernel
from matchwood.kernels import vcr_match
from matchwood.kernels.results import Out
from matchwood.kernels.store import NONE
from matchwood.kernels.vcr import State
from matchwood.kernels.vcr_match import Scratch

DIRECTORIES = ("auto", "array", "hash")


class VCR(Index):
    """A grid over two dimensions; each row's rectangle is a few VCRs, each with a list of the rows that have it (VCR, section 2).

    Layout and kernels: `kernels.vcr`, `kernels.vcr_match`; the paper's definitions: `vcr_geometry`; choices: `vcr_plan`.
    Invariant: a row is in exactly the lists of its decomposition, and no other list exists (`check`).
    Insert O(pieces) a row, delete O(pieces * list / 16); match O(corners of a covering set + its active lists + hits) an event.

    Rows whose predicates are one interval on each of the two dimensions need no verification where their cells are covered
    whole; everything else is decided by the row store. Rows that lack one of the two stand in a strip, found by the other.

    dims         the two dimensions (default: chosen from the rows)
    sides        (L_x, L_y), powers of two up to 64 (default: chosen from the rows)
    overlapped   cut by overlapped instead of simple decomposition
    directory    "array" (one header a VCR), "hash" (one an active VCR), or "auto": an array unless it would dwarf the rows
    cells        the most cells an axis may have
    hash_size    the least size of the hash directory

    >>> from matchwood.encode.arrays import make_events, make_rows
    >>> rows = make_rows([7], [0.0], [0, 2], [0, 1], [0, 0], [3.0, 3.0], [14.0, 9.0], [0.5, 0.25])
    >>> index = VCR.build(rows)
    >>> hits = index.match(make_events([0, 2, 4], [0, 1, 0, 1], [5.0, 9.0, 5.0, 9.5], [5.0, 9.0, 5.0, 9.5]))
    >>> hits.offsets.tolist(), hits.ids.tolist(), hits.scores.tolist()
    ([0, 1, 1], [7], [0.75])
    """

    name = "vcr"
    capabilities = EVERYTHING - {Capability.ANY}

    def __init__(
        self,
        *,
        dims: tuple[int, int] | None = None,
        sides: tuple[int, int] | None = None,
        overlapped: bool = False,
        directory: str = "auto",
        cells: int | None = None,
        hash_size: int = 0,
    ) -> None:
        super().__init__()
        if directory not in DIRECTORIES:
            raise QueryError(f"expected a directory out of {', '.join(DIRECTORIES)}, got {directory!r}")
        allowed = [1 << power for power in range(plan.MOST_POWER + 1)]
        if sides is not None and not (len(sides) == 2 and set(sides) <= set(allowed)):
            raise QueryError(f"expected two sides out of {', '.join(map(str, allowed))}, got {sides!r}")
        if cells is not None and not 1 <= cells < 0xFFFF:
            raise QueryError(f"expected 1 to 65534 cells an axis, got {cells!r}")
        self._dims = None if dims is None else (int(dims[0]), int(dims[1]))
        self._sides = None if sides is None else (int(sides[0]), int(sides[1]))
        self._overlapped, self._directory, self._cells, self._hash_size = overlapped, directory, cells, hash_size
        self._planned = 0  # how many rows the grid was laid out for
        self._pieces = np.zeros(kernel.MOST_PIECES, kernel.PIECE)
        self._box = np.zeros(vcr_match.BOX, np.int64)
        no_dims = plan.NO_DIMENSION, plan.NO_DIMENSION
        self._state = self._laid_out(no_dims, np.zeros(1), np.zeros(1), (1, 1))
        self._found = self._new_found()

    @property
    def dims(self) -> tuple[int, int]:
        """The two dimensions of the grid; 65536 for none."""
        return int(self._state.counts[kernel.X_DIM]), int(self._state.counts[kernel.Y_DIM])

    @property
    def sides(self) -> tuple[int, int]:
        """(L_x, L_y): the longest sides a VCR has."""
        counts = self._state.counts
        return 1 << int(counts[kernel.X_POWER]), 1 << int(counts[kernel.Y_POWER])

    @property
    def cells(self) -> tuple[int, int]:
        """(R_x, R_y): how many cells each axis has, without the strips."""
        return len(self._state.x_edges), len(self._state.y_edges)

    def _insert(self, slots: Slots) -> None:
        if len(self.store) >= int(kernel.POSITION):
            raise SubscriptionError(f"index 'vcr' holds at most {int(kernel.POSITION) - 1} rows")
        if len(self.store) > 2 * self._planned:
            self._build(self.store.live_slots())
            return
        if len(slots) > 1000:
            slots = self._by_cell(slots)
        self._enter(slots)

    def _delete(self, slots: Slots) -> None:
        positions = self._state.positions[slots]
        if 8 * len(slots) >= len(self.store) and len(slots) > 1:
            kernel.sweep_positions(self._state, positions)
        else:
            kernel.remove_positions(self._state, positions, self._pieces)

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        state = self._state, self.store.state, self._scratch()
        return int(vcr_match.match_many(*state, events, first, combine, out, ends, self._candidates))

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        state = self._state, self.store.state, self._scratch()
        return int(vcr_match.top_many(*state, events, first, combine, k, out, ends, self._candidates))

    def _arrays(self) -> dict[str, np.ndarray]:
        state, counts = self._state, self._state.counts
        used = {"entries": counts[kernel.POOL], "hits": counts[kernel.POSITIONS], "places": counts[kernel.POSITIONS]}
        planned = np.array([self._planned])
        return {"planned": planned, **{n: a[: used.get(n, len(a))] for n, a in state._asdict().items()}}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._state = State(*(saved[name] for name in State._fields))
        self._planned = int(saved["planned"][0])
        self._found = self._new_found()

    def _parameters(self) -> dict[str, Any]:
        return {
            "dims": self._dims,
            "sides": self._sides,
            "overlapped": self._overlapped,
            "directory": self._directory,
            "cells": self._cells,
            "hash_size": self._hash_size,
        }

    def _nodes(self) -> int:
        return int(self._state.counts[kernel.LISTS])

    def _details(self) -> dict[str, float]:
        state, live = self._state, max(len(self.store), 1)
        lists = state.directory["load"][state.directory["id"] >= 0] & kernel.SIZE
        return {
            "side_x": self.sides[0],
            "side_y": self.sides[1],
            "cells": float(np.prod(self.cells)),
            "active": float(len(lists)),
            "entries_per_row": float(lists.sum()) / live,
            "hashed": float(state.counts[kernel.HASHED]),
            "load_factor": len(lists) / len(state.directory),
            "index_bytes": float(sum(array.nbytes for array in self._arrays().values())),
        }

    # laying out

    def _build(self, slots: Slots) -> None:
        """Choose dimensions, grid and sides for these rows and lay everything out afresh. O(pieces + corners), thrice."""
        hulls = plan.hulls_of(self.store, slots, plan.SAMPLE)
        dims = plan.choose_dimensions(hulls) if self._dims is None else self._dims
        most = plan.default_cells(len(slots)) if self._cells is None else self._cells
        every = plan.hulls_of(self.store, slots, max(len(slots), 1))
        edges = [plan.choose_edges(every, dim, most) for dim in dims]
        self._state = self._laid_out(dims, *edges, sides=(1 << plan.MOST_POWER, 1 << plan.MOST_POWER))
        self._reserve_positions(len(slots))
        sides = self._sides or self._best_sides(slots)
        self._state = self._laid_out(dims, *edges, sides=sides)
        self._reserve_positions(len(slots))
        self._fill(self._by_cell(slots))
        self._planned = len(slots)
        self._found = self._new_found()

    def _best_sides(self, slots: Slots) -> tuple[int, int]:
        """The sides chosen for a sample of rows that have both intervals."""
        sample = slots[:: max(1, len(slots) // plan.SAMPLE)]
        kernel.locate_rows(self._state, self.store.state, sample, 0)
        places = self._state.places[: len(sample)]
        both = places[(places["x"] < self.cells[0]) & (places["y"] < self.cells[1])]
        widths, heights = both["width"].astype(np.int64), both["height"].astype(np.int64)
        return plan.choose_sides(widths, heights, len(slots), self.cells[0] * self.cells[1])

    def _by_cell(self, slots: Slots) -> Slots:
        """The slots in the order of their rows' cells: in bands of eight cells, from left to right."""
        self._reserve_positions(len(slots))
        first = int(self._state.counts[kernel.POSITIONS])
        kernel.locate_rows(self._state, self.store.state, slots, first)
        places = self._state.places[first : first + len(slots)]
        return slots[np.lexsort((places["x"], places["y"] >> 3))]

    def _fill(self, slots: Slots) -> None:
        """Enter rows into an empty layout: bits, then directory, then regions of the right size in the order of ids."""
        positions = np.empty(len(slots), np.uint32)
        kernel.take_positions(self._state, self.store.state, slots, positions)
        kernel.activate_rows(self._state, positions, self._pieces)
        active = int(np.bitwise_count(self._state.active).sum())
        state = self._state
        if self._directory == "hash" or (self._directory == "auto" and self._is_sparse(len(slots))):
            state.counts[kernel.HASHED] = 1
            size = max(2 * (active + kernel.MOST_PIECES), self._hash_size)
            self._state = state._replace(directory=_headers(1 << (size - 1).bit_length()))
        else:
            self._state = state._replace(directory=_headers(len(state.active) * len(state.shapes)))
        kernel.count_entries(self._state, positions, self._pieces)
        loads = self._state.directory["load"]
        space = int((1 << np.ceil(np.log2(loads[loads > 0])).astype(np.int64)).sum()) if active else 0
        self._state = self._state._replace(entries=np.zeros(space + space // 8 + 64, np.uint32))
        kernel.lay_out_lists(self._state)
        self._append(positions)

    def _is_sparse(self, rows: int) -> bool:
        """Would an array of headers, 16 bytes each, dwarf the rows?"""
        headers = len(self._state.active) * len(self._state.shapes)
        return headers * kernel.LIST.itemsize > max(16 << 20, 64 * rows)

    def _enter(self, slots: Slots) -> None:
        self._reserve_positions(len(slots))
        positions = np.empty(len(slots), np.uint32)
        kernel.take_positions(self._state, self.store.state, slots, positions)
        self._append(positions)

    def _append(self, positions: np.ndarray) -> None:
        done = 0
        while (done := int(kernel.append_rows(self._state, positions, done, self._pieces))) < len(positions):
            self._make_room()

    def _make_room(self) -> None:
        """Twice the hash directory if it is what is short, else half as much pool again and room for the longest list."""
        state, counts = self._state, self._state.counts
        if counts[kernel.HASHED] and 2 * (counts[kernel.LISTS] + kernel.MOST_PIECES) > len(state.directory):
            directory = _headers(2 * len(state.directory))
            kernel.rehash_lists(state.directory, directory)
            self._state = state._replace(directory=directory)
            return
        longest = 1 << (int(state.directory["load"].max(initial=0)) >> int(kernel.SIZE_BITS))
        size = len(state.entries) + len(state.entries) // 2 + 2 * longest + 64
        self._state = state._replace(entries=_grown(state.entries, size))

    def _reserve_positions(self, more: int) -> None:
        state = self._state
        wanted = int(state.counts[kernel.POSITIONS]) + more
        if len(state.places) < wanted:
            size = max(wanted, len(state.places) * 3 // 2)
            state = state._replace(hits=_grown(state.hits, size), places=_grown(state.places, size))
        slots = len(self.store.state.rows)
        if len(state.positions) < slots:
            state = state._replace(positions=_grown(state.positions, slots))
        self._state = state

    def _laid_out(
        self, dims: tuple[int, int], x_edges: np.ndarray, y_edges: np.ndarray, sides: tuple[int, int]
    ) -> State:
        """An empty state for this grid."""
        powers = [side.bit_length() - 1 for side in sides]
        pitch, lines = len(x_edges) + sides[0], len(y_edges) + sides[1]
        counts = np.zeros(kernel.COUNTS, np.int64)
        counts[: kernel.HASHED] = len(x_edges), len(y_edges), *dims, *powers, pitch, self._overlapped
        counts[kernel.FREE_POSITION] = counts[kernel.REGIONS :] = int(NONE)
        shapes = np.zeros((powers[0] + 1) * (powers[1] + 1), kernel.SHAPE)
        shapes["width"] = np.tile(1 << np.arange(powers[0] + 1), powers[1] + 1)
        shapes["height"] = np.repeat(1 << np.arange(powers[1] + 1), powers[0] + 1)
        return State(
            counts,
            np.ascontiguousarray(x_edges),
            np.ascontiguousarray(y_edges),
            np.zeros(pitch * lines, np.uint64),
            _headers(1),
            np.zeros(64, np.uint32),
            np.zeros(0, kernel.HIT),
            np.zeros(0, kernel.PLACE),
            np.zeros(0, np.uint32),
            distance_table(sides, pitch, shapes),
            shapes,
        )

    def _new_found(self) -> np.ndarray:
        x, y = (2 * side - 1 for side in self.sides)
        return np.zeros(max(1024, x * y + x + y + 1), vcr_match.FOUND)

    def _scratch(self) -> Scratch:
        return Scratch(self._values, self._seen, self._found, self._box)

    # verification

    def _check(self) -> None:
        state, counts = self._state, self._state.counts
        expected: dict[int, list[int]] = {}
        live = self.store.live_slots().tolist()
        for slot in live:
            p = int(state.positions[slot])
            assert state.places[p]["slot"] == slot, f"slot {slot} does not know its position {p}"
            self._check_place(slot, p)
            for id_ in self._ids_of(p):
                expected.setdefault(id_, []).append(p)
        found = {}
        headers = np.flatnonzero(state.directory["id"] >= 0)
        for at in headers.tolist():
            header = state.directory[at]
            assert kernel.find_list(state, int(header["id"])) == at, f"VCR {header['id']} cannot be found"
            start, size = int(header["start"]), int(header["load"] & kernel.SIZE)
            found[int(header["id"])] = sorted((state.entries[start : start + size] & kernel.POSITION).tolist())
        assert found == {id_: sorted(positions) for id_, positions in expected.items()}, "lists differ from the rows'"
        assert len(found) == counts[kernel.LISTS], "lists are miscounted"
        bits = [c * len(state.shapes) + b for c in np.flatnonzero(state.active).tolist() for b in range(64)
                if int(state.active[c]) >> b & 1]  # fmt: skip
        assert sorted(found) == bits, "active bits and lists differ"
        assert counts[kernel.LIVE] == len(live) == counts[kernel.GROUPS : kernel.GROUPS + 4].sum(), (
            "rows are miscounted"
        )
        self._check_pools(headers, len(live))

    def _check_place(self, slot: int, p: int) -> None:
        """The rectangle of cells holds the exact hulls, and a row that is not to be verified has nothing else to ask."""
        state, place = self._state, self._state.places[p]
        row = self.store.state.rows[slot]
        entries = self.store.state.entries[int(row["start"]) : int(row["start"]) + int(row["count"])]
        asked = {int(e["dim"]): e for e in entries if not e["kind"] & (kernel.ABSENT | kernel.CIRCLE)}
        tested = 0
        for dim, edges, at, size in zip(
            self.dims, (state.x_edges, state.y_edges), "xy", ("width", "height"), strict=True
        ):
            first, last = int(place[at]), int(place[at]) + int(place[size]) - 1
            if first == len(edges):
                continue
            lo, hi = asked[dim]["lo"], asked[dim]["hi"]
            assert first == 0 or edges[first] <= lo, f"slot {slot}: its cells begin too late"
            assert last + 1 >= len(edges) or edges[last + 1] > hi, f"slot {slot}: its cells end too early"
            tested += 1
        if not place["flags"] & kernel.VERIFY:
            assert tested == len(entries), f"slot {slot}: a predicate is never tested"
            assert not (entries["kind"] & (kernel.SET | kernel.ABSENT | kernel.CIRCLE)).any(), f"slot {slot}: not plain"

    def _ids_of(self, p: int) -> list[int]:
        """The ids of the VCRs that position p should be in, by the paper's definitions, in the grid with its margin."""
        place, (side_x, side_y) = self._state.places[p], self.sides
        constructs = Constructs(int(self._state.counts[kernel.PITCH]), side_x, side_y)
        x, y, width, height = (int(place[name]) for name in ("x", "y", "width", "height"))
        whole = Rectangle(x + side_x - 1, y + side_y - 1, width, height)
        cut = constructs.overlapped if self._overlapped else constructs.simple
        return [constructs.id(part) for part in cut(whole)]

    def _check_pools(self, headers: np.ndarray, live: int) -> None:
        state, counts = self._state, self._state.counts
        load = state.directory["load"][headers]
        regions = list(
            zip(state.directory["start"][headers].tolist(), (load >> kernel.SIZE_BITS).tolist(), strict=True)
        )
        for class_ in range(1, kernel.COUNTS - kernel.REGIONS):
            at = int(counts[kernel.REGIONS + class_])
            while at != int(NONE):
                regions.append((at, class_))
                at = int(state.entries[at])
        end = 0
        for start, class_ in sorted(regions):
            assert start == end, f"entries {end} to {start} are lost or doubled"
            end = start + (1 << class_ >> 1)
        assert end == counts[kernel.POOL], "the end of the pool is miscounted"
        free, p = 0, int(counts[kernel.FREE_POSITION])
        while p != int(NONE):
            assert state.places[p]["slot"] == NONE, f"position {p} is free and in use"
            free, p = free + 1, int(state.places[p]["flags"])
        assert free + live == counts[kernel.POSITIONS], "a position is lost"


def distance_table(sides: tuple[int, int], pitch: int, shapes: np.ndarray) -> np.ndarray:
    """The distance table by corner: how far from the pivot's corner, and which shapes reach back to the event from there.

    Corner delta d with bit b of its mask stands for the distance d * B + b of the paper.
    """
    lines, columns = np.divmod(np.arange(sides[0] * sides[1]), sides[0])
    table = np.zeros(len(lines), kernel.DISTANCE)
    table["delta"] = columns + lines * pitch
    table["dx"], table["dy"] = sides[0] - 1 - columns, sides[1] - 1 - lines
    for bit, shape in enumerate(shapes):
        reaches = (table["dx"] < shape["width"]) & (table["dy"] < shape["height"])
        table["mask"] |= reaches.astype(np.uint64) << np.uint64(bit)
    return table


def _headers(size: int) -> np.ndarray:
    headers = np.zeros(size, kernel.LIST)
    headers["id"] = kernel.EMPTY
    return headers


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    bigger = np.zeros(size, array.dtype)
    bigger[: len(array)] = array
    return bigger
