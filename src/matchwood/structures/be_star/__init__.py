"""BE*-Tree: a tree over attributes and values, for ranked matching of conjunctions (docs/indexes/be-star-tree.md)."""
