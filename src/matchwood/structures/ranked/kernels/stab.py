"""Stabbing, best first. In: a forest, a dimension, a point or a range. Out: entries that meet it, by score, then id.

A cursor is a heap of items; an item stands for a part of a tree and is worth the best it can still give:

    SUBTREE  a node of an interval tree, not opened yet (ranges)   -> SCAN or HEAD of its list, SUBTREE of its children
    HEAD     the list of an IR-tree's node, not opened yet         -> LEAD or REST
    LEAD     its first leaf: `mask` are the entries that meet         -> a hit, or REST
    REST     its scored R-tree without the first leaf                 -> INNER for each level
    INNER    an opened inner block: `mask` are the children that meet -> RUN or INNER of the first of them
    SCAN     a run of leaf entries, best first, not tested yet        -> RUN of its first 64
    RUN      tested leaf entries: `mask` are those that meet          -> a hit
    COPIES   the list of a segment tree's node: all of them meet      -> a hit
    STREAM   a packed tree, walked depth first and left first         -> a hit, or READY if its order may be off by `slack`
    LOOSE    a block whose entries are in no order                    -> LOOSE or READY for each that meets
    READY    one entry that meets                                     -> a hit

Parts are opened only when they come to the top: a departure from Ranked 3.1, which finds the best hit of every node of the path
before the first answer. Items that are no hits go before hits of the same score, so that ties come out by id.
Cost: Ranked's, O((k + log n) b log_b n) and less; b / 8 steps to test b entries.

Readers only; a cursor belongs to one thread.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch
from matchwood.structures.ranked.kernels.bits import lowest_bit, mask_of
from matchwood.structures.ranked.kernels.heap import drop, push, rerank, room_of
from matchwood.structures.ranked.kernels.layout import ARRANGED, LEVELS, LISTS, NONE, PACKED, SEGMENTS, STREAMS

# Typed, since Numba compiles a helper once for every literal number that it is called with.
SUBTREE, HEAD, LEAD, REST, INNER, SCAN = (
    np.uint32(0),
    np.uint32(1),
    np.uint32(2),
    np.uint32(3),
    np.uint32(4),
    np.uint32(5),
)
RUN, COPIES, STREAM, LOOSE, READY = np.uint32(6), np.uint32(7), np.uint32(8), np.uint32(9), np.uint32(10)
NOT_USED = np.int64(0)

NO_HIT = np.int64(-1)  # the stab has no further hits
CURSOR_FULL = np.int64(-2)
BEFORE_HITS = np.int64(-1)  # the id of an item that is no hit: it goes before hits of the same score
MAX_BRANCHING = 64  # entries that are tested at once
TESTED = LEVELS  # the element of `visits` that counts entries


@helper
def advance(forest, cursors, frames, depth, first, last):
    """(the next entry of a packed tree that meets, depth of the stack), left first; entry -1 at the end."""
    stack, visits = cursors.frames, cursors.visits
    while depth > 0:
        frame = stack[frames + depth - 1]
        if frame.mask == 0:
            depth -= 1
            continue
        place = np.int64(frame.start) + lowest_bit(frame.mask)
        frame.mask &= frame.mask - np.uint64(1)
        if frame.level == 0:
            return place, depth
        block = forest.blocks[forest.link[place]]
        below = stack[frames + depth]
        below.start, below.level = block.start, block.level
        below.mask = mask_of(forest.lo, forest.hi, np.int64(block.start), np.int64(block.count), first, last)
        visits[np.int64(block.level)] += 1
        visits[TESTED] += np.int64(block.count)
        depth += 1
    return NO_HIT, depth


@subroutine
def open_stream(forest, cursors, c, base, number, tree, first, last):
    """Begin to walk the packed tree `tree` as stream `number` of the cursor."""
    frames = (c * STREAMS + number) * LEVELS
    block = forest.blocks[np.int64(forest.trees[tree].root)]
    frame = cursors.frames[frames]
    frame.start, frame.level = block.start, block.level
    frame.mask = mask_of(forest.lo, forest.hi, np.int64(block.start), np.int64(block.count), first, last)
    cursors.visits[np.int64(block.level)] += 1
    place, depth = advance(forest, cursors, frames, np.int64(1), first, last)
    if place >= 0:
        slack = forest.trees[tree].slack
        id_ = forest.link[place] if slack == 0.0 else BEFORE_HITS
        push(cursors, c, base, STREAM, forest.score[place] + slack, id_, place, frames, tree, np.uint64(depth))


@subroutine
def open_segments(forest, cursors, c, base, tree, point):
    """All lists on the way from the point's leaf up to the root of a segment tree. O(log n)."""
    record = forest.trees[tree]
    keys, count = np.int64(record.first_key), np.int64(record.keys)
    low, high = np.int64(0), count  # the first end point that is not below the point
    while low < high:
        middle = (low + high) >> 1
        if forest.keys[keys + middle] < point:
            low = middle + 1
        else:
            high = middle
    if low == count or (low == 0 and forest.keys[keys] != point):
        return
    cell = 2 * low
    if forest.keys[keys + low] != point:
        cell -= 1
    spans = np.int64(record.first_span)
    node = np.int64(record.leaves) + cell
    while node > 0:
        at, end = np.int64(forest.spans[spans + node]), np.int64(forest.spans[spans + node + 1])
        if at < end:
            entry = np.int64(record.start) + np.int64(forest.spans[spans + at])
            push(cursors, c, base, COPIES, forest.score[entry], forest.link[entry], at, end, tree, np.uint64(0))
        node >>= 1


