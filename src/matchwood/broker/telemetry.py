"""OpenTelemetry, if it is installed and set up by the process: a span for each request that publishes.

Without it the `traceparent` of a request is checked and passed on with its events, to streams, consumers and webhooks,
all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    from opentelemetry import trace as _trace
    from opentelemetry.propagate import extract, inject
except ImportError:
    _trace: Any = None  # type: ignore[no-redef]

_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def enabled() -> bool:
    """Is OpenTelemetry there, with a provider that records?"""
    return _trace is not None and type(_trace.get_tracer_provider()).__name__ not in (
        "ProxyTracerProvider",
        "NoOpTracerProvider",
    )


def checked(parent: str | None) -> str | None:
    """The `traceparent` if it is one."""
    return parent if parent is not None and _PARENT.fullmatch(parent) else None


@contextmanager
def span(name: str, parent: str | None) -> Iterator[str | None]:
    """A span below the given `traceparent`; gives the one to pass on. A malformed one is dropped.

    >>> with span("publish", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") as passed_on:
    ...     passed_on is not None
    True
    >>> with span("publish", "nonsense") as passed_on:
    ...     passed_on
    """
    parent = checked(parent)
    if not enabled():
        yield parent
        return
    context = extract({} if parent is None else {"traceparent": parent})
    with _trace.get_tracer("matchwood.broker").start_as_current_span(name, context=context):
        carrier: dict[str, str] = {}
        inject(carrier)
        yield carrier.get("traceparent", parent)
