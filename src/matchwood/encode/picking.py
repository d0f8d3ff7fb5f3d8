"""Selections of rows or events of a batch, in any order. (`take` of the arrays selects a contiguous range.)"""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Rows, make_events, make_rows


def pick_rows(rows: Rows, which: Int64s) -> Rows:
    """These rows, in this order. O(entries).

    >>> rows = make_rows([4, 5], [0.0, 1.0], [0, 1, 3], [7, 7, 8], [0, 0, 0], [0, 1, 2], [0, 1, 2], [1, 1, 1])
    >>> pick_rows(rows, np.array([1, 0])).dims.tolist()
    [7, 8, 7]
    """
    offsets, at = pick_groups(rows.offsets, which)
    picked = make_rows(rows.ids[which], rows.priority[which], offsets, *(column[at] for column in rows[3:]))
    return picked.stamped(rows.schema, None if rows.until is None else rows.until[which])


def pick_events(events: Events, which: Int64s) -> Events:
    """These events, in this order. O(entries)."""
    offsets, at = pick_groups(events.offsets, which)
    return make_events(offsets, *(column[at] for column in events[1:])).stamped(events.schema)


def pick_groups(offsets: Int64s, which: Int64s) -> tuple[Int64s, Int64s]:
    """The offsets of the chosen groups, and the former position of each of their members. O(members)."""
    sizes = np.diff(offsets)[which]
    after = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return after, np.repeat(offsets[which] - after[:-1], sizes) + np.arange(after[-1])
