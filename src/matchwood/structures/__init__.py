"""The indexes: one folder a structure, all under the protocol of `structures.base`, chosen by name; live events under that of
`structures.event_base`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matchwood.errors import QueryError, StorageError
from matchwood.store.storage import read_folder
from matchwood.structures.base import Capability, Index, Stats
from matchwood.structures.event_base import EventIndex

if TYPE_CHECKING:
    from matchwood.structures.be_star.index import BEStarTree
    from matchwood.structures.k_index.index import KIndex
    from matchwood.structures.live.index import LiveEvents
    from matchwood.structures.mo_tree.index import MOTree
    from matchwood.structures.postings.index import PostingsIndex
    from matchwood.structures.ranked import RankedIndex
    from matchwood.structures.scan.index import Scan
    from matchwood.structures.split.index import SplitIndex
    from matchwood.structures.vcr.index import VCR

_MODULE_OF = {
    "Scan": "scan.index",
    "VCR": "vcr.index",
    "BEStarTree": "be_star.index",
    "KIndex": "k_index.index",
    "MOTree": "mo_tree.index",
    "PostingsIndex": "postings.index",
    "RankedIndex": "ranked",
    "SplitIndex": "split.index",
    "LiveEvents": "live.index",
}
"""The classes, each in a folder of its own. Only what is used is imported: the kernels of all take a tenth of a second."""

_CLASS_OF = {
    "scan": "Scan",
    "vcr": "VCR",
    "be-star-tree": "BEStarTree",
    "k-index": "KIndex",
    "mo-tree": "MOTree",
    "postings": "PostingsIndex",
    "ranked": "RankedIndex",
    "split": "SplitIndex",
}


class _Indexes(Mapping[str, type[Index]]):
    """Every index by its name, imported when it is looked up."""

    def __getitem__(self, name: str) -> type[Index]:
        found: type[Index] = __getattr__(_CLASS_OF[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASS_OF)

    def __len__(self) -> int:
        return len(_CLASS_OF)

    def __contains__(self, name: object) -> bool:
        return name in _CLASS_OF


INDEXES: Mapping[str, type[Index]] = _Indexes()
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
    "PostingsIndex",
    "RankedIndex",
    "Scan",
    "SplitIndex",
    "Stats",
    "load_index",
    "make_index",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


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
