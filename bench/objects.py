"""Events of a workload as the mappings that users hand to an engine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from matchwood.encode.arrays import Events
from matchwood.schema import Schema


def as_mappings(events: Events, schema: Schema) -> Iterator[dict[str, object]]:
    """One mapping from attribute to value for each event; attributes must be numbers or points with a single value each."""
    names = {attribute.dims[0]: (attribute.name, len(attribute.dims)) for attribute in schema}
    offsets, dims, keys = events.offsets.tolist(), events.dims.tolist(), events.lo.tolist()
    for start, stop in pairwise(offsets):
        event: dict[str, object] = {}
        for at in range(start, stop):
            if dims[at] in names:  # the latitude of a point belongs to its longitude
                name, width = names[dims[at]]
                event[name] = keys[at] if width == 1 else (keys[at], keys[at + 1])
        yield event
