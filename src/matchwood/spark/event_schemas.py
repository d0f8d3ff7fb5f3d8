"""The schemas by which a worker encodes events, opened once for all tasks of a worker.

With conditions on lists of objects a schema holds an index of them (`planner.elements`), which takes longer to build than a task
may last.
"""

from __future__ import annotations

import json
from collections import OrderedDict

from matchwood.planner.elements import FEWEST, LARGE
from matchwood.planner.preparing import SCAN
from matchwood.schema import Schema
from matchwood.schema.functions import has_conditions
from matchwood.spark.shard_cache import compile_once

MAX_SCHEMAS = 4
"""Schemas that a worker keeps open."""

_schemas: OrderedDict[str, Schema] = OrderedDict()


def event_schema(content: str) -> Schema:
    """The schema of this JSON. Opened again if it has learnt something since: no task sees what another has learnt."""
    found = _schemas.pop(content, None)
    if found is None or found.mark():
        found = Schema.from_json(json.loads(content))
        found.has_clock = False
        prepare_conditions(found)
    _schemas[content] = found
    while len(_schemas) > MAX_SCHEMAS:
        _schemas.popitem(last=False)
    return found


def prepare_conditions(schema: Schema) -> None:
    """Have the kernels compiled that find which conditions on lists of objects hold, if the schema has conditions."""
    counts = [len(a.symbols) for a in schema if has_conditions(a.name) and a.symbols is not None]
    if counts:
        compile_once(SCAN)
    if max(counts, default=0) >= FEWEST:
        compile_once(LARGE)
