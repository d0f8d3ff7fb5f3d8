"""Metadata of subscriptions: any JSON value, returned with matches and never looked at."""

from __future__ import annotations

import json

from matchwood.errors import SubscriptionError
from matchwood.schema import describe


def checked_metadata(value: object, subject: str) -> object:
    """A copy of the value, as JSON would give it back; `SubscriptionError` if it is no JSON value.

    >>> checked_metadata({"owner": ("Ada", 1)}, "subscription 7")
    {'owner': ['Ada', 1]}
    """
    try:
        copy: object = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise SubscriptionError(
            f"{subject}: expected metadata that is a JSON value, got {describe(value)}: {error}"
        ) from None
    return copy
