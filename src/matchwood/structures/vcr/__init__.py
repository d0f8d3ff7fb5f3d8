"""VCR: rectangles cut into virtual construct rectangles, for two dimensions (docs/indexes/vcr.md)."""
