"""The process that Spark forks Python workers from, with the indexes and their kernels imported beforehand.

Set `spark.python.daemon.module` to this module (`session.settings` does); without it everything works, and starts later.
"""

from __future__ import annotations

from pyspark.daemon import manager

import matchwood.index
import matchwood.spark.match_worker
import matchwood.spark.stream_plan  # noqa: F401

if __name__ == "__main__":
    manager()
