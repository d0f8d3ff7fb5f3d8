"""Why an event matches a subscription or does not: the judgement of the oracle as text."""

from __future__ import annotations

from dataclasses import dataclass

from matchwood.encode.arrays import Rows
from matchwood.encode.json_text import JsonText, json_event
from matchwood.encode.objects import decode_rows
from matchwood.engine.ids import Id
from matchwood.engine.reading import AnyEvent, Reader
from matchwood.errors import MatchwoodError
from matchwood.lang.describe import describe_predicate, describe_value
from matchwood.lang.evaluate import Combine, Judgement, Mode, PredicateVerdict, judge
from matchwood.lang.event import Event, event_keys
from matchwood.schema import Schema


@dataclass(frozen=True, slots=True)
class Explanation:
    """The judgement on one subscription and one event. `str()` gives a line for each predicate."""

    id: Id
    priority: float
    judgement: Judgement
    schema: Schema

    @property
    def matched(self) -> bool:
        """Does the subscription match the event?"""
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
        close = ", ".join(f"{closeness:g}" for closeness in verdict.closeness)
        return f"{mark}  {text}   (event: {value}{f', closeness {close}' if close else ''})"


def explain_rows(
    rows: Rows, event: AnyEvent, reader: Reader, *, id_: Id, mode: Mode | str, combine: Combine
) -> Explanation:
    """The explanation of one subscription, given by its rows, and one event. O(predicates)."""
    schema = reader.schema
    try:
        values = json_event(event) if isinstance(event, JsonText) else event
        keys = event_keys(values, schema, bad=reader.bad, now=reader.now() if schema.ages else None)
    except MatchwoodError as error:
        known = event.id if isinstance(event, Event) else None
        raise error.about("the event" if known is None else f"event {known}") from None
    priority = float(rows.priority[0])
    verdict = judge(decode_rows(rows, schema), keys, priority=priority, mode=mode, combine=combine)
    return Explanation(id_, priority, verdict, schema)