@subroutine
def open_path(forest, cursors, c, base, tree, point):
    """The lists on a point's way down an interval tree, the deepest first; False if there is too little room.

    The best intervals tend to be short, thus deep: lists are added from the bottom up, so that each sinks below the last.
    Ranges cannot do this: they would open everything.
    """
    path = cursors.frames[c * STREAMS * LEVELS : (c + 1) * STREAMS * LEVELS]
    depth = np.int64(0)
    node = forest.trees[tree].root
    while node != NONE:
        if depth == path.size:
            return False
        path[depth].start = node
        depth += 1
        record = forest.nodes[np.int64(node)]
        if point < record.centre:
            node = record.left
        elif point > record.centre:
            node = record.right
        else:
            node = NONE
    if cursors.sizes[c] + depth + MAX_BRANCHING > room_of(cursors):
        return False
    flat = forest.trees[tree].kind == LISTS
    for i in range(depth - 1, -1, -1):
        record = forest.nodes[np.int64(path[i].start)]
        if record.size > 0 and record.lo <= point and point <= record.hi:
            at = np.int64(record.list)
            if flat:
                end = at + np.int64(record.size)
                push(cursors, c, base, SCAN, record.own, BEFORE_HITS, at, end, tree, np.uint64(0))
            else:
                head = np.int64(record.head)
                prefetch(forest.blocks, head)
                push(cursors, c, base, HEAD, record.own, BEFORE_HITS, head, NOT_USED, at, np.uint64(0))
    return True


@subroutine
def open_cursor(forest, cursors, c, dim, first, last):
    """Begin a stab of dimension `dim` with cursor c; False if it has too little room."""
    room = room_of(cursors)
    base = c * room
    cursors.sizes[c] = 0
    cursors.query[c, 0], cursors.query[c, 1] = first, last
    if dim >= forest.firsts.size:
        return True
    tree = forest.firsts[dim]
    streams = np.int64(0)
    while tree != NONE:
        t = np.int64(tree)
        record = forest.trees[t]
        root = np.int64(record.root)
        if cursors.sizes[c] + 40 > room:
            return False
        if record.kind == PACKED or (record.kind == ARRANGED and first == last):
            open_stream(forest, cursors, c, base, streams, t, first, last)
            streams += 1
        elif record.kind == ARRANGED:
            push(cursors, c, base, LOOSE, np.inf, BEFORE_HITS, root, NOT_USED, t, np.uint64(0))
        elif record.kind == SEGMENTS and first == last:
            open_segments(forest, cursors, c, base, t, first)
        elif record.kind == SEGMENTS:
            start, size = np.int64(record.start), np.int64(record.size)
            push(cursors, c, base, SCAN, forest.score[start], BEFORE_HITS, start, start + size, t, np.uint64(0))
        elif first == last:
            if not open_path(forest, cursors, c, base, t, first):
                return False
        else:
            push(cursors, c, base, SUBTREE, forest.nodes[root].best, BEFORE_HITS, root, NOT_USED, t, np.uint64(0))
        tree = record.next
    return True


