"""The planner's rules, read from `rules.toml`: data with the measurements behind them, no thresholds in code."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Contender:
    """A structure worth trying for some uses, where the mean number of predicates of a row lies in `predicates`.

    `growth` tells how its time is carried from two sizes of a sample to all rows: along a line, or as a power of the rows.
    """

    index: str
    uses: tuple[str, ...]
    because: str
    predicates: tuple[float, ...] = (0.0, float("inf"))
    growth: str = "linear"


@dataclass(frozen=True, slots=True)
class Trial:
    """How structures are tried; `rules.toml` says what each figure is."""

    fewest_rows: int
    share: float
    most_rows: int
    events: int
    rounds: int
    patience: float
    hopeless: float
    changes: int

    def sample_of(self, rows: int) -> int:
        """How many of that many rows are tried."""
        return min(rows, max(self.fewest_rows, min(int(self.share * rows), self.most_rows)))


@dataclass(frozen=True, slots=True)
class Replan:
    """When a plan is looked at again."""

    growth: float
    first_look: int
    look: int
    shift: float
    candidates: float
    gain: float


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything the planner goes by."""

    least_rows: int
    trial: Trial
    replan: Replan
    contenders: tuple[Contender, ...]

    @classmethod
    def of(cls, content: dict[str, Any]) -> Rules:
        """The rules that a TOML document holds."""
        contenders = tuple(
            Contender(
                c["index"],
                tuple(c["uses"]),
                c["because"],
                tuple(c.get("predicates", (0.0, float("inf")))),
                c.get("growth", "linear"),
            )
            for c in content["contenders"]
        )
        return cls(content["least_rows"], Trial(**content["trial"]), Replan(**content["replan"]), contenders)


RULES = Rules.of(tomllib.loads(files(__package__).joinpath("rules.toml").read_text(encoding="utf-8")))
"""The rules as they are shipped."""
