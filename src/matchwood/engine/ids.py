"""Ids of subscriptions and events.

Inside an engine every subscription has a number from 0 to 2^63 - 1. Users choose once per engine what they see: these numbers, or
strings of their own, which `Names` maps to numbers in order of subscription.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from matchwood.encode.arrays import Int64s
from matchwood.errors import EventError, MatchwoodError, QueryError, SubscriptionError
from matchwood.schema import describe

MAX_ID = 2**63 - 1

Id = int | str
"""The id of a subscription as users see it."""


class Ids(StrEnum):
    """What the ids of an engine's subscriptions are."""

    INT = "int"
    STR = "str"


def ids_of(kind: object) -> Ids:
    """The kind of ids of that name (or the class `int` or `str`); `QueryError` if there is none."""
    try:
        return Ids({int: "int", str: "str"}.get(kind, kind))  # type: ignore[call-overload]
    except (ValueError, TypeError):
        raise QueryError(f"expected ids 'int' or 'str', got {kind!r}") from None


def is_id(value: object) -> bool:
    """Can the value be a number of a subscription or event? Python's and NumPy's integers can, booleans cannot."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) <= MAX_ID


def subscription_id(value: object) -> int:
    """The number of a subscription as an int; `SubscriptionError` if it cannot be one."""
    return _checked(value, "a subscription id", SubscriptionError)


def event_id(value: object) -> int:
    """The id of an event as an int; `EventError` if it cannot be one."""
    return _checked(value, "an event id", EventError)


def _checked(value: object, expected: str, error: type[MatchwoodError]) -> int:
    if type(value) is int and 0 <= value <= MAX_ID:
        return value
    if not is_id(value):
        raise error(f"expected {expected} that is a whole number from 0 to 2^63 - 1, got {describe(value)}")
    assert isinstance(value, int | np.integer)
    return int(value)


def shown_id(id_: Id) -> str:
    """An id for a message."""
    return repr(id_) if isinstance(id_, str) else str(id_)


_SPARSE = 16
"""Texts are an array by number while there are at most so many numbers for each: then it is no larger than a dictionary."""


class Names:
    """The string ids of an engine and their numbers. One writer. About 100 to 200 bytes an id.

    Numbers are given one after the other, so the texts are an array by number: a batch of matches finds its texts in a sixth of
    the time that a dictionary takes, whose cache misses wait for each other. It is a dictionary once most ids are gone.

    >>> names = Names()
    >>> names.add(["a", "b"], [0, 1])
    >>> names.number("b"), names.texts(np.array([1, 0])).tolist()
    (1, ['b', 'a'])
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: np.ndarray[Any, Any] | dict[int, str] = np.full(64, None, object)

    def number(self, text: object) -> int | None:
        """The number of an id, None if it is unknown; `SubscriptionError` if it is no string."""
        if not isinstance(text, str) or not text:
            raise SubscriptionError(f"expected a subscription id that is a string, got {describe(text)}")
        return self._numbers.get(text)

    def free(self, text: str) -> str:
        """This id or, if it is taken, one made of it that is not."""
        while text in self._numbers:
            text = f"_{text}"
        return text

    def text(self, number: int) -> str:
        """The id of a number."""
        text: str = self._texts[number]
        return text

    def texts(self, numbers: Int64s) -> np.ndarray[Any, Any]:
        """The ids of these numbers, as an array of strings. O(ids)."""
        if isinstance(self._texts, dict):
            return np.fromiter(map(self._texts.__getitem__, numbers.tolist()), object, len(numbers))
        return self._texts[numbers]

    def add(self, texts: Sequence[str], numbers: Sequence[int]) -> None:
        """Enter ids that are new."""
        self._numbers.update(zip(texts, numbers, strict=True))
        self._make_room(max(numbers, default=0) + 1)
        if isinstance(self._texts, dict):
            self._texts.update(zip(numbers, texts, strict=True))
        else:
            self._texts[numbers] = texts

    def _make_room(self, end: int) -> None:
        """Let there be room for numbers below `end`."""
        texts, count = self._texts, len(self._numbers)
        if isinstance(texts, dict) or end <= len(texts):
            return
        if end <= _SPARSE * count:
            self._texts = np.concatenate([texts, np.full(max(end, 2 * len(texts)) - len(texts), None, object)])
        else:
            self._texts = {number: text for text, number in self._numbers.items()}

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget these ids, as far as they are known."""
        texts = self._texts
        for number in numbers:
            if isinstance(texts, dict):
                text = texts.pop(number, None)
            elif number < len(texts):
                text, texts[number] = texts[number], None
            else:
                text = None
            if text is not None:
                del self._numbers[text]

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, for saving."""
        numbers = np.fromiter(self._numbers.values(), np.int64, len(self._numbers))
        return {"name_numbers": numbers, "name_texts": json_array(list(self._numbers))}

    @classmethod
    def of_arrays(cls, saved: Mapping[str, np.ndarray]) -> Names:
        """What `arrays` gave."""
        names = cls()
        names.add([str(text) for text in of_json_array(saved["name_texts"])], saved["name_numbers"].tolist())
        return names


def json_array(value: object) -> np.ndarray:
    """A JSON value as an array of bytes, for saving beside other arrays."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def of_json_array(saved: np.ndarray) -> Any:
    """What `json_array` gave."""
    return json.loads(saved.tobytes().decode())
