"""The layout plan of a VCR index: its two dimensions, the edges of their cells, and the maximal sides of VCRs.

All are estimated from rows alone, as if events were distributed as the ends of rows are. They decide speed only: any
choice gives the same answers.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.store.kernels.rows import ABSENT, JOINED, NARROWS
from matchwood.store.reading import Slots
from matchwood.store.row_store import RowStore

NO_DIMENSION = 0x10000  # beyond every dimension: no event has it
SAMPLE = 4096
MAX_POWER = 6  # sides up to 64: 49 VCRs a corner, one bit each in a word of 64

# The cost of a search, in nanoseconds, fitted to the times of `bench vcr`, Figure 6. The cost of an entry is not a time of
# a search: it stands for its memory and its share of the work of an update.
CORNER_COST, LIST_COST, ENTRY_COST = 8.0, 20.0, 100.0


class Hulls(NamedTuple):
    """The hulls of a sample of rows, flat: one entry an interval."""

    row: Int64s
    dim: Int64s
    lo: Float64s
    hi: Float64s
    points: set[tuple[int, int]]  # (longitude, latitude) of the point attributes among them


def hulls_of(store: RowStore, slots: Slots, max_rows: int) -> Hulls:
    """Hulls of at most `max_rows` of these rows, evenly picked. O(entries)."""
    if len(slots) > max_rows:
        slots = slots[np.linspace(0, len(slots) - 1, max_rows).astype(np.int64)]
    rows = store.state.rows[slots]
    counts = rows["count"].astype(np.int64)
    ends = np.cumsum(counts)
    at = np.arange(counts.sum()) + np.repeat(rows["start"].astype(np.int64) - ends + counts, counts)
    entries = store.state.entries[at]
    joined = np.flatnonzero((entries["kind"] & (JOINED | NARROWS)) == JOINED)
    points = set(zip(entries["dim"][joined - 1].tolist(), entries["dim"][joined].tolist(), strict=True))
    plain = (entries["kind"] & (ABSENT | NARROWS)) == 0
    row = np.repeat(np.arange(len(slots)), counts)[plain]
    entries = entries[plain]
    return Hulls(row, entries["dim"].astype(np.int64), entries["lo"].copy(), entries["hi"].copy(), points)


def choose_dimensions(hulls: Hulls) -> tuple[int, int]:
    """The pair that lets the fewest rows pass, expected; a point's longitude and latitude win where it is close.

    The share of events that an interval lets pass is taken as the share of all ends on the dimension that it holds.
    """
    dims = np.unique(hulls.dim)
    if len(dims) == 0:
        return NO_DIMENSION, NO_DIMENSION
    passing = {}
    for dim in dims.tolist():
        passing[dim] = np.ones(int(hulls.row.max()) + 1)
        here = hulls.dim == dim
        passing[dim][hulls.row[here]] = _shares(hulls.lo[here], hulls.hi[here])
    best = sorted(passing, key=lambda dim: float(passing[dim].sum()))[:8]
    pairs = {pair: float((passing[pair[0]] * passing[pair[1]]).sum()) for pair in combinations(sorted(best), 2)}
    for pair in pairs:
        if pair in hulls.points:
            pairs[pair] *= 0.8
    if not pairs:
        return best[0], NO_DIMENSION
    return min(pairs, key=lambda pair: pairs[pair])


def choose_edges(hulls: Hulls, dim: int, max_cells: int) -> Float64s:
    """The first keys of the cells of one axis, at most `max_cells`.

    Every end of the rows if they are that few: a grid of whole numbers stays itself, and its rows are aligned with it.
    Otherwise quantiles of the ends, so many that a row is about sixteen cells long: outliers and skew cost nothing.
    """
    here = hulls.dim == dim
    lo, hi = hulls.lo[here], hulls.hi[here]
    ends = _finite_ends(lo, hi)
    if not len(ends):
        return np.zeros(1)
    distinct = np.unique(ends)
    if len(distinct) <= max_cells:
        return distinct
    some = slice(None, None, max(1, len(lo) // SAMPLE))
    share = float(_shares(lo[some], hi[some]).mean())
    cells = int(np.clip(16 / max(share, 1e-9), min(16, max_cells), max_cells))
    return np.unique(ends[np.linspace(0, len(ends) - 1, cells).astype(np.int64)])


def default_cells(rows: int) -> int:
    """The maximum of cells of an axis: the grid has about four cells a row, and its active bits fit into the caches."""
    return int(np.clip(2 * np.sqrt(rows), 16, 1024))


def expected_hits(places: np.ndarray, rows: int) -> float:
    """How many of `rows` hold an event, if events fall where the corners of the sampled `places` lie. O(256 * sample)."""
    if not len(places):
        return 0.0
    some = places[:: max(1, len(places) // 256)]
    x, y = some["x"][:, None], some["y"][:, None]
    within_x = (places["x"] <= x) & (x < places["x"] + places["width"])
    within_y = (places["y"] <= y) & (y < places["y"] + places["height"])
    return float((within_x & within_y).mean()) * rows


def choose_sides(widths: Int64s, heights: Int64s, hits: float) -> tuple[int, int]:
    """(L_x, L_y) of least cost for rectangles of these sides, in cells, and this many hits an event.

    Short sides cut a row into many entries, long ones make an event visit many lists (VCR, Figure 6). A covering set has
    L_x L_y corners and (2 L_x - 1)(2 L_y - 1) VCRs, of which no more can be active than there are hits. O(sample * 49).

    >>> sides = np.random.default_rng(1).integers(2, 42, 4000), np.random.default_rng(2).integers(2, 22, 4000)
    >>> choose_sides(*sides, hits=6000)
    (4, 4)
    >>> choose_sides(sides[0] * 8, sides[1] * 8, hits=6000)
    (16, 8)
    """
    if not len(widths):
        return 1, 1
    along_x = [_pieces(widths, power) for power in range(MAX_POWER + 1)]
    along_y = [_pieces(heights, power) for power in range(MAX_POWER + 1)]

    def cost(powers: tuple[int, int]) -> float:
        x, y = powers
        covering = (2 * 2**x - 1) * (2 * 2**y - 1)
        lists = covering * -np.expm1(-hits / covering)
        return float(CORNER_COST * 2 ** (x + y) + LIST_COST * lists + ENTRY_COST * (along_x[x] * along_y[y]).mean())

    every = [(x, y) for x in range(MAX_POWER + 1) for y in range(MAX_POWER + 1)]
    power_x, power_y = min(every, key=cost)
    return 1 << power_x, 1 << power_y


def _pieces(lengths: Int64s, power: int) -> Int64s:
    """Into how many pieces of at most 2^power simple decomposition cuts each length."""
    rest = np.bitwise_count(lengths & ((1 << power) - 1)).astype(np.int64)
    return np.asarray((lengths >> power) + rest)


def _finite_ends(lo: Float64s, hi: Float64s) -> Float64s:
    ends = np.concatenate([lo, hi])
    return np.sort(ends[np.isfinite(ends)])


def _shares(lo: Float64s, hi: Float64s) -> Float64s:
    """Of all finite ends, the share that each interval holds."""
    ends = _finite_ends(lo, hi)
    if not len(ends):
        return np.ones(len(lo))
    held = np.searchsorted(ends, hi, side="right") - np.searchsorted(ends, lo, side="left")
    return np.asarray(held / len(ends))
