"""Which subscription covers which: the definition, indexes that find covers, relation graphs, and routers that use them.

exact             the definition, in plain Python
cover_index       CoverIndex: any rows, by signature and k-d tree
zcurve            ZCurve: rectangles over the same attributes
graphs            RelationGraph (G_k)
reference_graphs  FullGraph (G*), StrictPoset: for comparison
router, network   Router over a Transport; Network: routers in one process

The names below are imported at first use: an engine needs none of them until it is asked about covers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matchwood.covering.base import ALL, Found, Work
    from matchwood.covering.cover_index import CoverIndex
    from matchwood.covering.exact import covers, row_covers
    from matchwood.covering.graphs import Changes, RelationGraph
    from matchwood.covering.network import Network
    from matchwood.covering.reference_graphs import FullGraph, StrictPoset
    from matchwood.covering.router import Router
    from matchwood.covering.transport import InProcess, Key, RoutingError, Transport
    from matchwood.covering.zcurve import ZCurve

_MODULES = {
    "base": ["ALL", "Found", "Work"],
    "cover_index": ["CoverIndex"],
    "exact": ["covers", "row_covers"],
    "graphs": ["Changes", "RelationGraph"],
    "network": ["Network"],
    "reference_graphs": ["FullGraph", "StrictPoset"],
    "router": ["Router"],
    "transport": ["InProcess", "Key", "RoutingError", "Transport"],
    "zcurve": ["ZCurve"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "ALL",
    "Changes",
    "CoverIndex",
    "Found",
    "FullGraph",
    "InProcess",
    "Key",
    "Network",
    "RelationGraph",
    "Router",
    "RoutingError",
    "StrictPoset",
    "Transport",
    "Work",
    "ZCurve",
    "covers",
    "row_covers",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
