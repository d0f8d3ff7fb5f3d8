"""The relation graph G_k, compiled: up to k covers of each subscription, updated as they come and go (Covering III-B, III-C).

Layout     in-edges of the subscription whose first slot is s: edges[s * k : s * k + degrees[s]]; each has its source slot and
           the next and previous edge in the chain of its source's out-edges, which begins at firsts[source]. The target of
           edge e is e // k.
Invariant  an edge leads from a cover to what it covers; a subscription is forwarded unless it had a cover when it was last
           looked up (`RelationGraph.check`). Edges follow the order of equals (`kernels.search`), so a path of covers ends at
           a forwarded subscription.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchwood.covering.kernels.forest import SEARCHES
from matchwood.covering.kernels.indexes import FUNCTIONS, bound, enter_row, find_covers, is_pending, leave_row
from matchwood.covering.kernels.search import CoverHits, CoverQuery
from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.state import State, array
from matchwood.store.kernels.rows import NONE, first_slot

EDGE = np.dtype([("source", "u4"), ("next", "u4"), ("previous", "u4")])
IS_FORWARDED = np.uint8(1)
IS_HELD = np.uint8(2)

START = np.int64(-2)  # in `resume`: no command has been begun
SUBSCRIBE, UNSUBSCRIBE = np.int64(0), np.int64(1)  # rows of `work`; plain 0 and 1 would compile `look_up` twice


class CoverRelations(State):
    """The state of a `RelationGraph`, and its scratch."""

    edges: np.ndarray = array(EDGE)  # k for each slot
    firsts: np.ndarray = array(np.uint32)  # by slot
    degrees: np.ndarray = array(np.uint32)  # by slot
    states: np.ndarray = array(np.uint8)  # by slot: IS_HELD, IS_FORWARDED
    orphans: np.ndarray = array(np.uint32)  # by slot: what has lost its last cover
    found: np.ndarray = array(np.int64)  # k ids: the result of a search
    resume: np.ndarray = array(np.int64)  # [the next row of the command that was interrupted]
    work: np.ndarray = array(np.int64, ndim=2)  # the counters of searches for subscribes, and for unsubscribes


@helper
def unlink(graph, e):
    """Take edge e out of the chain of its source."""
    edge = graph.edges[e]
    if edge.previous == NONE:
        graph.firsts[np.int64(edge.source)] = edge.next
    else:
        graph.edges[np.int64(edge.previous)].next = edge.next
    if edge.next != NONE:
        graph.edges[np.int64(edge.next)].previous = edge.previous


@helper
def put_edge(graph, e, source):
    """Write edge e at the head of the chain of its source."""
    edge = graph.edges[e]
    edge.source, edge.previous, edge.next = np.uint32(source), NONE, graph.firsts[source]
    if edge.next != NONE:
        graph.edges[np.int64(edge.next)].previous = np.uint32(e)
    graph.firsts[source] = np.uint32(e)


def look_up(index, store, graph, slot, scratch, command):
    """Search for covers of the subscription and write their edges. Is it to be forwarded, for lack of a cover?"""
    k = np.int64(graph.found.size)
    counters, work = scratch.counters, graph.work[command]
    for c in range(SEARCHES + 1):
        work[c] -= counters[c]
    query = CoverQuery(store, slot, store.rows[slot].id)
    n = find_covers(index, store, query, CoverHits(graph.found, np.int64(0), k), scratch)
    for c in range(SEARCHES + 1):
        work[c] += counters[c]
    for i in range(n):
        put_edge(graph, slot * k + i, first_slot(store, graph.found[i]))
    graph.degrees[slot] = np.uint32(n)
    graph.states[slot] = IS_HELD | (IS_FORWARDED if n == 0 else np.uint8(0))
    return n == 0


@helper
def release(graph, slot):
    """Remove the edges of the subscription; what has lost its last cover goes to `orphans`. Return how many."""
    k = np.int64(graph.found.size)
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


@helper
def out_degree(graph, slot):
    count = np.int64(0)
    e = graph.firsts[slot]
    while e != NONE:
        count += 1
        e = graph.edges[np.int64(e)].next
    return count


def move_rows(index, store, graph, slot, is_new, scratch):
    """Enter or remove the rows of a subscription. False if it stopped for its owner; `resume` says where to go on."""
    row = slot if graph.resume[0] == START else graph.resume[0]
    while row != np.int64(NONE):
        graph.resume[0] = row
        if is_new:
            if not enter_row(index, store, row, scratch):
                return False
        else:
            leave_row(index, store, row, scratch)
        row = np.int64(store.rows[row].next)
        if is_pending(index):
            graph.resume[0] = row
            return False
    graph.resume[0] = START
    return True


def _run_commands(index, store, graph, subscribe, slots, first, scratch, changes):
    """Carry out the commands from `first` on; return (the first not finished, the number of changes written).

    A change is the slot for "forward", -1 - slot for "withdraw". Stops where `changes` may get full, and where the index
    needs room or a rebuild; the command is then resumed by the next call.
    """
    n = np.int64(0)
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        if n + out_degree(graph, slot) + 1 > changes.size or not move_rows(
            index, store, graph, slot, subscribe[i], scratch
        ):
            return i, n
        if subscribe[i]:
            if look_up(index, store, graph, slot, scratch, SUBSCRIBE):
                changes[n] = slot
                n += 1
            continue
        was_forwarded = graph.states[slot] & IS_FORWARDED
        for j in range(release(graph, slot)):
            orphan = np.int64(graph.orphans[j])
            if look_up(index, store, graph, orphan, scratch, UNSUBSCRIBE):
                changes[n] = orphan
                n += 1
        if was_forwarded:
            changes[n] = -1 - slot
            n += 1
    return slots.size, n


def _bound_to(functions: dict[str, Any]) -> Any:
    steps = {"look_up": bound(subroutine, look_up, functions), "move_rows": bound(helper, move_rows, functions)}
    return bound(kernel, _run_commands, {**functions, **steps})


run_commands = {state: _bound_to(functions) for state, functions in FUNCTIONS.items()}
"""By the state of the index."""
