"""Lines of JSON in a worker: encoded in parts, with access to the line of each record for rejects and live events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from matchwood.encode.json_lines import stream_json_events, stream_json_subscriptions
from matchwood.encode.rejects import NO_ID, EncodedEvents, EncodedSubscriptions
from matchwood.schema import Schema
from matchwood.spark.merge import choose_events

NO_EVENT_ID = "the event has no id; matches are reported by the id of the event, so give it one"

Encoded = EncodedSubscriptions | EncodedEvents
ContentOf = Callable[[int], Any]
"""The content of a record by its position in the partition."""


def encode_event_lines(batches: Iterable[Any], schema: Schema) -> Iterator[tuple[EncodedEvents, ContentOf]]:
    """The events of a partition of lines, part by part."""
    yield from _encode_lines(batches, schema, partial(stream_json_events, learn=True))


def encode_subscription_lines(
    batches: Iterable[Any], schema: Schema
) -> Iterator[tuple[EncodedSubscriptions, ContentOf]]:
    """The subscriptions of a partition of lines, part by part."""
    yield from _encode_lines(batches, schema, stream_json_subscriptions)


def at_offset(content_of: ContentOf, first: int) -> ContentOf:
    """The contents of a part whose records begin at position `first` of the partition."""
    return partial(_content_at, content_of, first)


def with_ids(part: EncodedEvents) -> EncodedEvents:
    """The events that have an id. O(entries) if one lacks it."""
    good = part.ids != NO_ID
    if good.all():
        return part
    return EncodedEvents(choose_events(part.events, good), part.ids[good], part.positions[good], part.until[good])


def _encode_lines(batches: Iterable[Any], schema: Schema, encode: Callable[..., Iterator[Any]]) -> Iterator[Any]:
    pending: list[str] = []  # lines that the encoder has taken and not returned in a part yet

    def lines() -> Iterator[str]:
        for batch in batches:
            for line in batch.column(0).to_pylist():
                pending.append(line)
                yield line

    done = 0
    for part in encode(lines(), schema):
        yield part, at_offset(pending.__getitem__, done)
        done += len(pending)
        pending.clear()


def _content_at(content_of: ContentOf, first: int, position: int) -> Any:
    return content_of(position - first)
