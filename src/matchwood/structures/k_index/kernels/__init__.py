"""Compiled code of `k_index`: arrays in, arrays out."""
