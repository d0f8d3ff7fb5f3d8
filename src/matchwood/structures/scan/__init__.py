"""Scan: looks at every row (docs/indexes/scan.md)."""
