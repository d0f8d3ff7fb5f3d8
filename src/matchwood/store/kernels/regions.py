"""Regions of rows: where a place is, compiled. The same answers as `lang.regions`, which uses fractions.

Layout   words of 8 bytes from the first extra of a SHAPED entry on (`WORDS` to an entry):
         the dimension of the latitude, what is accepted (bits of OUTSIDE, BOUNDARY and INSIDE), the number of parts that were
         given, the number of parts; the copies of parts that go on beyond the antimeridian come last.
         part    kind, shift of its copy, number of vertices; then the box (west, east, south, north) of each `BLOCK` edges; then
                 longitude and latitude of each vertex
         The parts of one polygon follow each other, the shell first.

The boxes of blocks make a polygon of many vertices cheap: a block above or below the place, or to the west of it, adds nothing,
and of one to the east only the two ends matter.

Exactness: the side of an edge is computed in float64, which is enough unless the place is within rounding of the edge; then its
determinant is summed without error (Shewchuk 1997, Ogita, Rump and Oishi 2005). Products are scaled so that none underflows:
vertices nearer to 0 than 1e-150 are 0 (`lang.geometry`).
"""

from __future__ import annotations

import numpy as np

from matchwood.encode import arrays
from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.intrinsics import read_word, write_word

BLOCK = 16
HEADER, PART_HEADER = 4, 3
SHELL, HOLE, LINE, POINTS = 0.0, 1.0, 2.0, 3.0
OUTSIDE, BOUNDARY, INSIDE = np.int64(1), np.int64(2), np.int64(4)

_REGION, _RING, _VERTEX = arrays.REGION, arrays.RING, arrays.VERTEX
_ERROR = 3.3306690738754716e-16
_UNDERFLOW = 1e-290
_SCALE = 2.0**500
_SPLIT = 134217729.0


@helper
def blocks_of(vertices):
    """How many blocks the edges between so many vertices make."""
    return (vertices - 1 + BLOCK - 1) // BLOCK


@helper
def part_words(vertices):
    """How many words a part of so many vertices takes."""
    return PART_HEADER + 4 * blocks_of(vertices) + 2 * vertices


@helper
def ring_size(rows, e):
    """How many vertices follow the RING entry e of the CSR arrays."""
    last = e + 1
    while last < rows.kinds.size and rows.kinds[last] == _VERTEX:
        last += 1
    return last - e - 1


@subroutine
def region_words(rows, e):
    """How many words the REGION entry e of the CSR arrays takes in the store. O(vertices)."""
    words = np.int64(HEADER)
    at = e + 1
    while at < rows.kinds.size and rows.kinds[at] == _RING:
        vertices = ring_size(rows, at)
        words += part_words(vertices) * (2 if rows.hi[at] != 0.0 else 1)
        at += 1 + vertices
    return words


@subroutine
def write_region(entries, rows, e, word, latitude):
    """Write the REGION entry e of the CSR arrays and its rings from `word` on; return the number of words. O(vertices)."""
    given, parts = np.int64(0), np.int64(0)
    to = word + HEADER
    for copies in range(2):
        at = e + 1
        while at < rows.kinds.size and rows.kinds[at] == _RING:
            vertices = ring_size(rows, at)
            if copies == 0 or rows.hi[at] != 0.0:
                write_part(entries, rows, at, vertices, to, rows.hi[at] if copies == 1 else 0.0)
                to += part_words(vertices)
                parts += 1
            at += 1 + vertices
        if copies == 0:
            given = parts
    write_word(entries, word, np.float64(latitude))
    write_word(entries, word + 1, rows.lo[e])
    write_word(entries, word + 2, np.float64(given))
    write_word(entries, word + 3, np.float64(parts))
    return to - word


