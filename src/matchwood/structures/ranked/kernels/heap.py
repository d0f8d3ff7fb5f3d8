"""The heap of a cursor: items ranked by what they can still give, score descending, then id ascending (`layout.Cursors`)."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine


@helper
def room_of(cursors):
    return np.int64(cursors.heap.size // cursors.sizes.size)


@helper
def put(heap, at, score, id_, item):
    place = heap[at]
    place.score, place.id, place.item = score, id_, item


@helper
def rerank(cursors, c, base, score, id_):
    """The root's item is now worth (score, id), less than before: let it sink."""
    sink(cursors.heap, base, cursors.sizes[c], score, id_, cursors.heap[base].item)


@helper
def sink(heap, base, size, score, id_, item):
    """Put an item at the root or below it, so that no child precedes its parent."""
    at = np.int64(0)
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        best = heap[base + child]
        if child + 1 < size:
            other = heap[base + child + 1]
            if other.score > best.score or (other.score == best.score and other.id < best.id):
                child += 1
                best = heap[base + child]
        if not (best.score > score or (best.score == score and best.id < id_)):
            break
        put(heap, base + at, best.score, best.id, best.item)
        at = child
    put(heap, base + at, score, id_, item)


@subroutine
def drop(cursors, c, base):
    """Take the root away; its item is free again."""
    heap = cursors.heap
    size = cursors.sizes[c] - 1
    cursors.sizes[c] = size
    gone = heap[base].item
    last = heap[base + size]
    sink(heap, base, size, last.score, last.id, last.item)
    last.item = gone


@subroutine
def push(cursors, c, base, kind, score, id_, at, end, tree, mask):
    """Add an item; the caller has checked for room."""
    heap = cursors.heap
    place = cursors.sizes[c]
    cursors.sizes[c] = place + 1
    number = heap[base + place].item
    item = cursors.items[number]
    item.mask = mask
    item.at, item.end = np.uint32(at), np.uint32(end)
    item.kind, item.tree = kind, np.uint32(tree)
    while place > 0:
        parent = (place - 1) >> 1
        above = heap[base + parent]
        if not (score > above.score or (score == above.score and id_ < above.id)):
            break
        put(heap, base + place, above.score, above.id, above.item)
        place = parent
    put(heap, base + place, score, id_, number)
