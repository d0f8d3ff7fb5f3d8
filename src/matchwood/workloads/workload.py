"""The base of all workloads: immutable parameters that determine a schema, subscriptions and events from a seed.

    parameters + seed -> structure (clusters, targets, regions, popularity)  one stream
                      -> subscriptions                                       one stream
                      -> events, batch 0, 1, 2, ...                          one stream per batch

The streams are independent, so events do not change with the number of subscriptions. The dimensions of a row are in ascending
order unless a workload says otherwise; subscription ids are 0, 1, 2, ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, ClassVar, Self

import numpy as np

from matchwood.encode.arrays import Events, Rows
from matchwood.errors import WorkloadError
from matchwood.schema import Schema
from matchwood.workloads.selectivity import Selectivity, measure


class Part(IntEnum):
    """The independent streams of one seed."""

    STRUCTURE = 0
    SUBSCRIPTIONS = 1
    EVENTS = 2
    WEIGHTS = 3
    TIMES = 4


@dataclass(frozen=True, kw_only=True)
class Workload(ABC):
    """Parameters of a workload. Immutable, so several threads may use one at the same time."""

    size: int = 1_000_000
    """The number of subscriptions."""
    seed: int = 1

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The parameters of a preset, with `changes` applied."""
        if name not in cls.PRESETS:
            raise WorkloadError(f"{cls.__name__} has no preset {name!r}; it has {', '.join(cls.PRESETS)}")
        return cls(**{**cls.PRESETS[name], **changes})

    def parameters(self) -> dict[str, Any]:
        """Everything that is needed to generate the same workload again, as plain values for a report."""
        values = {name: value if _plain(value) else str(value) for name, value in asdict(self).items()}
        return {"workload": type(self).__name__, **values}

    @abstractmethod
    def schema(self) -> Schema:
        """The declared attributes; their dimensions are 0, 1, 2, ... in this order."""

    @abstractmethod
    def subscriptions(self) -> Rows:
        """All subscriptions. The same arrays at every call."""

    @abstractmethod
    def events(self, count: int, *, batch: int = 0) -> Events:
        """`count` events of an independent batch (say 0 to warm up and 1 to measure). The same arrays at every call."""

    def selectivity(self, *, events: int = 200, subscriptions: int = 200_000, rows: Rows | None = None) -> Selectivity:
        """The match probability on a sample. Pass `rows` to avoid generating `subscriptions()` again."""
        return measure(self.subscriptions() if rows is None else rows, self.events(events), subscriptions=subscriptions)

    def _stream(self, part: Part, batch: int = 0) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(part, batch)))


def require(holds: bool, message: str) -> None:
    """Raise `WorkloadError` unless a condition on the parameters holds."""
    if not holds:
        raise WorkloadError(message)


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | tuple | list)