@subroutine
def open_node(forest, cursors, c, base, item, node, first, last):
    """What a node of an interval tree consists of: its list, and its children on the query's side, one in the node's place."""
    record = forest.nodes[node]
    tree = np.int64(item.tree)
    go_left = record.left != NONE and first < record.centre
    go_right = record.right != NONE and last > record.centre
    if go_left or go_right:
        child = np.int64(record.left if go_left else record.right)
        item.at = np.uint32(child)
        rerank(cursors, c, base, forest.nodes[child].best, BEFORE_HITS)
    else:
        drop(cursors, c, base)
    if go_left and go_right:
        right = np.int64(record.right)
        push(cursors, c, base, SUBTREE, forest.nodes[right].best, BEFORE_HITS, right, NOT_USED, tree, np.uint64(0))
    if record.size > 0 and record.lo <= last and first <= record.hi:
        at = np.int64(record.list)
        if forest.trees[tree].kind == LISTS:
            push(cursors, c, base, SCAN, record.own, BEFORE_HITS, at, at + np.int64(record.size), tree, np.uint64(0))
        else:
            push(cursors, c, base, HEAD, record.own, BEFORE_HITS, np.int64(record.head), NOT_USED, at, np.uint64(0))


@subroutine
def open_loose(forest, cursors, c, base, block, tree, first, last):
    """Each entry of a block that meets becomes an item of its own. The block has at most 64."""
    record = forest.blocks[block]
    start = np.int64(record.start)
    mask = mask_of(forest.lo, forest.hi, start, np.int64(record.count), first, last)
    while mask != 0:
        place = start + lowest_bit(mask)
        mask &= mask - np.uint64(1)
        if record.level == 0:
            push(cursors, c, base, READY, forest.score[place], forest.link[place], place, NOT_USED, tree, np.uint64(0))
        else:
            push(
                cursors,
                c,
                base,
                LOOSE,
                forest.score[place],
                BEFORE_HITS,
                forest.link[place],
                NOT_USED,
                tree,
                np.uint64(0),
            )


