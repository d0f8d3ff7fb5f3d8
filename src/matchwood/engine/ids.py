"""Ids of subscriptions and events: whole numbers from 0 to 2^63 - 1."""

from __future__ import annotations

import numpy as np

from matchwood.errors import EventError, MatchwoodError, SubscriptionError
from matchwood.schema import describe

MAX_ID = 2**63 - 1


def is_id(value: object) -> bool:
    """Can the value be an id? Python's and NumPy's integers can, booleans cannot."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) <= MAX_ID


def subscription_id(value: object) -> int:
    """The id of a subscription as an int; `SubscriptionError` if it cannot be one."""
    return _checked(value, "a subscription id", SubscriptionError)


def event_id(value: object) -> int:
    """The id of an event as an int; `EventError` if it cannot be one."""
    return _checked(value, "an event id", EventError)


def _checked(value: object, expected: str, error: type[MatchwoodError]) -> int:
    if not is_id(value):
        raise error(f"expected {expected} that is a whole number from 0 to 2^63 - 1, got {describe(value)}")
    assert isinstance(value, int | np.integer)
    return int(value)
