"""How far ahead of its use memory is prefetched: far enough to hide a miss of the cache, near enough to be there still."""

from __future__ import annotations

PREFETCH_IDS = 8
"""Ids between the prefetch of what bears an id and its use; the cell of the table is prefetched twice as early."""
PREFETCH_ROWS = 16
"""Rows between the prefetch of a row's entries and its verification; its head is prefetched twice as early."""
