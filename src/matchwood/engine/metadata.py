"""Metadata of subscriptions: any JSON value, returned with matches and never looked at."""

from __future__ import annotations

import json

from matchwood.errors import SubscriptionError
from matchwood.schema import describe


def checked_metadata(value: object, subject: str) -> object:
    """The value, if it is JSON; `SubscriptionError` otherwise.

    >>> checked_metadata({"owner": "Ada"}, "subscription 7")
    {'owner': 'Ada'}
    """
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise SubscriptionError(
            f"{subject}: expected metadata that is a JSON value, got {describe(value)}: {error}"
        ) from None
    return value
