"""pyarrow, which tables need and nothing else does. It is an extra of the installation, imported with the first table."""

from __future__ import annotations

from matchwood.errors import MissingExtraError

try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtraError(
        f"Arrow tables, DataFrames, Parquet and CSV need pyarrow, which cannot be imported ({error}); "
        "install it with: pip install 'matchwood[arrow]'"
    ) from None

__all__ = ["pa"]
