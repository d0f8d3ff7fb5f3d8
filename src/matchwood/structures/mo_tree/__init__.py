"""MO-Tree: buckets by overlapping cells of a few attributes, rows bit-sliced inside them (docs/indexes/mo-tree.md)."""
