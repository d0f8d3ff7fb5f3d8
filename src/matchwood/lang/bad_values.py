"""Values in events that their attributes cannot take: what to do with them, and how many there were."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from matchwood.errors import MatchwoodError, QueryError

LOG = logging.getLogger("matchwood")


class OnBadValue(StrEnum):
    """What an engine does with a value that its attribute cannot take."""

    ABSENT = "absent"
    """The attribute is absent from this event; the value is counted."""
    RAISE = "raise"
    """The event is refused."""


@dataclass(frozen=True, slots=True)
class BadValue:
    """The bad values of one attribute so far: how many, and the message of the first."""

    count: int
    first: str


class BadValues(Mapping[str, BadValue]):
    """The bad values of events, by attribute. The first of each attribute is logged as a warning.

    Counts are approximate if several threads add at once.
    """

    def __init__(self) -> None:
        self._found: dict[str, BadValue] = {}

    def add(self, attribute: str, error: MatchwoodError) -> None:
        """Count one more."""
        before = self._found.get(attribute)
        if before is None:
            LOG.warning("a bad value in an event, taken as absent: %s", error)
            before = BadValue(0, str(error))
        self._found[attribute] = BadValue(before.count + 1, before.first)

    def __getitem__(self, attribute: str) -> BadValue:
        return self._found[attribute]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._found))

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"BadValues({self._found!r})"


def on_bad_value_of(name: str) -> OnBadValue:
    """The policy of that name; `QueryError` if there is none."""
    try:
        return OnBadValue(name)
    except ValueError:
        raise QueryError(f"expected on_bad_value 'absent' or 'raise', got {name!r}") from None
