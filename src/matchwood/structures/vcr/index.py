"""VCR: rectangles cut into virtual construct rectangles, so that a point finds its rows in a few lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.errors import QueryError, SubscriptionError
from matchwood.store.growth import grown
from matchwood.store.kernels.results import Out
from matchwood.store.kernels.rows import NONE
from matchwood.store.row_store import Slots
from matchwood.structures.base import EVERYTHING, Capability, Index
from matchwood.structures.vcr import plan
from matchwood.structures.vcr.check import check_lists
from matchwood.structures.vcr.kernels import layout as kernel
from matchwood.structures.vcr.kernels import match as vcr_match
from matchwood.structures.vcr.kernels import update as vcr_update
from matchwood.structures.vcr.kernels.layout import State
from matchwood.structures.vcr.kernels.match import Scratch

DIRECTORIES = ("auto", "array", "hash")
BY_POSITION = ("hits", "boxes", "rates", "places")
BAND = 3  # rows are ordered by cell in bands of 2^3 lines, from left to right


class VCR(Index):
    """A grid over two dimensions; each row's rectangle is a few VCRs, each with a list of the rows that have it (VCR, section 2).

    Layout and kernels: `kernels.layout`, `kernels.match`; the paper's definitions: `geometry`; choices: `plan`.
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
        self._box = np.zeros(vcr_match.BOX_SIZE, np.int64)
        self._keys = np.zeros(4)
        no_dims = plan.NO_DIMENSION, plan.NO_DIMENSION
        self.state = self._laid_out(no_dims, (np.zeros(1), np.zeros(1)), (1, 1))
        self._found = self._new_found()

    @property
    def dims(self) -> tuple[int, int]:
        """The two dimensions of the grid; 65536 for none."""
        return int(self.state.counts[kernel.X_DIM]), int(self.state.counts[kernel.Y_DIM])

    @property
    def sides(self) -> tuple[int, int]:
        """(L_x, L_y): the longest sides a VCR has."""
        counts = self.state.counts
        return 1 << int(counts[kernel.X_POWER]), 1 << int(counts[kernel.Y_POWER])

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
        if len(slots) > 64:
            slots = self._by_cell(slots)
        self._enter(slots)

    def update(self, rows: Rows) -> None:
        """Replace subscriptions, in place where the cells stay: no list is touched then. O(entries) a row; else O(pieces).

        Subscriptions of several rows, before or after, are deleted and inserted.
        """
        self.repair()
        slots = self.store.slots_of(rows.ids) if rows.size else np.zeros(0, np.uint32)
        if len(slots) != rows.size or len(np.unique(rows.ids)) != rows.size:
            super().update(rows)
            return
        self.store.check_shapes(rows)
        positions = self.state.positions[slots]
        order = np.argsort(positions)  # as in `_delete`
        positions = positions[order]
        with self._changing():
            self.store.remove(rows.ids)
            slots = self.store.add(rows)[order]
            self._reserve_positions(0)
            count = int(vcr_update.replace_rows(self.state, self.store.state, slots, positions, self._pieces))
            moved = positions[:count]
            places = self.state.places[moved]
            self._append(moved[np.lexsort((places["x"], places["y"] >> BAND))])

    def _delete(self, slots: Slots) -> None:
        positions = np.sort(self.state.positions[slots])  # by cell: neighbours share lists, which then are in the cache
        if 8 * len(slots) >= len(self.store) and len(slots) > 1:
            vcr_update.sweep_positions(self.state, positions)
        else:
            vcr_update.remove_positions(self.state, positions, self._pieces)

    def _match(self, events: Events, first: int, how: int, combine: object, out: Out, ends: Int64s) -> int:
        state = self.state, self.store.state, self._scratch()
        return int(vcr_match.match_many(*state, events, first, combine, out, ends, self._candidates))

    def _top_k(self, events: Events, first: int, how: int, combine: object, k: int, out: Out, ends: Int64s) -> int:
        state = self.state, self.store.state, self._scratch()
        return int(vcr_match.top_many(*state, events, first, combine, k, out, ends, self._candidates))

    def _arrays(self) -> dict[str, np.ndarray]:
        state, counts = self.state, self.state.counts
        used = dict.fromkeys(BY_POSITION, counts[kernel.POSITIONS]) | {"entries": counts[kernel.POOL]}
        planned = np.array([self._planned])
        return {"planned": planned, **{n: a[: used.get(n, len(a))] for n, a in state._asdict().items()}}

    def _restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self.state = State(*(saved[name] for name in State._fields))
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
        return int(self.state.counts[kernel.LISTS])

    def _details(self) -> dict[str, float]:
        state, live = self.state, max(len(self.store), 1)
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
        edges = plan.choose_edges(every, dims[0], most), plan.choose_edges(every, dims[1], most)
        longest = 1 << plan.MOST_POWER
        self.state = self._laid_out(dims, edges, (longest, longest))
        self._reserve_positions(len(slots))
        sides = self._sides or self._best_sides(slots)
        self.state = self._laid_out(dims, edges, sides)
        self._reserve_positions(len(slots))
        self._fill(self._by_cell(slots))
        self._planned = len(slots)
        self._found = self._new_found()

    def _best_sides(self, slots: Slots) -> tuple[int, int]:
        """The sides chosen for a sample of rows that have both intervals."""
        sample = slots[:: max(1, len(slots) // plan.SAMPLE)]
        vcr_update.locate_rows(self.state, self.store.state, sample, 0)
        places = self.state.places[: len(sample)]
        both = places[(places["x"] < self.cells[0]) & (places["y"] < self.cells[1])]
        widths, heights = both["width"].astype(np.int64), both["height"].astype(np.int64)
        hits = plan.expected_hits(both, len(slots) * len(both) // max(len(sample), 1))
        return plan.choose_sides(widths, heights, hits)

    def _by_cell(self, slots: Slots) -> Slots:
        """The slots in the order of their rows' cells: in bands of eight cells, from left to right."""
        self._reserve_positions(len(slots))
        first = int(self.state.counts[kernel.POSITIONS])
        vcr_update.locate_rows(self.state, self.store.state, slots, first)
        places = self.state.places[first : first + len(slots)]
        return slots[np.lexsort((places["x"], places["y"] >> BAND))]

    def _fill(self, slots: Slots) -> None:
        """Enter rows into an empty layout: bits, then directory, then regions of the right size in the order of ids."""
        positions = np.empty(len(slots), np.uint32)
        vcr_update.take_positions(self.state, self.store.state, slots, positions)
        vcr_update.activate_rows(self.state, positions, self._pieces)
        active = int(np.bitwise_count(self.state.active).sum())
        state = self.state
        if self._directory == "hash" or (self._directory == "auto" and self._is_sparse(len(slots))):
            state.counts[kernel.HASHED] = 1
            size = max(2 * (active + kernel.MOST_PIECES), self._hash_size)
            self.state = state._replace(directory=_headers(1 << (size - 1).bit_length()))
        else:
            self.state = state._replace(directory=_headers(len(state.active) * len(state.shapes)))
        vcr_update.count_entries(self.state, positions, self._pieces)
        loads = self.state.directory["load"]
        space = int((1 << np.ceil(np.log2(loads[loads > 0])).astype(np.int64)).sum()) if active else 0
        self.state = self.state._replace(entries=np.zeros(space + space // 8 + 64, np.uint32))
        vcr_update.lay_out_lists(self.state)
        self._append(positions)

    def _is_sparse(self, rows: int) -> bool:
        """Would an array of headers, 16 bytes each, dwarf the rows?"""
        headers = len(self.state.active) * len(self.state.shapes)
        return headers * kernel.LIST.itemsize > max(16 << 20, 64 * rows)

    def _enter(self, slots: Slots) -> None:
        self._reserve_positions(len(slots))
        positions = np.empty(len(slots), np.uint32)
        vcr_update.take_positions(self.state, self.store.state, slots, positions)
        self._append(positions)

    def _append(self, positions: np.ndarray) -> None:
        done = 0
        while (done := int(vcr_update.append_rows(self.state, positions, done, self._pieces))) < len(positions):
            self._make_room()

    def _make_room(self) -> None:
        """Twice the hash directory if it is what is short, else half as much pool again and room for the longest list."""
        state, counts = self.state, self.state.counts
        if counts[kernel.HASHED] and 2 * (counts[kernel.LISTS] + kernel.MOST_PIECES) > len(state.directory):
            directory = _headers(2 * len(state.directory))
            vcr_update.rehash_lists(state.directory, directory)
            self.state = state._replace(directory=directory)
            return
        longest = 1 << (int(state.directory["load"].max(initial=0)) >> int(kernel.SIZE_BITS))
        size = len(state.entries) + len(state.entries) // 2 + 2 * longest + 64
        self.state = state._replace(entries=grown(state.entries, size))

    def _reserve_positions(self, more: int) -> None:
        state = self.state
        wanted = int(state.counts[kernel.POSITIONS]) + more
        if len(state.places) < wanted:
            size = max(wanted, len(state.places) * 3 // 2)
            state = state._replace(**{name: grown(getattr(state, name), size) for name in BY_POSITION})
        slots = len(self.store.state.rows)
        if len(state.positions) < slots:
            state = state._replace(positions=grown(state.positions, slots))
        self.state = state

    def _laid_out(self, dims: tuple[int, int], edges: tuple[Float64s, Float64s], sides: tuple[int, int]) -> State:
        """An empty state for this grid."""
        x_edges, y_edges = edges
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
            x_edges,
            y_edges,
            np.zeros(pitch * lines, np.uint64),
            _headers(1),
            np.zeros(64, np.uint32),
            np.zeros(0, kernel.HIT),
            np.zeros(0, kernel.BOX),
            np.zeros(0, kernel.RATE),
            np.zeros(0, kernel.PLACE),
            np.zeros(0, np.uint32),
            distance_table(sides, pitch, shapes),
            shapes,
        )

    def _new_found(self) -> np.ndarray:
        x, y = (2 * side - 1 for side in self.sides)
        return np.zeros(max(1024, x * y + x + y + 1), vcr_match.FOUND)

    def _scratch(self) -> Scratch:
        return Scratch(self._values, self._seen, self._found, self._box, self._keys)

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
