"""Compiled loops: arrays in, arrays out.

A module here imports NumPy, Numba, `matchwood.encode.arrays` and `matchwood.sphere`, nothing else. Functions are compiled by
the two decorators of `_jit`; how compiled code is kept on disk is told in `_cache`.
"""
