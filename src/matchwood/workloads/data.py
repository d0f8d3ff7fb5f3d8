"""Where real data lies, if it is here at all. Only this module knows; a clone without data gets seeded stand-ins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matchwood.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER_VARIABLE = "MATCHWOOD_DATA"


def data_folder(given: Path | None = None) -> Path | None:
    """The folder given, else the one that MATCHWOOD_DATA names, else `../shared/data` of the repository we are in.

    None if there is none of them.
    """
    if given is not None:
        return given
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            beside = folder.parent / "shared" / "data"
            return beside if beside.is_dir() else None
    return None


def find(name: str, given: Path | None = None) -> Path | None:
    """The Parquet file of this name (without its ending), or None if there is none."""
    folder = data_folder(given)
    path = None if folder is None else folder / f"{name}.parquet"
    return path if path is not None and path.is_file() else None


def read(name: str, columns: Sequence[str] | None = None, given: Path | None = None) -> Any:
    """The file of this name as a pyarrow table; an error that says where to put it if there is none."""
    path = find(name, given)
    if path is None:
        looked = data_folder(given)
        raise WorkloadError(
            f"{name}.parquet is not there (looked in {looked or 'no folder'}); "
            f"set {FOLDER_VARIABLE} to the folder that holds it"
        )
    import pyarrow.parquet  # a workload without real data needs no Arrow

    return pyarrow.parquet.read_table(path, columns=None if columns is None else list(columns))