@helper
def write_part(entries, rows, at, vertices, to, moved):
    """Write the part of the RING entry `at`, so many degrees to the east."""
    write_word(entries, to, rows.lo[at])
    write_word(entries, to + 1, rows.hi[at])
    write_word(entries, to + 2, np.float64(vertices))
    blocks = blocks_of(vertices)
    first = to + PART_HEADER + 4 * blocks
    for v in range(vertices):
        write_word(entries, first + 2 * v, rows.lo[at + 1 + v] + moved)
        write_word(entries, first + 2 * v + 1, rows.hi[at + 1 + v])
    for b in range(blocks):
        west, east, south, north = np.inf, -np.inf, np.inf, -np.inf
        for v in range(b * BLOCK, min(b * BLOCK + BLOCK + 1, vertices)):
            x, y = read_word(entries, first + 2 * v), read_word(entries, first + 2 * v + 1)
            west, east, south, north = min(west, x), max(east, x), min(south, y), max(north, y)
        box = to + PART_HEADER + 4 * b
        write_word(entries, box, west)
        write_word(entries, box + 1, east)
        write_word(entries, box + 2, south)
        write_word(entries, box + 3, north)


@helper
def two_sum(a, b):
    """a + b as the nearest float64 and the rest."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@helper
def two_product(a, b):
    """a * b as the nearest float64 and the rest."""
    product = a * b
    c = _SPLIT * a
    a_high = c - (c - a)
    a_low = a - a_high
    d = _SPLIT * b
    b_high = d - (d - b)
    b_low = b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@subroutine
def exact_side(ax, ay, bx, by, x, y):
    """The sign of the determinant of `side_of`, without error: its twelve terms are summed and their errors kept, until the
    sum exceeds the errors."""
    ax, ay, bx, by, x, y = ax * _SCALE, ay * _SCALE, bx * _SCALE, by * _SCALE, x * _SCALE, y * _SCALE
    t0, t1 = two_product(ax, by)
    t2, t3 = two_product(-ax, y)
    t4, t5 = two_product(-x, by)
    t6, t7 = two_product(-ay, bx)
    t8, t9 = two_product(ay, x)
    t10, t11 = two_product(y, bx)
    for _ in range(64):
        t1, t0 = two_sum(t1, t0)
        t2, t1 = two_sum(t2, t1)
        t3, t2 = two_sum(t3, t2)
        t4, t3 = two_sum(t4, t3)
        t5, t4 = two_sum(t5, t4)
        t6, t5 = two_sum(t6, t5)
        t7, t6 = two_sum(t7, t6)
        t8, t7 = two_sum(t8, t7)
        t9, t8 = two_sum(t9, t8)
        t10, t9 = two_sum(t10, t9)
        t11, t10 = two_sum(t11, t10)
        rest = abs(t0) + abs(t1) + abs(t2) + abs(t3) + abs(t4) + abs(t5)
        rest += abs(t6) + abs(t7) + abs(t8) + abs(t9) + abs(t10)
        if rest == 0.0 or abs(t11) > 2.0 * rest:
            break
    return np.int64(t11 > 0.0) - np.int64(t11 < 0.0)


@helper
def side_of(ax, ay, bx, by, x, y):
    """1 if (x, y) is to the left of the way from a to b, -1 to the right, 0 on their line. Exact."""
    left, right = (ax - x) * (by - y), (ay - y) * (bx - x)
    found = left - right
    if abs(found) > _ERROR * (abs(left) + abs(right)) + _UNDERFLOW:
        return np.int64(1) if found > 0.0 else np.int64(-1)
    return exact_side(ax, ay, bx, by, x, y)


@helper
def meets_edges(entries, first, begin, end, x, y):
    """(is the place on an edge, do the edges pass an odd number of times to the east of it) of the edges begin..end - 1."""
    odd = False
    bx, by = read_word(entries, first + 2 * begin), read_word(entries, first + 2 * begin + 1)
    for v in range(begin + 1, end + 1):
        ax, ay = bx, by
        bx, by = read_word(entries, first + 2 * v), read_word(entries, first + 2 * v + 1)
        if (ay > y and by > y) or (ay < y and by < y) or (ax < x and bx < x):
            continue
        passes = (ay > y) != (by > y)
        if ax > x and bx > x:
            odd ^= passes
            continue
        side = side_of(ax, ay, bx, by, x, y)
        if side == 0:
            return True, odd
        odd ^= passes and (side > 0) == (by > ay)
    return False, odd


@helper
def meets_part(entries, part, x, y):
    """As `meets_edges`, of all edges of a part. O(blocks + edges of the blocks around the place)."""
    vertices = np.int64(read_word(entries, part + 2))
    blocks = blocks_of(vertices)
    first = part + PART_HEADER + 4 * blocks
    odd = False
    for b in range(blocks):
        box = part + PART_HEADER + 4 * b
        if y < read_word(entries, box + 2) or y > read_word(entries, box + 3) or x > read_word(entries, box + 1):
            continue
        begin, end = b * BLOCK, min(b * BLOCK + BLOCK, vertices - 1)
        if x < read_word(entries, box):
            odd ^= (read_word(entries, first + 2 * begin + 1) > y) != (read_word(entries, first + 2 * end + 1) > y)
            continue
        on, passes = meets_edges(entries, first, begin, end, x, y)
        if on:
            return True, odd
        odd ^= passes
    return False, odd


@subroutine
def locate(entries, word, x, y):
    """Where the place is in the region that begins at `word`: OUTSIDE, BOUNDARY or INSIDE. O(blocks)."""
    found = polygon = OUTSIDE
    on_line, ends = False, np.int64(0)
    part = word + HEADER
    for _ in range(np.int64(read_word(entries, word + 3))):
        kind, vertices = read_word(entries, part), np.int64(read_word(entries, part + 2))
        first = part + PART_HEADER + 4 * blocks_of(vertices)
        last = first + 2 * vertices - 2
        if kind != HOLE:
            found, polygon = max(found, polygon), OUTSIDE
        if kind == POINTS:
            if read_word(entries, first) == x and read_word(entries, first + 1) == y:
                return INSIDE
        else:
            on, odd = meets_part(entries, part, x, y)
            if kind == LINE:
                at_begin = read_word(entries, first) == x and read_word(entries, first + 1) == y
                at_end = read_word(entries, last) == x and read_word(entries, last + 1) == y
                on_line |= on
                ends += np.int64(at_begin != at_end)
            elif on:
                polygon = BOUNDARY
            elif odd and polygon != BOUNDARY:
                polygon ^= OUTSIDE | INSIDE
        part += part_words(vertices)
    found = max(found, polygon)
    if on_line:
        found = max(found, BOUNDARY if ends & 1 else INSIDE)
    return found


@subroutine
def location(entries, word, x, y):
    """Where the place is; at longitude 180 also at -180."""
    found = locate(entries, word, x, y)
    return max(found, locate(entries, word, -x, y)) if abs(x) == 180.0 else found


@helper
def region_holds(entries, word, x, y):
    """Does the region that begins at `word` accept the place?"""
    return location(entries, word, x, y) & np.int64(read_word(entries, word + 1)) != 0


@helper
def count_vertices(entries, word):
    """(parts that were given, their vertices) of the region that begins at `word`. O(parts)."""
    given, vertices = np.int64(read_word(entries, word + 2)), np.int64(0)
    part = word + HEADER
    for _ in range(given):
        count = np.int64(read_word(entries, part + 2))
        vertices += count
        part += part_words(count)
    return given, vertices


@subroutine
def extract_region(entries, word, dim, rows, out):
    """Write the region that begins at `word` to `rows`, from entry `out` on; return the entry after it. O(vertices)."""
    write_row_entry(rows, out, dim, _REGION, read_word(entries, word + 1), 0.0)
    out += 1
    part = word + HEADER
    for _ in range(np.int64(read_word(entries, word + 2))):
        vertices = np.int64(read_word(entries, part + 2))
        write_row_entry(rows, out, dim, _RING, read_word(entries, part), read_word(entries, part + 1))
        out += 1
        first = part + PART_HEADER + 4 * blocks_of(vertices)
        for v in range(vertices):
            lon, lat = read_word(entries, first + 2 * v), read_word(entries, first + 2 * v + 1)
            write_row_entry(rows, out, dim, _VERTEX, lon, lat)
            out += 1
        part += part_words(vertices)
    return out


@helper
def write_row_entry(rows, out, dim, kind, lo, hi):
    rows.dims[out], rows.kinds[out], rows.lo[out], rows.hi[out], rows.weight[out] = dim, kind, lo, hi, 0.0
