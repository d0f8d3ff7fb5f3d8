"""The two decorators every compiled function carries: `kernel` is called from Python, `helper` from kernels only.

What both ask of Numba, and why:

    nogil=True              a kernel touches no Python object, so other threads run meanwhile
    error_model="numpy"     a division by zero gives inf or NaN instead of a test and a branch at each division
    _nrt=False              no reference counting, and an allocation inside a kernel does not compile. A private flag of
                            Numba: its minor version is pinned, and tests/kernels/test_jit.py watches both effects
    our own disk cache      Numba's would serve stale code; see `jit.cache`

`helper` adds forceinline=True, so that the state tuple a helper is given is never copied to the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from matchwood.jit.cache import KernelCache

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; the first call with new argument types compiles or loads from disk."""
    return _compiled(function)


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels and other helpers call; it is inlined into each of them."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., Any], **options: bool) -> Any:
    dispatcher = numba.njit(**OPTIONS, **options)(function)
    if hasattr(dispatcher, "enable_caching"):  # under NUMBA_DISABLE_JIT it is the plain function
        # What `enable_caching` does, with our cache in place of Numba's.
        dispatcher._cache = KernelCache(function)
    return dispatcher
