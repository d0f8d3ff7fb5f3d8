"""Uses: how many events were matched in which way, and how many rows changed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from matchwood.lang.evaluate import Mode


class Use(NamedTuple):
    """A way of matching: a mode, and whether the best matches or all were wanted."""

    mode: Mode
    best: bool

    @property
    def name(self) -> str:
        """Its name in `rules.toml`."""
        return ("top_k" if self.best else "match") + (" any" if self.mode is Mode.ANY else "")


USES = {(mode, best): Use(mode, best) for mode in Mode for best in (False, True)}
"""Every use, so that none is made for each call."""


@dataclass
class Uses:
    """Counts over a period. `k` is that of the latest top-k query."""

    events: dict[Use, int] = field(default_factory=dict)
    changed: int = 0
    k: int = 10

    @property
    def total(self) -> int:
        return sum(self.events.values())

    def count(self, use: Use, events: int, k: int | None) -> None:
        """Count events that were matched in this way."""
        self.events[use] = self.events.get(use, 0) + events
        if k is not None:
            self.k = k

    def shares(self, mode: Mode) -> dict[Use, float]:
        """The share of each use of the mode; if there was none, `match` has all."""
        mine = {use: n for use, n in self.events.items() if use.mode is mode and n}
        total = sum(mine.values())
        return {use: n / total for use, n in mine.items()} if total else {Use(mode, best=False): 1.0}

    def changes_per_event(self) -> float:
        """Rows inserted, deleted or updated per matched event; 0 if no event was matched."""
        return self.changed / self.total if self.total else 0.0

    def modes(self) -> list[Mode]:
        """The modes in use, `all` always among them."""
        return [
            mode for mode in Mode if mode is Mode.ALL or any(n for use, n in self.events.items() if use.mode is mode)
        ]
