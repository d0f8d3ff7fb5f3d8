"""Instants of Python as the instants of expressions."""

from __future__ import annotations

from datetime import UTC, date, datetime

from matchwood.errors import ExpressionError, SchemaError
from matchwood.schema import check_microseconds


def instant(value: datetime | date | str) -> datetime:
    """A datetime in UTC from any datetime (naive means UTC), date or ISO 8601 text: the form of instants in expressions.

    >>> instant("2026-01-31T12:00:00+02:00")
    datetime.datetime(2026, 1, 31, 10, 0, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, str):
        text = value
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            raise ExpressionError(f"expected a timestamp such as 2026-01-31T12:00:00Z, got {value!r}") from None
        try:
            check_microseconds(text)
        except SchemaError as error:
            raise ExpressionError(str(error)) from None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ExpressionError(f"the timestamp {value} lies outside the years 1 to 9999 in UTC") from None
