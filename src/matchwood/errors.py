"""The exception tree. Imports nothing, so that every layer can raise from it.

MatchwoodError
├── SchemaError                      an attribute or a value does not fit the schema
│   ├── UnknownAttributeError        the schema is closed and does not know the name
│   ├── ValueTypeError               "expected X, got Y"
│   └── InexactValueError            float64 cannot hold the value exactly
├── ExpressionError                  a subscription's expression cannot be used
│   ├── ParseError                   the text is not of the grammar; shows a caret
│   ├── ConversionError              a condition of another language has no counterpart; names the construct and its place
│   ├── TooComplexError              the normal form would exceed the limit
│   └── NeverMatchesError            no event can ever match
├── SubscriptionError
│   ├── DuplicateSubscriptionError
│   └── UnknownSubscriptionError
├── EventError                       an event cannot be used
├── QueryError                       a bad k, mode or option of a call
│   └── UnsupportedError             the chosen index does not offer this; it says what does
├── MissingExtraError                an optional dependency is not installed; it names the extra that brings it
├── StorageError                     a saved folder is missing, foreign, damaged or too new
│   └── JournalError                 a change could not be made durable (disk full, failed fsync); it was not acknowledged
├── ServiceError                     a broker refuses a request, or a client cannot use its broker
│   ├── RequestError                 a body, header or parameter cannot be read
│   │   └── MediaTypeError           the content type is not one that the route reads
│   ├── AuthenticationError          no key, or one that is unknown, expired or revoked
│   ├── ForbiddenError               the key lacks a scope
│   ├── NotFoundError                there is no such thing
│   ├── ConflictError                the thing has changed meanwhile, or exists already
│   ├── TooLargeError                a body, batch or expression exceeds a limit
│   ├── QuotaError                   a tenant has used up a quota, or asks too often
│   ├── EgressError                  the address of a webhook is not allowed
│   ├── UnavailableError             the broker cannot write, or is starting or stopping
│   └── ConnectionLostError          the broker cannot be reached, or broke off
└── WorkloadError                    a workload's parameters contradict each other, or its data are missing
"""

from __future__ import annotations

from typing import Any, Self


class MatchwoodError(Exception):
    """Base of everything this package raises on purpose.

    >>> str(ValueTypeError("expected a number, got 'tall'").about("event 7, attribute 'height'"))
    "event 7, attribute 'height': expected a number, got 'tall'"
    """

    def about(self, subject: str) -> Self:
        """Put the subject (which subscription, which event, which row of which file) before the message; return self."""
        message = str(self.args[0]) if self.args else ""
        self.args = (f"{subject}: {message}", *self.args[1:])
        return self


class SchemaError(MatchwoodError):
    pass


class UnknownAttributeError(SchemaError):
    pass


class ValueTypeError(SchemaError):
    pass


class InexactValueError(SchemaError):
    pass


class ExpressionError(MatchwoodError):
    pass


class ParseError(ExpressionError):
    """The text is not of the grammar.

    `text` and `position` (0-based) say where; the message shows the line with a caret under it.
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(f"{message} at position {position}\n{caret(text, position)}")
        self.text = text
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is unpickled by calling its class with `args`, which here is the finished message.
        return _parse_error, (self.args, self.text, self.position)


class ConversionError(ExpressionError):
    pass


class TooComplexError(ExpressionError):
    pass


class NeverMatchesError(ExpressionError):
    pass


class SubscriptionError(MatchwoodError):
    pass


class DuplicateSubscriptionError(SubscriptionError):
    pass


class UnknownSubscriptionError(SubscriptionError):
    pass


class EventError(MatchwoodError):
    pass


class QueryError(MatchwoodError):
    pass


class UnsupportedError(QueryError):
    pass


class StorageError(MatchwoodError):
    pass


class JournalError(StorageError):
    pass


class ServiceError(MatchwoodError):
    """A broker refuses a request, or a client cannot use its broker. `status` is that of HTTP, None if there was no answer."""

    status: int | None = None
    retry_after: float | None = None
    """Seconds after which the same request may succeed, if the broker has named them."""


class RequestError(ServiceError):
    pass


class MediaTypeError(RequestError):
    pass


class AuthenticationError(ServiceError):
    pass


class ForbiddenError(ServiceError):
    pass


class NotFoundError(ServiceError):
    pass


class ConflictError(ServiceError):
    pass


class TooLargeError(ServiceError):
    pass


class QuotaError(ServiceError):
    pass


class EgressError(ServiceError):
    pass


class UnavailableError(ServiceError):
    pass


class ConnectionLostError(ServiceError):
    pass


class MissingExtraError(MatchwoodError, ImportError):
    """An optional dependency is missing. It is an `ImportError` too, for code that tries an import."""


class WorkloadError(MatchwoodError):
    """Parameters that contradict each other, missing data, or a workload that is not what it was asked to be."""


def _parse_error(args: tuple[str, ...], text: str, position: int) -> ParseError:
    """The error that another process pickled."""
    error = ParseError("", text, position)
    error.args = args
    return error


def caret(text: str, position: int, *, width: int = 100) -> str:
    """The line of `text` around `position` and, below it, a caret under that character.

    >>> print(caret("age > ", 6))
      age >
            ^
    """
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    column = position - line_start
    if len(line) > width:
        cut = max(0, column - width // 2)
        lead = "..." if cut else ""
        line, column = lead + line[cut : cut + width], column - cut + len(lead)
    pad = "".join("\t" if c == "\t" else " " for c in line[:column])
    return f"  {line.rstrip()}\n  {pad}{' ' * (column - len(pad))}^"
