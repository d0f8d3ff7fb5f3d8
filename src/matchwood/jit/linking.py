"""How helpers are compiled: to code that kernels link and inline, and no further.

Numba finishes every function that it compiles: it optimises the function with all that it calls, emits machine code, and builds
wrappers for calls from Python and from C. A helper is only ever a part of kernels, which are optimised as a whole, so all of this
would be thrown away; it took two thirds of the time to compile a structure. `HelperCompiler` stops a helper after its LLVM code.

A helper can be called from Python as well, by tests and invariant checks; then it is compiled once more, as a kernel.

This subclasses three private classes of Numba, whose minor version is pinned; tests/jit/test_decorators.py watches the effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import BaseNativeLowering, NativeLowering


class _Unfinished(JITCodeLibrary):
    """Code that other libraries link; never optimised, never made executable by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(BaseNativeLowering):
    """`NativeLowering` without the steps that make a function executable."""

    _name = "matchwood_helper_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return Lower

    def run_pass(self, state: Any) -> bool:
        context, flags = state.targetctx, state.flags
        state.library = library = _Unfinished(context.codegen(), state.func_id.func_qualname)
        description = PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=context.mangler,
            inline=flags.forceinline,
            noalias=flags.noalias,
            abi_tags=[flags.get_mangle_string()],
        )
        with context.push_code_library(library):
            lower = self.lowering_class(context, library, description, state.func_ir, metadata=state.metadata)
            lower.lower()
        context.insert_user_function(library, description, [library])  # the library is the key that callers find it by
        state["cr"] = _LowerResult(description, lower.call_helper, cfunc=library, env=lower.env)
        return True


class HelperCompiler(CompilerBase):
    """Numba's usual passes, the last one exchanged."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_HelperLowering, text) if pass_ is NativeLowering else (pass_, text) for pass_, text in passes.passes
        ]
        passes._finalized = False
        passes.finalize()
        return [passes]


class Helper(CPUDispatcher):
    """A function that other compiled functions link; `kernel` makes one that Python can call out of it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], kernel: Callable[..., Any]) -> None:
        options = {**options, "nopython": True, "no_cpython_wrapper": True}
        super().__init__(py_func=function, targetoptions=options, pipeline_class=HelperCompiler)
        self._kernel = kernel
        self._callable: Any = None

    def add_overload(self, compiled: Any) -> None:
        """As `CPUDispatcher.add_overload`, without an entry point for Python."""
        self.overloads[tuple(compiled.signature.args)] = compiled

    def __call__(self, *arguments: Any) -> Any:
        if self._callable is None:
            self._callable = self._kernel(self.py_func)
        return self._callable(*arguments)