@helper
def next_hit(forest, cursors, c):
    """The next entry of the stab, best first; NO_HIT at the end, CURSOR_FULL if the cursor has too little room to go on."""
    room = room_of(cursors)
    base = c * room
    first, last = cursors.query[c, 0], cursors.query[c, 1]
    while cursors.sizes[c] > 0:
        if cursors.sizes[c] + MAX_BRANCHING > room:
            return CURSOR_FULL
        item = cursors.items[cursors.heap[base].item]
        kind = item.kind
        at = np.int64(item.at)
        hit = NO_HIT
        if kind == STREAM:
            place, depth = advance(forest, cursors, np.int64(item.end), np.int64(item.mask), first, last)
            slack = forest.trees[np.int64(item.tree)].slack
            if place < 0:
                drop(cursors, c, base)
            else:
                item.at, item.mask = np.uint32(place), np.uint64(depth)
                rerank(
                    cursors, c, base, forest.score[place] + slack, forest.link[place] if slack == 0.0 else BEFORE_HITS
                )
            if slack == 0.0:
                return at
            push(cursors, c, base, READY, forest.score[at], forest.link[at], at, NOT_USED, NOT_USED, np.uint64(0))
        elif kind == RUN or kind == LEAD:
            hit = at + lowest_bit(item.mask)
            item.mask &= item.mask - np.uint64(1)
            if item.mask != 0:
                place = at + lowest_bit(item.mask)
                rerank(cursors, c, base, forest.score[place], forest.link[place])
            elif kind == LEAD:
                leave_head(forest, cursors, c, base, item, np.int64(item.end))
            elif at + MAX_BRANCHING < np.int64(item.end):
                item.at, item.kind = np.uint32(at + MAX_BRANCHING), SCAN
                rerank(cursors, c, base, forest.score[at + MAX_BRANCHING], BEFORE_HITS)
            else:
                drop(cursors, c, base)
            return hit
        elif kind == READY:
            drop(cursors, c, base)
            return at
        elif kind == COPIES:
            record = forest.trees[np.int64(item.tree)]
            spans, start = np.int64(record.first_span), np.int64(record.start)
            hit = start + np.int64(forest.spans[spans + at])
            if at + 1 < np.int64(item.end):
                item.at = np.uint32(at + 1)
                place = start + np.int64(forest.spans[spans + at + 1])
                rerank(cursors, c, base, forest.score[place], forest.link[place])
            else:
                drop(cursors, c, base)
            if not np.isnan(forest.lo[hit]):
                return hit
        elif kind == INNER:
            place = at + lowest_bit(item.mask)
            item.mask &= item.mask - np.uint64(1)
            if item.mask != 0:
                rerank(cursors, c, base, forest.score[at + lowest_bit(item.mask)], BEFORE_HITS)
            else:
                drop(cursors, c, base)
            open_down(forest, cursors, c, base, np.int64(forest.link[place]), first, last)
        elif kind == HEAD:
            open_head(forest, cursors, c, base, item, at, first, last)
        elif kind == REST:
            drop(cursors, c, base)
            open_rest(forest, cursors, c, base, at, first, last)
        elif kind == SUBTREE:
            open_node(forest, cursors, c, base, item, at, first, last)
        elif kind == LOOSE:
            tree = np.int64(item.tree)
            drop(cursors, c, base)
            open_loose(forest, cursors, c, base, at, tree, first, last)
        else:
            open_entries(forest, cursors, c, base, item, at, first, last)
    return NO_HIT


@subroutine
def open_head(forest, cursors, c, base, item, at, first, last):
    """Test the first leaf of a list, block `at`, before the R-tree above it: most lists are left before their second leaf.

    The item has the root of the list in place of its tree, and from then on the leaf in place of its end.
    """
    block = forest.blocks[at]
    start, count = np.int64(block.start), np.int64(block.count)
    mask = mask_of(forest.lo, forest.hi, start, count, first, last)
    cursors.visits[0] += 1
    cursors.visits[TESTED] += count
    if mask == 0:
        leave_head(forest, cursors, c, base, item, at)
        return
    place = start + lowest_bit(mask)
    item.mask, item.kind = mask, LEAD
    item.at, item.end = np.uint32(start), np.uint32(at)
    rerank(cursors, c, base, forest.score[place], forest.link[place])


@subroutine
def leave_head(forest, cursors, c, base, item, leaf):
    """What follows the first leaf of a list: nothing there is better than the last of the leaf."""
    if np.int64(item.tree) == leaf:
        drop(cursors, c, base)
        return
    block = forest.blocks[leaf]
    item.at, item.kind = item.tree, REST
    rerank(cursors, c, base, forest.score[np.int64(block.start) + np.int64(block.count) - 1], BEFORE_HITS)


@subroutine
def open_rest(forest, cursors, c, base, block, first, last):
    """The blocks from the root of a list down to the one above its first leaf, each without its first child."""
    while True:
        record = forest.blocks[block]
        start, count, level = np.int64(record.start), np.int64(record.count), np.int64(record.level)
        mask = mask_of(forest.lo, forest.hi, start, count, first, last)
        cursors.visits[level] += 1
        cursors.visits[TESTED] += count
        others = mask & ~np.uint64(1)
        if others != 0:
            score = forest.score[start + lowest_bit(others)]
            push(cursors, c, base, INNER, score, BEFORE_HITS, start, start + count, NOT_USED, others)
        if level == 1 or mask & np.uint64(1) == 0:
            return
        block = np.int64(forest.link[start])


