"""K-index: posting lists by dimension and cell, counted; static (docs/indexes/k-index.md)."""
