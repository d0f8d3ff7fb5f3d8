"""Every index there is: our own and the baselines. The contract suite runs over all of them."""

from __future__ import annotations

from typing import Any

from matchwood.baselines import BASELINES, BEQTree
from matchwood.structures import INDEXES, EventIndex, Index, LiveEvents

SYSTEMS: dict[str, type[Index]] = {**INDEXES, **BASELINES}
EVENT_SYSTEMS: dict[str, type[EventIndex]] = {index.name: index for index in (LiveEvents, BEQTree)}


def make_system(name: str, **parameters: Any) -> Index:
    """An empty index of that name."""
    return SYSTEMS[name](**parameters)
