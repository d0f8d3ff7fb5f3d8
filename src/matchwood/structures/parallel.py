"""A large batch: answered in parts, by several threads, with the memory for intermediate results bounded.

    batch   ->  blocks  of about BLOCK_HITS hits, one after the other; the events of a block are put in an order of their own
    block   ->  parts   of about PART_HITS hits, each answered by one thread into the buffer of its scratch

Parts are contiguous in the order of the block, so that neighbours stay together. Where the order is that of the batch, parts are
appended to the answers as they are completed; otherwise they are kept until the sizes of all are known, and then put back.
How many hits an event has and how long it takes is known from earlier calls, or from the first events (`Pace`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import numpy as np

from matchwood.encode.arrays import Events, Int64s, Matches
from matchwood.encode.picking import pick_events
from matchwood.store.collecting import Answers, Part, ResultBuffer
from matchwood.store.kernels.results import Out
from matchwood.structures.scratch import Scratch, ScratchPool
from matchwood.structures.threads import run_parts

BLOCK_HITS = 1 << 22
"""Hits of a block, at most: 64 MB."""
PART_HITS = 1 << 18
"""Hits of a part, at most: 4 MB, which stay in the cache until they are copied."""
PART_SECONDS = 0.0005
"""How long a part takes, at least, if it is given to another thread."""
PARTS_PER_THREAD = 8
"""So many that no thread waits long for the last one."""
WHOLE = 1024
"""Events of a batch that may be one part, at most: what is known of earlier ones may be wrong."""
PROBE = 128
"""Events that are answered first if nothing is known about a batch."""


class Pace:
    """What events have cost lately. Threads write it without a lock: it decides how work is divided, nothing else."""

    __slots__ = ("hits", "seconds")

    def __init__(self) -> None:
        self.hits: float | None = None
        """Of an event, on average; None until one was answered."""
        self.seconds = 0.0

    def note(self, events: int, hits: int, seconds: float) -> None:
        """Learn from the latest events."""
        self.hits, self.seconds = hits / events, seconds / events


class Batch:
    """How the events of a batch are answered.

    `answer` answers events into the buffer of a scratch, or the first ones if there are more hits than a limit; `order_of` gives
    the order in which they are best answered, if any.
    """

    def __init__(
        self,
        scratches: ScratchPool,
        answer: Callable[[Scratch, Events, int | None], Part],
        order_of: Callable[[Events], Int64s | None],
        pace: Pace,
        threads: int,
    ) -> None:
        self._scratches, self._answer, self._order_of = scratches, answer, order_of
        self._pace, self._threads = pace, threads

    def answered(self, events: Events) -> Matches:
        """The answers to all events."""
        size, pace = events.size, self._pace
        if self._is_one_part(size):
            return self._answered_whole(events)
        answers, first = Answers(size, pace.hits or 0.0), 0
        while first < size:
            count = PROBE if pace.hits is None else max(int(BLOCK_HITS / max(pace.hits, 1.0)), 1)
            last = min(first + count, size)
            self._answer_block(events if last - first == size else events.take(first, last), answers)
            first = last
        return answers.matches()

    def _is_one_part(self, size: int) -> bool:
        if size < 2 or size > WHOLE:
            return size < 2
        hits, seconds = self._pace.hits, self._pace.seconds
        if hits is None:
            return size <= PROBE
        return size * hits <= PART_HITS and (self._threads == 1 or size * seconds < 2 * PART_SECONDS)

    def _answered_whole(self, events: Events) -> Matches:
        """The answers to events that are one part."""
        order = self._order_of(events)
        if order is not None:
            events = pick_events(events, order)
        scratch = self._scratches.take()
        try:
            part = self._timed(scratch, events, None)
            return (part if order is None else part._replace(order=order)).matches()
        finally:
            self._scratches.give_back(scratch)

    def _answer_block(self, events: Events, answers: Answers) -> None:
        """Append the answers to the events of a block."""
        order = self._order_of(events)
        if order is not None:
            events = pick_events(events, order)
        bounds = self._bounds(events.size)
        sink = _InOrder(answers) if order is None else _Reordered(answers, order, self._threads)

        def do(number: int) -> None:
            first, last = bounds[number], bounds[number + 1]
            scratch = self._scratches.take()
            try:
                while first < last:
                    part = self._timed(scratch, events.take(first, last), 2 * PART_HITS)
                    sink.put(first, part, scratch.results)
                    first += part.queries
            finally:
                self._scratches.give_back(scratch)

        run_parts(do, len(bounds) - 1, self._threads)
        sink.finish()

    def _bounds(self, events: int) -> list[int]:
        """Where the parts of a block begin, and the end of the last."""
        pace, threads, size = self._pace, self._threads, float(events)
        if pace.hits is not None:
            size = min(size, PART_HITS / max(pace.hits, 1.0))
        if threads > 1:
            least = PART_SECONDS / pace.seconds if pace.seconds > 0.0 else events
            size = max(min(size, events / (threads * PARTS_PER_THREAD)), least)
        count = max(round(events / max(size, 1.0)), 1)
        return [events * i // count for i in range(count + 1)]

    def _timed(self, scratch: Scratch, events: Events, limit: int | None) -> Part:
        began = time.perf_counter()
        part = self._answer(scratch, events, limit)
        if part.queries:
            self._pace.note(part.queries, len(part.ids), time.perf_counter() - began)
        return part


class _InOrder:
    """Appends parts in the order of their events, whenever the next one is there; any thread may do that, one at a time."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._waiting: dict[int, tuple[Part, Out]] = {}
        self._spare: list[Out] = []  # the memory of parts that have been appended
        self._next = 0  # the event that follows those of the parts so far
        self._appending = Lock()

    def put(self, first: int, part: Part, buffer: ResultBuffer) -> None:
        """Take a part, whose buffer is needed again: one that has to wait takes its memory with it."""
        if first == self._next and self._appending.acquire(blocking=False):
            try:
                self._append(part)
                self._append_waiting()
            finally:
                self._appending.release()
        else:
            try:
                spare = self._spare.pop()
            except IndexError:
                spare = None
            self._waiting[first] = part, buffer.exchange(spare)
        self.finish()

    def finish(self) -> None:
        """Append what waits, unless another thread is doing it."""
        while self._next in self._waiting and self._appending.acquire(blocking=False):
            try:
                self._append_waiting()
            finally:
                self._appending.release()

    def _append_waiting(self) -> None:
        while (waiting := self._waiting.pop(self._next, None)) is not None:
            self._append(waiting[0])
            self._spare.append(waiting[1])

    def _append(self, part: Part) -> None:
        self._answers.append(part)
        self._next += part.queries


class _Reordered:
    """Keeps parts of a block that was put in another order; at the end they are put back, by all threads."""

    def __init__(self, answers: Answers, order: Int64s, threads: int) -> None:
        self._answers, self._order, self._threads = answers, order, threads
        self._parts: dict[int, Part] = {}  # by the first of their events

    def put(self, first: int, part: Part, buffer: ResultBuffer) -> None:
        """Take a part, whose buffer is needed again."""
        self._parts[first] = part._replace(ids=part.ids.copy(), scores=part.scores.copy())

    def finish(self) -> None:
        """Put everything where it belongs."""
        firsts = sorted(self._parts)
        parts = [self._parts[first] for first in firsts]
        sizes = np.empty(len(self._order), np.int64)
        sizes[self._order] = np.concatenate([np.diff(part.offsets) for part in parts])
        begins = self._answers.reserve(sizes)

        def put_back(number: int) -> None:
            first, part = firsts[number], parts[number]
            self._answers.put(part, self._order[first : first + part.queries], begins)

        run_parts(put_back, len(parts), self._threads)
