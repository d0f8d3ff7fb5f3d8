"""Which subscription covers which: exact tests, indexes that find covers, relation graphs, and routers that use them.

exact        the meaning, in plain Python
cover_index  CoverIndex: any rows, by signature and k-d tree; zcurve: ZCurve, rectangles only
graphs       RelationGraph (G_k), FullGraph (G*), StrictPoset
router       Router over a Transport; network: routers in one process
"""

from matchwood.covering.cover_index import ALL, CoverIndex, Found, Work
from matchwood.covering.exact import covers, row_covers
from matchwood.covering.graphs import Changes, FullGraph, RelationGraph, StrictPoset
from matchwood.covering.network import Network
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
