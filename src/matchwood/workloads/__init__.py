"""Seeded workloads of the papers, of equality and membership, of mixed kinds, and from real tables; see docs/workloads.md.

>>> from matchwood.workloads import BEGen
>>> workload = BEGen(size=1000)
>>> workload.subscriptions().size, workload.events(10).size
(1000, 10)
"""

from matchwood.errors import WorkloadError
from matchwood.workloads.alerts import PaperAlerts
from matchwood.workloads.begen import BEGen
from matchwood.workloads.city import City
from matchwood.workloads.covering import Covering, Operations
from matchwood.workloads.keywords import Keywords
from matchwood.workloads.marketplace import Marketplace
from matchwood.workloads.ranked import Ranked
from matchwood.workloads.real import Ads, Flights, Papers, Retail
from matchwood.workloads.routing import Routing
from matchwood.workloads.selectivity import Selectivity, measure
from matchwood.workloads.targeting import Targeting
from matchwood.workloads.vcr import VCR
from matchwood.workloads.workload import Workload

__all__ = [
    "VCR",
    "Ads",
    "BEGen",
    "City",
    "Covering",
    "Flights",
    "Keywords",
    "Marketplace",
    "Operations",
    "PaperAlerts",
    "Papers",
    "Ranked",
    "Retail",
    "Routing",
    "Selectivity",
    "Targeting",
    "Workload",
    "WorkloadError",
    "measure",
]
