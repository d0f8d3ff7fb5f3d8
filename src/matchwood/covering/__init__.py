"""Which subscription covers which: the definition, indexes that find covers, relation graphs, and routers that use them.

exact             the definition, in plain Python
cover_index       CoverIndex: any rows, by signature and k-d tree
zcurve            ZCurve: rectangles over the same attributes
graphs            RelationGraph (G_k)
reference_graphs  FullGraph (G*), StrictPoset: for comparison
router, network   Router over a Transport; Network: routers in one process
"""

from matchwood.covering.base import ALL, Found, Work
from matchwood.covering.cover_index import CoverIndex
from matchwood.covering.exact import covers, row_covers
from matchwood.covering.graphs import Changes, RelationGraph
from matchwood.covering.network import Network
from matchwood.covering.reference_graphs import FullGraph, StrictPoset
from matchwood.covering.router import Router
from matchwood.covering.transport import InProcess, Key, RoutingError, Transport
from matchwood.covering.zcurve import ZCurve

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
