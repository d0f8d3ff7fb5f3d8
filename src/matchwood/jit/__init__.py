"""Compiled code: the decorators, the cache on disk, intrinsics, and the ways to call a kernel.

Kernels live in the folders named `kernels`, beside what owns their arrays. A module there imports NumPy, Numba, this package,
other kernels, `matchwood.encode.arrays` and `matchwood.geo`, nothing else.
"""
