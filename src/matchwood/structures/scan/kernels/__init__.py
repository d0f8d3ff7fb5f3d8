"""Compiled code of `scan`: arrays in, arrays out."""
