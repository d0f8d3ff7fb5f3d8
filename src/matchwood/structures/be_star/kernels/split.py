"""Where an overflowing bucket is split: the three ways of BE*-Tree V-A3. In: intervals of its rows. Out: a cut (a, b).

    left   rows with hi <= a          right   rows with lo > b          own   the rest, which overlap the cut

So left and right never overlap, whatever the cut. Of the paper's two orders, by upper and by lower end, the first is enough: for
every cut found from the right there is one from the left with the same left bucket and no fewer rows in the right one.
Buckets of more than SAMPLE rows (batch construction only) are cut by a regular sample of them, which keeps a split O(n).
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.structures.be_star.kernels.layout import Split, length_of, middle_between

SAMPLE = 512
FIRST, SECOND = np.int64(0), np.int64(2)  # pairs of rows of `keys` that are sorted together


@subroutine
def sort_pairs(keys, row, size):
    """Sort keys[row, :size] ascending and carry keys[row + 1] along. Shell sort: no memory, and runs are short."""
    gap = np.int64(1)
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            key, other = keys[row, i], keys[row + 1, i]
            j = i
            while j >= gap and keys[row, j - gap] > key:
                keys[row, j], keys[row + 1, j] = keys[row, j - gap], keys[row + 1, j - gap]
                j -= gap
            keys[row, j], keys[row + 1, j] = key, other
        gap //= 3


@helper
def exhaustive_cut(keys, size, least):
    """The cut of least overlap, then least coverage, then best balance; (a, found). O(size) after sorting.

    keys[0], keys[1]: upper ends ascending and their lower ends; keys[2], keys[3]: lower ends ascending and their
    upper ends; keys[4] is scratch. A cut at an upper end c is overlapped by the rows with lo <= c < hi, whose hull
    runs from the least lower end among hi > c to the greatest upper end among lo <= c.
    """
    low_after = keys[4]
    low_after[size] = np.inf
    for i in range(size - 1, -1, -1):
        low_after[i] = min(low_after[i + 1], keys[1, i])
    cut, found = 0.0, False
    best_overlap, best_coverage, best_balance = np.inf, np.inf, np.int64(0)
    left_lo, reach = np.inf, -np.inf
    begun = np.int64(0)  # rows with lo <= c
    for i in range(size):
        c = keys[0, i]
        left_lo = min(left_lo, keys[1, i])
        if i + 1 < size and keys[0, i + 1] == c:
            continue
        while begun < size and keys[2, begun] <= c:
            reach = max(reach, keys[3, begun])
            begun += 1
        left, right = i + 1, size - begun
        if left < least:
            continue
        if right < least:
            break
        overlap = 0.0
        coverage = length_of(left_lo, c) + length_of(keys[2, begun], keys[0, size - 1])
        if begun > left:
            overlap = length_of(low_after[i + 1], reach)
            coverage = length_of(min(left_lo, low_after[i + 1]), max(reach, keys[2, begun]))
            coverage += length_of(max(reach, keys[2, begun]), keys[0, size - 1])
        balance = min(left, right)
        if overlap < best_overlap or (
            overlap == best_overlap
            and (coverage < best_coverage or (coverage == best_coverage and balance > best_balance))
        ):
            best_overlap, best_coverage, best_balance = overlap, coverage, balance
            cut, found = c, True
    return cut, found


@helper
def approximate_cut(keys, size, least):
    """Fill left from the left and right from the right, one row at a time, until they would meet; (a, found).

    After t turns left reaches up to the t-th upper end and right begins at the t-th lower end from above.
    """
    turns = np.int64(0)
    while turns < size and keys[0, turns] < keys[2, size - 1 - turns]:
        turns += 1
    if turns < least:
        return 0.0, False
    # What is left over may still join the left bucket if it ends before the right one begins.
    right_lo = keys[2, size - turns]
    last = turns - 1
    while last + 1 < size and keys[0, last + 1] < right_lo:
        last += 1
    return keys[0, last], True


@helper
def find_cut(tree, work, start, end, box_lo, box_hi):
    """The cut (a, b) of rows start:end whose hull is the box; data clustering first, then halves (V-A1)."""
    keys, lo, hi, options = work.keys, work.lo, work.hi, tree.options[0]
    if options.split <= Split.APPROXIMATE:
        step = 1 + (end - start - 1) // SAMPLE
        n = np.int64(0)
        for i in range(start, end, step):
            keys[0, n], keys[1, n], keys[2, n], keys[3, n] = hi[i], lo[i], lo[i], hi[i]
            n += 1
        sort_pairs(keys, FIRST, n)
        sort_pairs(keys, SECOND, n)
        least = max(np.int64(1), np.int64(np.ceil(options.alpha * n)))
        if options.split == Split.EXHAUSTIVE:
            cut, found = exhaustive_cut(keys, n, least)
        else:
            cut, found = approximate_cut(keys, n, least)
        if found:
            return cut, cut
    middle = middle_between(box_lo, box_hi)  # within the box, so that neither side takes all rows
    return np.nextafter(middle, -np.inf), middle
