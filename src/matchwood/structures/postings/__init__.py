"""Postings: rows filed under a rare value, bit planes for the others (docs/indexes/postings.md)."""
