"""What the papers compare against, under the same protocols as our own structures. Imported by tests and benchmarks only."""

from __future__ import annotations

from matchwood.baselines.be_tree import BETree
from matchwood.baselines.beq_tree import BEQTree
from matchwood.baselines.op_index import OpIndex
from matchwood.baselines.tama import Tama
from matchwood.structures.base import Index

BASELINES: dict[str, type[Index]] = {index.name: index for index in (BETree, OpIndex, Tama)}
"""The indexes by name. The R*-tree is left out: it needs the package `rtree`."""

__all__ = ["BASELINES", "BEQTree", "BETree", "OpIndex", "Tama"]
