"""Compiled code of `mo_tree`: arrays in, arrays out."""
