"""The column `metadata` of subscriptions: data of the subscriber that is no condition, kept beside the rows as JSON values."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from matchwood.encode import heads
from matchwood.encode.arrow_keys import content, is_text, python_texts
from matchwood.encode.rejects import METADATA, Faults
from matchwood.errors import MatchwoodError, SubscriptionError
from matchwood.schema import describe


def read_metadata(batch: Any, faults: Faults) -> list[Any] | None:
    """The metadata of each record, None where it is null; None if there is no such column. O(cells), with Python objects.

    Strings are JSON text. A column of another type (structs, lists, numbers) holds the values themselves.
    """
    array = heads.column(batch, METADATA)
    if array is None:
        return None
    parsed = is_text(array.type)
    values = python_texts(array) if parsed else [content(array, i) for i in range(len(array))]
    found: list[Any] = [None] * len(values)
    for i, value in enumerate(values):
        if value is None:
            continue
        try:
            found[i] = parsed_json(value) if parsed else json_value(value)
        except MatchwoodError as error:
            faults.add(i, error)
    return found


def parsed_json(text: str) -> Any:
    """The value of JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SubscriptionError(
            f"{METADATA}: expected JSON text, got {describe(text)}: {error}; write a string as json.dumps does"
        ) from None


def json_value(value: object) -> Any:
    """The value as JSON has it: instants and dates become ISO 8601 text, decimals numbers.

    >>> json_value({"since": date(2026, 1, 31), "caps": (3, Decimal("0.5"))})
    {'since': '2026-01-31', 'caps': [3, 0.5]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: json_value(item) for key, item in value.items()}
    raise SubscriptionError(f"{METADATA}: expected a JSON value, got {describe(value)}")
