"""Random rectangles that are subscribed and unsubscribed (Covering V-A).

A command is an unsubscribe with probability p, of a uniformly drawn existing subscription, and a subscribe otherwise (and if none
exists). A side of a rectangle is the interval between two random keys. The paper counts the dimensions of its *points*: two for
each attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Events, Int64s, Rows
from matchwood.schema import Schema
from matchwood.workloads.draw import fixed_events, fixed_rows
from matchwood.workloads.workload import Part, Workload, require


class Operations(NamedTuple):
    """Commands in order: subscribe[i] is the kind, ids[i] the subscription, and row `id` of `rows` is subscription `id`."""

    subscribe: NDArray[np.bool_]
    ids: Int64s
    rows: Rows

    def live(self) -> Int64s:
        """The ids that exist after the last command, ascending. O(commands)."""
        alive = np.ones(self.rows.size, dtype=bool)
        alive[self.ids[~self.subscribe]] = False
        return np.flatnonzero(alive)


@dataclass(frozen=True, kw_only=True)
class Covering(Workload):
    """Parameters of Covering V-A; the defaults are those of its first experiment under heavy load.

    `size` is the number of commands here; about (1 - p) of them subscribe.
    """

    size: int = 60_000
    dimensions: int = 10
    """The dimensions of the points of the paper: twice the number of attributes."""
    unsubscribe: float = 0.05
    """p of the paper."""
    bits: int = 16
    """Keys are integers in [0, 2 ** bits - 1]; the exponent is not legible in the paper."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "heavy": {},
        "light": {"unsubscribe": 0.4},
        **{f"d{d}": {"size": 100_000, "dimensions": d, "unsubscribe": 0.15} for d in (6, 8, 10, 12, 14, 16)},
        "quick": {"size": 5_000, "dimensions": 6, "unsubscribe": 0.15},
    }

    def __post_init__(self) -> None:
        require(self.dimensions >= 2 and self.dimensions % 2 == 0, f"dimensions must be even, got {self.dimensions}")
        require(0 <= self.unsubscribe < 0.5, f"unsubscribe must be a probability below 0.5, got {self.unsubscribe}")
        require(1 <= self.bits <= 53, f"bits must be 1 to 53, got {self.bits}")

    @property
    def attributes(self) -> int:
        return self.dimensions // 2

    def schema(self) -> Schema:
        return Schema({f"x{dim}": "number" for dim in range(self.attributes)}, learn=False)

    def operations(self) -> Operations:
        """The commands and the rows they name. About 1 s a million commands."""
        subscribe, ids = self._commands()
        return Operations(subscribe, ids, self._rectangles(int(subscribe.sum())))

    def subscriptions(self) -> Rows:
        """Every subscription that a command adds, row = id; weights are 1."""
        return self._rectangles(int(self._commands()[0].sum()))

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Random points of the space; the paper has no events."""
        return fixed_events(self._keys(self._stream(Part.EVENTS, batch), (count, self.attributes)))

    def _rectangles(self, count: int) -> Rows:
        ends = self._keys(self._stream(Part.SUBSCRIPTIONS), (count, self.attributes, 2))
        lo, hi = ends.min(axis=2), ends.max(axis=2)
        return fixed_rows(lo, hi, np.ones_like(lo))

    def _keys(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.integers(2**self.bits, size=shape).astype(np.float64)

    def _commands(self) -> tuple[NDArray[np.bool_], Int64s]:
        """The kind and the id of each command. A loop, since each draw depends on the subscriptions that exist."""
        rng = self._stream(Part.STRUCTURE)
        is_unsubscribe, draw = (rng.random(self.size) < self.unsubscribe).tolist(), rng.random(self.size).tolist()
        kinds, ids = np.ones(self.size, dtype=bool), np.empty(self.size, dtype=np.int64)
        alive: list[int] = []
        next_id = 0
        for step in range(self.size):
            if is_unsubscribe[step] and alive:
                place = int(draw[step] * len(alive))
                alive[place], alive[-1] = alive[-1], alive[place]
                kinds[step], ids[step] = False, alive.pop()
            else:
                ids[step] = next_id
                alive.append(next_id)
                next_id += 1
        return kinds, ids
