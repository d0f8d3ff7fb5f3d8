"""Compiled code of `baselines`: arrays in, arrays out."""
