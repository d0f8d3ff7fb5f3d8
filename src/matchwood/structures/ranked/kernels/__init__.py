"""Compiled code of `ranked`: arrays in, arrays out."""
