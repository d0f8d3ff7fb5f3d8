"""Compiled code of `covering`: arrays in, arrays out."""
