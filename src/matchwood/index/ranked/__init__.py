"""Ranked publish/subscribe: scored interval indexes, and the multi-dimensional index over them (docs/indexes/ranked.md)."""

from matchwood.index.ranked.interval_tree import EndpointIntervalTree, IntervalTree
from matchwood.index.ranked.ir_tree import IRTree
from matchwood.index.ranked.scored_r_tree import ScoredRTree
from matchwood.index.ranked.segment_tree import SegmentTree
from matchwood.index.ranked.sopt_r_tree import SOPTRTree
from matchwood.index.ranked.structure import ScoredIntervals

STRUCTURES: dict[str, type[ScoredIntervals]] = {
    structure.name: structure for structure in (SOPTRTree, IRTree, SegmentTree, IntervalTree, ScoredRTree)
}
"""The one-dimensional structures by name."""

__all__ = [
    "STRUCTURES",
    "EndpointIntervalTree",
    "IRTree",
    "IntervalTree",
    "SOPTRTree",
    "ScoredIntervals",
    "ScoredRTree",
    "SegmentTree",
]
