"""Ranked publish/subscribe: scored interval indexes, and the multi-dimensional index over them (docs/indexes/ranked.md)."""

from matchwood.index.ranked.interval_tree import EndpointIntervalTree, IntervalTree
from matchwood.index.ranked.ir_tree import IRTree
from matchwood.index.ranked.ranked_index import STRUCTURES, RankedIndex
from matchwood.index.ranked.scored_r_tree import ScoredRTree
from matchwood.index.ranked.segment_tree import SegmentTree
from matchwood.index.ranked.sopt_r_tree import SOPTRTree
from matchwood.index.ranked.structure import ScoredIntervals

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
