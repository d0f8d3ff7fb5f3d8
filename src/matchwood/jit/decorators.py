"""The decorators of compiled functions: Python calls a `kernel`, kernels call a `helper` or a `subroutine`.

Options that all of them set, and why:

    nogil=True              a kernel touches no Python object, so other threads run in the meantime
    error_model="numpy"     a division by zero gives inf or NaN instead of a test and a branch at each division
    _nrt=False              no reference counting, and an allocation inside a kernel does not compile. A private flag of
                            Numba, whose minor version is pinned; tests/jit/test_decorators.py watches both effects
    no_cfunc_wrapper=True   kernels are not called from C

Kernels are kept on disk in a cache of our own, since Numba's would serve stale code (`jit.cache`). Helpers and subroutines
are parts of the kernels that call them (`jit.linking`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from matchwood.jit.cache import KernelCache
from matchwood.jit.linking import Helper, KernelCompiler

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; the first call with new argument types compiles or loads from disk."""
    dispatcher = numba.njit(pipeline_class=KernelCompiler, **OPTIONS)(function)
    if hasattr(dispatcher, "enable_caching"):  # under NUMBA_DISABLE_JIT it is the plain function
        # What `enable_caching` does, with our cache in place of Numba's.
        dispatcher._cache = KernelCache(function)
    return dispatcher


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that is inlined into each of its callers."""
    return Helper(function, {**OPTIONS, "forceinline": True}, kernel)


def subroutine(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call and that is not forced inline, whatever calls it: the option would be inherited."""
    return Helper(function, {**OPTIONS, "forceinline": False}, kernel)
