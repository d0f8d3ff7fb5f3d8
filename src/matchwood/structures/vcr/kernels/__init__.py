"""Compiled code of `vcr`: arrays in, arrays out."""
