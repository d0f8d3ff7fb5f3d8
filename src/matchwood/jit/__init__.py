"""Compiled code: the decorators, the cache on disk, intrinsics, and the ways to call a kernel."""
