"""How far ahead of its use memory is prefetched: far enough to hide a miss of the cache, near enough to be there still."""

from __future__ import annotations

PREFETCH_IDS = 8
"""Ids between the prefetch of what bears an id and its use; the cell of the table is prefetched twice as early."""
PREFETCH_VISITS = 5
"""Visits to nodes of an MO-Tree between the prefetch of a visit's planes and its filter."""
PREFETCH_CANDIDATES = 32
"""Candidates of a batch between the prefetch of a record and its verification; its entries are prefetched half as early."""
PREFETCH_ROWS = 16
"""Rows between the prefetch of a row's entries and its verification; its head is prefetched twice as early."""
