"""Compiled code of `live`: arrays in, arrays out."""
