"""Why an event matches a subscription or not: the oracle's judgement in words."""

from __future__ import annotations

from dataclasses import dataclass

from matchwood.lang.describe import describe_predicate, describe_value
from matchwood.lang.evaluate import Judgement, PredicateVerdict
from matchwood.schema import Schema


@dataclass(frozen=True, slots=True)
class Explanation:
    """The judgement on one subscription and one event. `str()` tells it line by line."""

    id: int
    priority: float
    judgement: Judgement
    schema: Schema

    @property
    def matched(self) -> bool:
        return self.judgement.matched

    @property
    def score(self) -> float | None:
        """The score, None if there is no match."""
        return self.judgement.score

    def __str__(self) -> str:
        verdict = f"matches with score {self.score:g}" if self.score is not None else "does not match"
        lines = [f"subscription {self.id} {verdict}"]
        for number, row in enumerate(self.judgement.rows, 1):
            if len(self.judgement.rows) > 1:
                outcome = f"holds, score {row.score:g}" if row.matched else "fails"
                lines.append(f"  alternative {number} of {len(self.judgement.rows)} {outcome}")
            lines.extend(f"  {self._line(predicate)}" for predicate in row.predicates)
        if self.priority:
            lines.append(f"  {self.priority:+g} priority")
        return "\n".join(lines)

    def _line(self, verdict: PredicateVerdict) -> str:
        mark = f"{verdict.weight:+g}".rjust(6) if verdict.held else "    no"
        text = describe_predicate(verdict.predicate, self.schema)
        value = describe_value(verdict.predicate.attribute, verdict.value, self.schema)
        return f"{mark}  {text}   (event: {value})"
