"""Compiled code: the decorators, how states reach kernels, how helpers are linked, the cache on disk, intrinsics.

Kernels live in the folders named `kernels`, beside what owns their arrays. A module there imports NumPy, Numba, this package,
other kernels, `matchwood.encode.arrays` and `matchwood.geo`, nothing else.
"""
