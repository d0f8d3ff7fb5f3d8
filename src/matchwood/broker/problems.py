"""Errors over HTTP: problem details (RFC 9457) from Matchwood's exceptions, and back.

`problem_of(error)` gives the document; its `detail` is the message of the engine. `error_of(...)` gives a client that exception
again: `type` names the class. An exception that is not Matchwood's becomes a 500 that says nothing about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from matchwood import errors
from matchwood.errors import MatchwoodError, ParseError, ServiceError

CONTENT_TYPE = "application/problem+json"
PREFIX = "urn:matchwood:problem:"
INTERNAL = "the broker failed to answer; its log has the reason"
TITLES: dict[type[MatchwoodError], tuple[int, str]] = {
    errors.MatchwoodError: (400, "The request cannot be used"),
    errors.SchemaError: (422, "An attribute or a value does not fit the schema"),
    errors.UnknownAttributeError: (422, "The schema does not know the attribute"),
    errors.ValueTypeError: (422, "A value is of the wrong type"),
    errors.InexactValueError: (422, "A value cannot be held exactly"),
    errors.ExpressionError: (422, "The expression cannot be used"),
    errors.ParseError: (422, "The expression is not of the grammar"),
    errors.ConversionError: (422, "The condition cannot be converted"),
    errors.TooComplexError: (422, "The expression is too complex"),
    errors.NeverMatchesError: (422, "No event can match the expression"),
    errors.SubscriptionError: (422, "The subscription cannot be used"),
    errors.DuplicateSubscriptionError: (409, "The subscription exists already"),
    errors.UnknownSubscriptionError: (404, "There is no such subscription"),
    errors.EventError: (422, "The event cannot be used"),
    errors.QueryError: (400, "A parameter cannot be used"),
    errors.UnsupportedError: (400, "The index does not offer this"),
    errors.MissingExtraError: (501, "The broker lacks an optional dependency"),
    errors.StorageError: (503, "The broker cannot read or write its data"),
    errors.JournalError: (507, "The change could not be made durable"),
    errors.WorkloadError: (400, "The workload cannot be used"),
    errors.ServiceError: (500, "The broker failed"),
    errors.RequestError: (400, "The request cannot be read"),
    errors.MediaTypeError: (415, "The content type is not supported"),
    errors.AuthenticationError: (401, "The key is missing or not valid"),
    errors.ForbiddenError: (403, "The key does not allow this"),
    errors.NotFoundError: (404, "There is no such thing"),
    errors.ConflictError: (409, "The thing has changed, or exists already"),
    errors.TooLargeError: (413, "Too large"),
    errors.QuotaError: (429, "Too much, or too often"),
    errors.EgressError: (422, "The address of the webhook is not allowed"),
    errors.UnavailableError: (503, "The broker is not available"),
    errors.ConnectionLostError: (502, "The broker cannot be reached"),
}
"""Status and title of every class. `ServiceError.status`, if set, replaces the status (a conflict may be a 412)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document and the headers that go with it."""

    status: int
    type: str
    title: str
    detail: str
    extensions: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.extensions,
        }


def problem_of(error: BaseException) -> Problem:
    """The problem that says what this error says.

    >>> problem = problem_of(errors.UnknownSubscriptionError("there is no subscription 'ann'"))
    >>> problem.status, problem.type, problem.detail
    (404, 'urn:matchwood:problem:unknown-subscription', "there is no subscription 'ann'")
    """
    if not isinstance(error, MatchwoodError):
        return Problem(500, f"{PREFIX}internal", "The broker failed", INTERNAL)
    known = next(class_ for class_ in type(error).__mro__ if class_ in TITLES)
    status, title = TITLES[known]
    extensions: dict[str, Any] = {}
    headers = {"WWW-Authenticate": 'Bearer realm="matchwood"'} if status == 401 else {}
    if isinstance(error, ParseError):
        extensions = {"expression": error.text, "position": error.position}
    if isinstance(error, ServiceError):
        status = error.status or status
        if error.retry_after is not None:
            headers = {**headers, "Retry-After": str(max(1, round(error.retry_after)))}
    detail = str(error.args[0]) if error.args else title
    return Problem(status, PREFIX + slug(known), title, detail, extensions, headers)


def problem_of_status(status: int, detail: str) -> Problem:
    """A problem without an exception of ours: what a framework refuses (404, 405, 413 ...).

    >>> problem_of_status(405, "GET is not offered here").title
    'Method Not Allowed'
    """
    return Problem(status, "about:blank", HTTPStatus(status).phrase, detail)


def error_of(status: int, body: object, *, retry_after: float | None = None) -> MatchwoodError:
    """The exception that a broker answered with, for a client to raise. `body` is the decoded document, or anything else.

    >>> error_of(404, problem_of(errors.UnknownSubscriptionError("there is no subscription 'ann'")).to_json())
    UnknownSubscriptionError("there is no subscription 'ann'")
    """
    document: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    detail = document.get("detail") or document.get("title") or f"the broker answered {status} without saying why"
    class_ = _CLASSES.get(str(document.get("type", "")).removeprefix(PREFIX)) or _by_status(status)
    if class_ is ParseError:
        error: MatchwoodError = ParseError("", str(document.get("expression", "")), int(document.get("position", 0)))
        error.args = (str(detail),)
    else:
        error = class_(str(detail))
    if isinstance(error, ServiceError):
        error.status, error.retry_after = status, retry_after
    return error


def slug(class_: type[MatchwoodError]) -> str:
    """The name of a class in the type of a problem.

    >>> slug(errors.UnknownSubscriptionError)
    'unknown-subscription'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", class_.__name__.removesuffix("Error")).lower()


_CLASSES = {slug(class_): class_ for class_ in TITLES}
_BY_STATUS: dict[int, type[MatchwoodError]] = {
    401: errors.AuthenticationError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    412: errors.ConflictError,
    413: errors.TooLargeError,
    415: errors.MediaTypeError,
    429: errors.QuotaError,
}


def _by_status(status: int) -> type[MatchwoodError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in (502, 503, 504):
        return errors.UnavailableError
    return errors.RequestError if 400 <= status < 500 else errors.ServiceError
