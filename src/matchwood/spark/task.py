"""What Spark tells a worker about the task that it runs."""

from __future__ import annotations

from pyspark import TaskContext

from matchwood.errors import StorageError

BATCH_ID = "streaming.sql.batchId"
"""The local property that holds the number of the micro-batch a task belongs to."""


def partition() -> int:
    """The partition of the task; 0 outside of a task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def micro_batch() -> int:
    """The micro-batch of the task. Raises `StorageError` outside of a streaming query."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(BATCH_ID)
    if number is None:
        raise StorageError(f"the task has no property {BATCH_ID}; run this inside a streaming query")
    return int(number)