@subroutine
def open_down(forest, cursors, c, base, block, first, last):
    """Open a block, the first of its children that meets, and so on down to a leaf: a RUN, and INNER items for the siblings left.

    A child of the best item is the best itself and need not enter the heap, unless something else in the heap is better.
    """
    heap = cursors.heap
    while True:
        record = forest.blocks[block]
        start, count, level = np.int64(record.start), np.int64(record.count), np.int64(record.level)
        mask = mask_of(forest.lo, forest.hi, start, count, first, last)
        cursors.visits[level] += 1
        cursors.visits[TESTED] += count
        if mask == 0:
            return
        place = start + lowest_bit(mask)
        score = forest.score[place]
        if level == 0:
            push(cursors, c, base, RUN, score, forest.link[place], start, start + count, NOT_USED, mask)
            return
        if cursors.sizes[c] > 0 and heap[base].score > score:
            push(cursors, c, base, INNER, score, BEFORE_HITS, start, start + count, NOT_USED, mask)
            return
        rest = mask & (mask - np.uint64(1))
        if rest != 0:
            after = forest.score[start + lowest_bit(rest)]
            push(cursors, c, base, INNER, after, BEFORE_HITS, start, start + count, NOT_USED, rest)
        block = np.int64(forest.link[place])


@subroutine
def open_entries(forest, cursors, c, base, item, at, first, last):
    """Test the first entries of a SCAN, and keep those that meet as a RUN."""
    count = min(np.int64(item.end) - at, MAX_BRANCHING)
    mask = mask_of(forest.lo, forest.hi, at, count, first, last)
    cursors.visits[0] += 1
    cursors.visits[TESTED] += count
    if mask != 0:
        place = at + lowest_bit(mask)
        item.mask, item.kind = mask, RUN
        rerank(cursors, c, base, forest.score[place], forest.link[place])
    elif at + MAX_BRANCHING < np.int64(item.end):
        item.at = np.uint32(at + MAX_BRANCHING)
        rerank(cursors, c, base, forest.score[at + MAX_BRANCHING], BEFORE_HITS)
    else:
        drop(cursors, c, base)


@kernel
def begin_stab(forest, cursors, dim, first, last):
    """Open cursor 0; False if it has too little room."""
    return open_cursor(forest, cursors, np.int64(0), dim, first, last)


@kernel
def continue_stab(forest, cursors, ids, scores):
    """Fill `ids` and `scores` with the next hits of cursor 0; return how many, and NO_HIT, CURSOR_FULL or 0 for more."""
    n = np.int64(0)
    while n < ids.size:
        hit = next_hit(forest, cursors, np.int64(0))
        if hit < 0:
            return n, hit
        ids[n], scores[n] = forest.link[hit], forest.score[hit]
        n += 1
    return n, np.int64(0)


@kernel
def stab_many(forest, cursors, dim, queries, first, k, out, ends):
    """The k best hits of queries[first:]; return the first not answered (the cursor is too small) or their number.

    A query is its first and last key. ends[q] is where its hits end in `out`, which has room for k a query.
    """
    n = np.int64(0)
    if first > 0:
        n = ends[first - 1]
    for q in range(first, ends.size):
        size = n
        if not open_cursor(forest, cursors, np.int64(0), dim, queries[q, 0], queries[q, 1]):
            return q
        while size < n + k:
            hit = next_hit(forest, cursors, np.int64(0))
            if hit == CURSOR_FULL:
                return q
            if hit < 0:
                break
            out.ids[size], out.scores[size] = forest.link[hit], forest.score[hit]
            size += 1
        n = size
        ends[q] = n
    return ends.size
