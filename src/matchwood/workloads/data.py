"""The folder of real data. Workloads that do not need real data generate seeded data without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matchwood.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER_VARIABLE = "MATCHWOOD_DATA"


def data_folder(given: Path | None = None) -> Path | None:
    """The given folder, else that of the variable MATCHWOOD_DATA, else `../shared/data` of the enclosing repository, else
    None."""
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
    """The file of this name as a pyarrow table. Raises `WorkloadError` if there is none."""
    path = find(name, given)
    if path is None:
        looked = data_folder(given)
        raise WorkloadError(
            f"{name}.parquet was not found in {looked or 'any data folder'}; "
            f"set {FOLDER_VARIABLE} to the folder that contains it"
        )
    import pyarrow.parquet  # workloads without real data do not need Arrow

    return pyarrow.parquet.read_table(path, columns=None if columns is None else list(columns))
