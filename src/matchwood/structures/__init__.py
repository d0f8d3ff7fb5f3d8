"""The indexes: one folder a structure, all under the protocol of `structures.base`, chosen by name; live events under that of
`structures.event_base`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from matchwood.errors import QueryError, StorageError
from matchwood.store.storage import read_folder
from matchwood.structures.base import Capability, Index, Stats
from matchwood.structures.be_star.index import BEStarTree
from matchwood.structures.event_base import EventIndex
from matchwood.structures.k_index.index import KIndex
from matchwood.structures.live.index import LiveEvents
from matchwood.structures.mo_tree.index import MOTree
from matchwood.structures.ranked import RankedIndex
from matchwood.structures.scan.index import Scan
from matchwood.structures.vcr.index import VCR

INDEXES: dict[str, type[Index]] = {index.name: index for index in (Scan, VCR, BEStarTree, KIndex, MOTree, RankedIndex)}
"""Every index by its name."""

__all__ = [
    "INDEXES",
    "VCR",
    "BEStarTree",
    "Capability",
    "EventIndex",
    "Index",
    "KIndex",
    "LiveEvents",
    "MOTree",
    "RankedIndex",
    "Scan",
    "Stats",
    "load_index",
    "make_index",
]


def make_index(name: str, **parameters: Any) -> Index:
    """An empty index of that name."""
    if name not in INDEXES:
        raise QueryError(f"expected an index out of {', '.join(sorted(INDEXES))}, got {name!r}")
    known = inspect.signature(INDEXES[name]).parameters
    for parameter in parameters:
        if parameter not in known:
            options = ", ".join(known) or "none"
            raise QueryError(f"index {name!r} has no option {parameter!r}; its options: {options}")
    return INDEXES[name](**parameters)


def load_index(path: str | Path, *, verify: bool = True) -> Index:
    """The index saved at `path`, whichever it is. Arrays are mapped; `verify` reads them once and checks their checksums."""
    about, _ = read_folder(Path(path), "index", verify=False)
    kind = INDEXES.get(str(about.get("index")))
    if kind is None:
        raise StorageError(f"{path}: holds an index {about.get('index')!r} that this version does not know")
    return kind.load(path, verify=verify)
