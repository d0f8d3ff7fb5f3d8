"""The relation graph G_k, compiled: up to k covers of each subscription, kept as they come and go (Covering III-B, III-C).

Layout   in-edges of the subscription whose first slot is s: edges[s * k : s * k + degrees[s]], each (source slot, next, previous)
         of the source's chain of out-edges, which begins at firsts[source]. The target of edge e is e // k.
Invariant  an edge goes from a cover to what it covers; a subscription is forwarded unless it had a cover when it was last looked
         up (`RelationGraph.check`). Edges follow the order of equals (`kernels.search`), so following covers ends at a
         forwarded one.

One loop serves every index: `seek`, `enter` and `leave` are chosen by the type of the index's state when compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from matchwood.covering.kernels.build import rebuild
from matchwood.covering.kernels.forest import NO_WHERE, PENDING, Forest
from matchwood.covering.kernels.search import covers_of
from matchwood.covering.kernels.update import delete_row, insert_row
from matchwood.covering.kernels.zcurve import Curve, covers_on_curve, delete_point, insert_point
from matchwood.jit.decorators import OPTIONS, helper, kernel
from matchwood.store.kernels.rows import NONE, first_slot

EDGE = np.dtype([("source", "u4"), ("next", "u4"), ("previous", "u4")])
IS_FORWARDED = np.uint8(1)
IS_HELD = np.uint8(2)


class Relations(NamedTuple):
    edges: np.ndarray  # EDGE, k for each slot
    firsts: np.ndarray  # uint32, by slot
    degrees: np.ndarray  # uint32, by slot
    states: np.ndarray  # uint8, by slot
    orphans: np.ndarray  # uint32, scratch, by slot
    found: np.ndarray  # int64, scratch for k ids


def seek(index: Any, store: Any, slot: Any, k: Any, scratch: Any, found: Any, counters: Any) -> Any:
    """Up to k ids of covers of the subscription at `slot` into `found`; how many."""


def enter(index: Any, store: Any, slot: Any, scratch: Any) -> Any:
    """Put the subscription into the index; False, with nothing changed, if there is no room."""


def leave(index: Any, store: Any, slot: Any, scratch: Any) -> Any:
    """Take the subscription out of the index."""


def _is(index: types.Type, state: type) -> bool:
    return isinstance(index, types.BaseNamedTuple) and index.instance_class is state


@overload(seek, jit_options=OPTIONS)
def _seek(index, store, slot, k, scratch, found, counters):
    if _is(index, Forest):
        return lambda index, store, slot, k, scratch, found, counters: covers_of(
            index, store, store, slot, store.rows[slot].id, k, scratch, found, 0, counters
        )
    if _is(index, Curve):
        return lambda index, store, slot, k, scratch, found, counters: covers_on_curve(
            index, store, store, slot, store.rows[slot].id, k, scratch, found, 0, counters
        )
    return None


@overload(enter, jit_options=OPTIONS)
def _enter(index, store, slot, scratch):
    if _is(index, Forest):
        return enter_forest
    if _is(index, Curve):
        return lambda index, store, slot, scratch: insert_point(index, store, slot, scratch)
    return None


@overload(leave, jit_options=OPTIONS)
def _leave(index, store, slot, scratch):
    if _is(index, Forest):
        return leave_forest
    if _is(index, Curve):
        return lambda index, store, slot, scratch: delete_point(index, store, slot, scratch)
    return None


def enter_forest(index, store, slot, scratch):
    """Enter all rows of the subscription. A rebuild that scratch is too small for stays in counts[PENDING], for the caller."""
    at = slot
    while at != np.int64(NONE):
        if not insert_row(index, store, at, scratch):
            undo = slot
            while undo != at:
                delete_row(index, undo)
                undo = np.int64(store.rows[undo].next)
            index.counts[PENDING] = NO_WHERE
            return False
        if index.counts[PENDING] != NO_WHERE and rebuild(index, index.counts[PENDING], scratch):
            index.counts[PENDING] = NO_WHERE
        at = np.int64(store.rows[at].next)
    return True


def leave_forest(index, store, slot, scratch):
    at = slot
    while at != np.int64(NONE):
        delete_row(index, at)
        if index.counts[PENDING] != NO_WHERE and rebuild(index, index.counts[PENDING], scratch):
            index.counts[PENDING] = NO_WHERE
        at = np.int64(store.rows[at].next)


@helper
def unlink(graph, e):
    """Take edge e out of its source's chain."""
    edge = graph.edges[e]
    if edge.previous == NONE:
        graph.firsts[np.int64(edge.source)] = edge.next
    else:
        graph.edges[np.int64(edge.previous)].next = edge.next
    if edge.next != NONE:
        graph.edges[np.int64(edge.next)].previous = edge.previous


