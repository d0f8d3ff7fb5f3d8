"""PySpark loads packages with this prefix by itself: `spark.read.format("matchwood")` is known to every session.

An exception here would keep sessions from finding any data source, so without the extra `spark` there is none.
"""

from contextlib import suppress

with suppress(ImportError):
    from matchwood.spark.source import LakeSource as DefaultSource

__all__ = ["DefaultSource"]
