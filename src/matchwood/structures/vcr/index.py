"""VCR: rectangles cut into virtual construct rectangles, so that a point finds its rows in a few lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s, Rows
from matchwood.errors import QueryError, SubscriptionError
from matchwood.store.growth import grown
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import NONE
from matchwood.store.reading import Slots
from matchwood.structures.base import EVERYTHING, Capability, Query
from matchwood.structures.scratch import Scratch
from matchwood.structures.stored import StoredIndex
from matchwood.structures.vcr import plan
from matchwood.structures.vcr.check import check_lists
from matchwood.structures.vcr.kernels import layout as kernel
from matchwood.structures.vcr.kernels import match as vcr_match
from matchwood.structures.vcr.kernels import update as vcr_update
from matchwood.structures.vcr.kernels.layout import Count, VCRState
from matchwood.structures.vcr.kernels.match import VCRScratch

DIRECTORIES = ("auto", "array", "hash")
BY_POSITION = ("hits", "boxes", "rates", "places")
BAND_SHIFT = 3  # rows are ordered in bands of 2^3 lines of cells


class VCR(StoredIndex):
    """A grid over two dimensions; each row's rectangle is a few VCRs, each with a list of the rows that have it (VCR, section 2).

    Layout and kernels: `kernels.layout`, `kernels.match`; the paper's definitions: `geometry`; choices: `plan`.
    Invariant: a row is in exactly the lists of its decomposition, and no other list exists (`check`).
    Insert O(pieces) a row, delete O(pieces * list / 16); match O(corners of a covering set + its active lists + hits) an event.

    Rows whose predicates are one interval on each of the two dimensions need no verification where their cells are covered
    whole; everything else is decided by the row store. Rows that lack one of the two are in a strip, found by the other.

    dims         the two dimensions (default: chosen from the rows)
    sides        (L_x, L_y), powers of two up to 64 (default: chosen from the rows)
    overlapped   cut by overlapped instead of simple decomposition
    directory    "array" (one header a VCR), "hash" (one an active VCR), or "auto": an array unless it would dwarf the rows
    cells        the maximum of cells of an axis
    hash_size    the minimum size of the hash directory

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
        allowed = [1 << power for power in range(plan.MAX_POWER + 1)]
        if sides is not None and not (len(sides) == 2 and set(sides) <= set(allowed)):
            raise QueryError(f"expected two sides out of {', '.join(map(str, allowed))}, got {sides!r}")
        if cells is not None and not 1 <= cells < 0xFFFF:
            raise QueryError(f"expected 1 to 65534 cells an axis, got {cells!r}")
        self._dims = None if dims is None else (int(dims[0]), int(dims[1]))
        self._sides = None if sides is None else (int(sides[0]), int(sides[1]))
        self._overlapped, self._directory, self._cells, self._hash_size = overlapped, directory, cells, hash_size
        self._planned = 0  # how many rows the grid was laid out for
        self._pieces = np.zeros(kernel.MAX_PIECES, kernel.PIECE)
        no_dims = plan.NO_DIMENSION, plan.NO_DIMENSION
        self.state = self._laid_out(no_dims, (np.zeros(1), np.zeros(1)), (1, 1))

    @property
    def dims(self) -> tuple[int, int]:
        """The two dimensions of the grid; 65536 for none."""
        return int(self.state.counts[Count.X_DIM]), int(self.state.counts[Count.Y_DIM])

    @property
    def sides(self) -> tuple[int, int]:
        """(L_x, L_y): the longest sides a VCR has."""
        counts = self.state.counts
        return 1 << int(counts[Count.X_POWER]), 1 << int(counts[Count.Y_POWER])

    @property
    def cells(self) -> tuple[int, int]:
        """(R_x, R_y): how many cells each axis has, without the strips."""
        return len(self.state.x_edges), len(self.state.y_edges)

    def _refuse(self, rows: Rows) -> None:
        if len(self.store) + rows.size >= int(kernel.POSITION):
            raise SubscriptionError(f"index 'vcr' holds at most {int(kernel.POSITION) - 1} rows")

    def _insert(self, slots: Slots) -> None:
        if len(self.store) > 2 * self._planned:
            self._build(self.store.live_slots())
            return
        self._append(self._positions_of(slots))

    def _delete(self, slots: Slots) -> None:
        positions = np.sort(self.state.positions[slots])  # by cell: neighbours share lists, which then are in the cache
        if 8 * len(slots) >= len(self.store) and len(slots) > 1:
            vcr_update.sweep_rows(self.state, positions)
        else:
            vcr_update.remove_rows(self.state, positions, self._pieces)

    def _set_priority(self, slots: Slots, priorities: Float64s) -> None:
        """The lists stay as they are: only the scores of the rows change."""
        with self._changing():
            self.store.set_priorities(slots, priorities)
            vcr_update.place_rows(self.state, self.store.state, slots, self.state.positions[slots])

    def _answer(self, scratch: Scratch, query: Query, first: int, out: Out, ends: Int64s) -> int:
        (events, _, combine, k), state = query, (self.state, self.store.state, scratch.own)
        return int(vcr_match.answer_many(*state, events, first, combine, k, out, ends))

    def _arrays(self) -> dict[str, np.ndarray]:
        state, counts = self.state, self.state.counts
        used = dict.fromkeys(BY_POSITION, counts[Count.POSITIONS]) | {"entries": counts[Count.POOL]}
        planned = np.array([self._planned])
        return {"planned": planned, **{n: a[: used.get(n, len(a))] for n, a in state._asdict().items()}}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self.state = VCRState(**{name: saved[name] for name in VCRState._fields})
        self._planned = int(saved["planned"][0])

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
        return int(self.state.counts[Count.LISTS])

    def _details(self) -> dict[str, float]:
        state, live = self.state, max(len(self.store), 1)
        lists = state.directory["load"][state.directory["id"] >= 0] & kernel.SIZE
        return {
            "side_x": self.sides[0],
            "side_y": self.sides[1],
            "cells": float(np.prod(self.cells)),
            "active": float(len(lists)),
            "entries_per_row": float(lists.sum()) / live,
            "hashed": float(state.counts[Count.HASHED]),
            "load_factor": len(lists) / len(state.directory),
            "index_bytes": float(sum(array.nbytes for array in self._arrays().values())),
        }

    # layout

    def _build(self, slots: Slots) -> None:
        """Choose dimensions, grid and sides for these rows and lay everything out anew. O(pieces + corners)."""
        hulls = plan.hulls_of(self.store, slots, max(len(slots), 1))
        sample = plan.hulls_of(self.store, slots, plan.SAMPLE)
        dims = plan.choose_dimensions(sample) if self._dims is None else self._dims
        max_cells = plan.default_cells(len(slots)) if self._cells is None else self._cells
        edges = plan.choose_edges(hulls, dims[0], max_cells), plan.choose_edges(hulls, dims[1], max_cells)
        longest = 1 << plan.MAX_POWER
        self.state = self._laid_out(dims, edges, (longest, longest))
        sides = self._sides or self._best_sides(slots)
        self.state = self._laid_out(dims, edges, sides)
        self._fill(self._positions_of(slots))
        self._planned = len(slots)

    def _best_sides(self, slots: Slots) -> tuple[int, int]:
        """The sides chosen for a sample of rows that have both intervals."""
        sample = np.ascontiguousarray(slots[:: max(1, len(slots) // plan.SAMPLE)])
        places = self._places_of(sample)
        both = places[(places["x"] < self.cells[0]) & (places["y"] < self.cells[1])]
        widths, heights = both["width"].astype(np.int64), both["height"].astype(np.int64)
        hits = plan.expected_hits(both, len(slots) * len(both) // max(len(sample), 1))
        return plan.choose_sides(widths, heights, hits)

    def _places_of(self, slots: Slots) -> np.ndarray:
        """The places of rows on the grid. They are written behind the positions in use."""
        self._reserve_positions(len(slots))
        first = int(self.state.counts[Count.POSITIONS])
        positions = np.arange(first, first + len(slots), dtype=np.uint32)
        vcr_update.place_rows(self.state, self.store.state, slots, positions)
        return self.state.places[first : first + len(slots)]

    def _positions_of(self, slots: Slots) -> np.ndarray:
        """Assign positions to new rows, in the order of their cells: in bands, from left to right."""
        places = self._places_of(slots)
        slots = slots[np.lexsort((places["x"], places["y"] >> BAND_SHIFT))]
        positions = np.empty(len(slots), np.uint32)
        vcr_update.take_positions(self.state, positions)
        vcr_update.place_rows(self.state, self.store.state, slots, positions)
        return positions

    def _fill(self, positions: np.ndarray) -> None:
        """Enter all rows into an empty layout, whose regions then fit their lists."""
        headers = len(self.state.active) * len(self.state.shapes)
        # An array of headers must not dwarf the rows.
        is_sparse = headers * kernel.LIST.itemsize > max(16 << 20, 64 * len(positions))
        if self._directory == "hash" or (self._directory == "auto" and is_sparse):
            self.state.counts[Count.HASHED] = 1
            headers = 1 << (max(2 * kernel.MAX_PIECES, self._hash_size) - 1).bit_length()
        self.state = self.state._replace(directory=_headers(headers))
        done = 0
        while (done := int(vcr_update.count_entries(self.state, positions, done, self._pieces))) < len(positions):
            self._double_directory()
        sizes = self.state.directory["load"]
        sizes = sizes[sizes > 0]
        space = int((1 << np.ceil(np.log2(sizes)).astype(np.int64)).sum())
        self.state = self.state._replace(entries=np.zeros(space + space // 8 + 64, np.uint32))
        vcr_update.lay_out_lists(self.state)
        self._append(positions)

    def _append(self, positions: np.ndarray) -> None:
        done = 0
        while (done := int(vcr_update.append_rows(self.state, positions, done, self._pieces))) < len(positions):
            self._make_room()

    def _make_room(self) -> None:
        """Double the hash directory if it is what is full, else enlarge the pool by half, and by room for the longest list."""
        state, counts = self.state, self.state.counts
        if counts[Count.HASHED] and 2 * (counts[Count.LISTS] + kernel.MAX_PIECES) > len(state.directory):
            self._double_directory()
            return
        longest = 1 << (int(state.directory["load"].max(initial=0)) >> int(kernel.CLASS_SHIFT))
        size = len(state.entries) + len(state.entries) // 2 + 2 * longest + 64
        self.state = state._replace(entries=grown(state.entries, size))

    def _double_directory(self) -> None:
        directory = _headers(2 * len(self.state.directory))
        vcr_update.rehash_lists(self.state.directory, directory)
        self.state = self.state._replace(directory=directory)

    def _reserve_positions(self, more: int) -> None:
        state = self.state
        wanted = int(state.counts[Count.POSITIONS]) + more
        if len(state.places) < wanted:
            size = max(wanted, len(state.places) * 3 // 2)
            state = state._replace(**{name: grown(getattr(state, name), size) for name in BY_POSITION})
        slots = len(self.store.state.rows)
        if len(state.positions) < slots:
            state = state._replace(positions=grown(state.positions, slots))
        self.state = state

    def _laid_out(self, dims: tuple[int, int], edges: tuple[Float64s, Float64s], sides: tuple[int, int]) -> VCRState:
        """An empty state for this grid."""
        x_edges, y_edges = edges
        powers = [side.bit_length() - 1 for side in sides]
        pitch, lines = len(x_edges) + sides[0], len(y_edges) + sides[1]
        counts = np.zeros(kernel.COUNTS, np.int64)
        counts[: Count.HASHED] = len(x_edges), len(y_edges), *dims, *powers, pitch, self._overlapped
        counts[Count.FREE_POSITION] = counts[Count.FREE_REGIONS :] = int(NONE)
        shapes = np.zeros((powers[0] + 1) * (powers[1] + 1), kernel.SHAPE)
        shapes["width"] = np.tile(1 << np.arange(powers[0] + 1), powers[1] + 1)
        shapes["height"] = np.repeat(1 << np.arange(powers[1] + 1), powers[0] + 1)
        return VCRState(
            counts=counts,
            x_edges=x_edges,
            y_edges=y_edges,
            active=np.zeros(pitch * lines, np.uint64),
            directory=_headers(1),
            entries=np.zeros(64, np.uint32),
            hits=np.zeros(0, kernel.HIT),
            boxes=np.zeros(0, kernel.BOX),
            rates=np.zeros(0, kernel.RATE),
            places=np.zeros(0, kernel.PLACE),
            positions=np.zeros(0, np.uint32),
            distances=distance_table(sides, pitch, shapes),
            shapes=shapes,
        )

    def _prepare(self, scratch: Scratch) -> None:
        super()._prepare(scratch)
        held, grid = scratch.own, self.state.distances  # which are those of the grid
        if held is None or scratch.fits is not grid:
            scratch.own, scratch.fits = self._new_scratch(scratch), grid
        elif held.values is not scratch.values or held.seen is not scratch.seen:
            scratch.own = held._replace(values=scratch.values, seen=scratch.seen)

    def _new_scratch(self, scratch: Scratch) -> VCRScratch:
        x, y = (2 * side - 1 for side in self.sides)
        return VCRScratch(
            values=scratch.values,
            seen=scratch.seen,
            search=np.zeros(1, vcr_match.SEARCH),
            sides=np.zeros(2, vcr_match.SIDE),
            runs=np.zeros((4, max(len(self.state.x_edges), len(self.state.y_edges)) // 2 + 1), vcr_match.RUN),
            found=np.zeros(max(1024, x * y + x + y + 1), vcr_match.FOUND),
            pending=np.zeros(2 * vcr_match.CHUNK, np.uint32),
            candidates=scratch.work.counts,
        )

    def _check(self) -> None:
        check_lists(self)


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
