"""Compiled code of `postings`: arrays in, arrays out."""
