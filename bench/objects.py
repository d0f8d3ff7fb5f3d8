"""Events of a workload as the mappings that users hand to an engine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from matchwood.encode.arrays import Events
from matchwood.schema import Schema


def as_mappings(events: Events, schema: Schema) -> Iterator[dict[str, object]]:
    """One mapping from attribute to value for each event: a number, a string, a point, or a list of numbers or strings."""
    about = {attribute.dims[0]: attribute for attribute in schema}
    offsets, dims, keys = events.offsets.tolist(), events.dims.tolist(), events.lo.tolist()
    for start, stop in pairwise(offsets):
        event: dict[str, object] = {}
        for at in range(start, stop):
            if dims[at] not in about:  # the latitude of a point belongs to its longitude
                continue
            attribute = about[dims[at]]
            value: object = keys[at] if attribute.symbols is None else attribute.symbols.text(int(keys[at]))
            if len(attribute.dims) > 1:
                event[attribute.name] = (keys[at], keys[at + 1])
            elif attribute.name not in event:
                event[attribute.name] = value
            else:
                before = event[attribute.name]
                event[attribute.name] = [*before, value] if isinstance(before, list) else [before, value]
        yield event
