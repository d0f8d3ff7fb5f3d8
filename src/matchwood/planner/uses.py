"""What an engine is used for: how many events were matched in which way, and how many rows changed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from matchwood.lang.evaluate import Mode


class Use(NamedTuple):
    """A way of matching: all matches or the best, of rows that hold wholly or in part."""

    mode: Mode
    best: bool

    @property
    def name(self) -> str:
        """As the rules name it."""
        return ("top_k" if self.best else "match") + (" any" if self.mode is Mode.ANY else "")


@dataclass
class Uses:
    """Counts of one span of time. `k` is that of the latest top-k query."""

    events: dict[Use, int] = field(default_factory=dict)
    changed: int = 0
    k: int = 10

    @property
    def total(self) -> int:
        return sum(self.events.values())

    def count(self, use: Use, events: int, k: int | None) -> None:
        """That many events were matched so."""
        self.events[use] = self.events.get(use, 0) + events
        if k is not None:
            self.k = k

    def shares(self, mode: Mode) -> dict[Use, float]:
        """The share of each use among those of the mode; matching everything, if there was none yet."""
        mine = {use: n for use, n in self.events.items() if use.mode is mode and n}
        total = sum(mine.values())
        return {use: n / total for use, n in mine.items()} if total else {Use(mode, best=False): 1.0}

    def changes_per_event(self) -> float:
        """Rows inserted, deleted or updated for each event matched; 0 while no event came, when nothing waits for either."""
        return self.changed / self.total if self.total else 0.0

    def modes(self) -> list[Mode]:
        """The modes in use; matching wholly always is."""
        return [
            mode for mode in Mode if mode is Mode.ALL or any(n for use, n in self.events.items() if use.mode is mode)
        ]
