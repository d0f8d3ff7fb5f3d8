"""Whether a point predicate implies a region, compiled: the same test as `covering.exact`."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.intrinsics import read_word
from matchwood.store.kernels.regions import (
    BOUNDARY,
    HEADER,
    INSIDE,
    OUTSIDE,
    PART_HEADER,
    blocks_of,
    location,
    part_words,
    side_of,
)

APART, TOUCHING, MEETING = np.int64(2), np.int64(1), np.int64(0)


@subroutine
def same_parts(narrow, n, wide, w):
    """Were the regions at words n and w made of the same parts? O(vertices)."""
    given = read_word(narrow, n + 2)
    if given != read_word(wide, w + 2):
        return False
    n, w = n + HEADER, w + HEADER
    for _ in range(np.int64(given)):
        vertices = np.int64(read_word(narrow, n + 2))
        words = part_words(vertices)
        for i in range(PART_HEADER):
            if read_word(narrow, n + i) != read_word(wide, w + i):
                return False
        for i in range(PART_HEADER + 4 * blocks_of(vertices), words):
            if read_word(narrow, n + i) != read_word(wide, w + i):
                return False
        n, w = n + words, w + words
    return True


@helper
def separation(ax, ay, bx, by, west, east, south, north):
    """APART if the edge shares no place with the box, TOUCHING if none with its interior."""
    if max(ax, bx) < west or min(ax, bx) > east or max(ay, by) < south or min(ay, by) > north:
        return APART
    left, right = np.int64(0), np.int64(0)
    if ax != bx or ay != by:
        for corner in range(4):
            x, y = east if corner & 1 else west, north if corner & 2 else south
            side = side_of(ax, ay, bx, by, x, y)
            left += np.int64(side > 0)
            right += np.int64(side < 0)
        if left == 4 or right == 4:
            return APART
    beside = max(ax, bx) <= west or min(ax, bx) >= east or max(ay, by) <= south or min(ay, by) >= north
    if beside or ((ax != bx or ay != by) and (left == 0 or right == 0)):
        return TOUCHING
    return MEETING


@subroutine
def box_in_region(entries, word, west, east, south, north):
    """Does the region at `word` accept every place of the box, as far as its edges tell? O(vertices)."""
    accepts = np.int64(read_word(entries, word + 1))
    if west == east and south == north:
        return location(entries, word, west, south) & accepts != 0
    apart = True
    part = word + HEADER
    for _ in range(np.int64(read_word(entries, word + 3))):
        vertices = np.int64(read_word(entries, part + 2))
        first = part + PART_HEADER + 4 * blocks_of(vertices)
        for v in range(max(vertices - 1, 1)):
            a, b = first + 2 * v, first + 2 * min(v + 1, vertices - 1)
            ax, ay, bx, by = (
                read_word(entries, a),
                read_word(entries, a + 1),
                read_word(entries, b),
                read_word(entries, b + 1),
            )
            found = separation(ax, ay, bx, by, west, east, south, north)
            if found == MEETING:
                return False
            apart = apart and found == APART
        part += part_words(vertices)
    where = location(entries, word, (west + east) / 2.0, (south + north) / 2.0)
    if where == INSIDE:
        both = BOUNDARY | INSIDE
        return accepts & INSIDE != 0 and (apart or (west < east and south < north and accepts & both == both))
    return apart and where == OUTSIDE and accepts & OUTSIDE != 0 and west > -180.0 and east < 180.0