@helper
def put_edge(graph, e, source):
    edge = graph.edges[e]
    edge.source, edge.previous, edge.next = np.uint32(source), NONE, graph.firsts[source]
    if edge.next != NONE:
        graph.edges[np.int64(edge.next)].previous = np.uint32(e)
    graph.firsts[source] = np.uint32(e)


@kernel
def look_up(index, store, graph, k, slot, scratch, counters):
    """Ask the index for covers of the subscription, draw their edges, and forward it if there is none."""
    n = seek(index, store, slot, k, scratch, graph.found, counters)
    for i in range(n):
        put_edge(graph, slot * k + i, first_slot(store, graph.found[i]))
    graph.degrees[slot] = np.uint32(n)
    graph.states[slot] = IS_HELD | (IS_FORWARDED if n == 0 else np.uint8(0))
    return n == 0


@helper
def release(graph, k, slot):
    """Drop the subscription's edges; what has lost its last cover goes to `orphans`. Return how many."""
    for j in range(np.int64(graph.degrees[slot])):
        unlink(graph, slot * k + j)
    lost = np.int64(0)
    while graph.firsts[slot] != NONE:
        e = np.int64(graph.firsts[slot])
        target = e // k
        unlink(graph, e)
        last = target * k + np.int64(graph.degrees[target]) - 1
        if last != e:
            source = np.int64(graph.edges[last].source)
            unlink(graph, last)
            put_edge(graph, e, source)
        graph.degrees[target] -= np.uint32(1)
        if graph.degrees[target] == 0:
            graph.orphans[lost] = np.uint32(target)
            lost += 1
    graph.degrees[slot] = np.uint32(0)
    graph.states[slot] = np.uint8(0)
    return lost


@kernel
def run_commands(index, store, graph, k, subscribe, slots, first, scratch, changes, counters):
    """Carry out commands first..; return (the first not done, how many changes were written).

    A change is slot for "forward", -1 - slot for "withdraw". Stops where the index has no room, where `changes` is nearly full,
    and after a command that left a rebuild to the caller. counters[0] counts the searches of subscribes, counters[1] those of
    unsubscribes.
    """
    n = np.int64(0)
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        if subscribe[i]:
            if n == changes.size:
                return i, n
            if not enter(index, store, slot, scratch):
                return i, n
            if look_up(index, store, graph, k, slot, scratch, counters[0]):
                changes[n] = slot
                n += 1
        else:
            chain = np.int64(0)  # no more than its out-edges can need forwarding
            e = graph.firsts[slot]
            while e != NONE:
                chain += 1
                e = graph.edges[np.int64(e)].next
            if n + chain + 1 > changes.size:
                return i, n
            leave(index, store, slot, scratch)
            was_forwarded = graph.states[slot] & IS_FORWARDED
            lost = release(graph, k, slot)
            for j in range(lost):
                orphan = np.int64(graph.orphans[j])
                if look_up(index, store, graph, k, orphan, scratch, counters[1]):
                    changes[n] = orphan
                    n += 1
            if was_forwarded:
                changes[n] = -1 - slot
                n += 1
        if has_pending(index):
            return i + 1, n
    return slots.size, n


def has_pending(index: Any) -> Any:
    """Has the index left something to its owner?"""


@overload(has_pending, jit_options=OPTIONS)
def _has_pending(index):
    if _is(index, Forest):
        return lambda index: index.counts[PENDING] != NO_WHERE
    return lambda index: False
