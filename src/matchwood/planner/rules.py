"""The planner's rules, read from `rules.toml`, which gives the measurement behind each threshold."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Contender:
    """A structure that is timed for some uses, if the mean number of predicates of a row lies in `predicates`.

    `growth` says how its time is extrapolated from two sample sizes to all rows: "linear", or "power" of the number of rows.
    """

    index: str
    uses: tuple[str, ...]
    because: str
    predicates: tuple[float, ...] = (0.0, float("inf"))
    growth: str = "linear"
    margin: float = 1.0
    """It must be faster than every other contender by this factor."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How contenders are timed; `rules.toml` explains each figure."""

    min_sample: int
    share: float
    max_sample: int
    events: int
    rounds: int
    min_seconds: float
    max_seconds: float
    drop_factor: float
    changes: int

    def sample_of(self, rows: int) -> int:
        """The size of the sample of that many rows."""
        return min(rows, max(self.min_sample, min(int(self.share * rows), self.max_sample)))


@dataclass(frozen=True, slots=True)
class Replan:
    """When a plan is reviewed."""

    growth: float
    first_review: int
    review: int
    shift: float
    candidates: float
    gain: float


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of the planner."""

    min_rows: int
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
                c.get("margin", 1.0),
            )
            for c in content["contenders"]
        )
        return cls(content["min_rows"], Trial(**content["trial"]), Replan(**content["replan"]), contenders)


RULES = Rules.of(tomllib.loads(files(__package__).joinpath("rules.toml").read_text(encoding="utf-8")))
"""The rules that come with the package."""
