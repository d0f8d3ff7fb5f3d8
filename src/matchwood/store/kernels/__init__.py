"""Compiled code of `store`: arrays in, arrays out."""
