"""Ranked publish/subscribe: scored interval indexes, and the multi-dimensional index over them (docs/indexes/ranked.md)."""

from matchwood.structures.ranked.index import STRUCTURES, RankedIndex
from matchwood.structures.ranked.interval_tree import EndpointIntervalTree, IntervalTree
from matchwood.structures.ranked.ir_tree import IRTree
from matchwood.structures.ranked.scored_r_tree import ScoredRTree
from matchwood.structures.ranked.segment_tree import SegmentTree
from matchwood.structures.ranked.sopt_r_tree import SOPTRTree
from matchwood.structures.ranked.structure import ScoredIntervals

__all__ = [
    "STRUCTURES",
    "EndpointIntervalTree",
    "IRTree",
    "IntervalTree",
    "RankedIndex",
    "SOPTRTree",
    "ScoredIntervals",
    "ScoredRTree",
    "SegmentTree",
]
