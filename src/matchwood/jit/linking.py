"""How kernels and helpers are compiled: as Numba does it, without what is of no use here.

Numba finishes every function that it compiles: it optimises the function with all that it calls, emits machine code, and builds
wrappers for calls from Python and from C. A helper is only ever a part of kernels, which are optimised as a whole, so all of this
would be thrown away; `HelperCompiler` stops a helper after its LLVM code. A helper can be called from Python as well, by tests
and invariant checks; then it is compiled once more, as a kernel.

A helper may be an argument of another: its type says which function is called, and as a value it is nothing. To Numba it would be
the address of an object, which is of no use in another process, and a kernel that holds one cannot be kept on disk.

Both compilers run only the passes that kernels need: those that are left out handle `with`, `raise`, closures, array
expressions and reports. The first of Numba's two optimisations of a finished function is left out too: it prepares the removal of
reference counts, and there are none.

This subclasses private classes of Numba, whose minor version is pinned; tests/jit/test_linking.py watches the effects.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any

from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, Flags, _LowerResult
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.datamodel.models import OpaqueModel
from numba.core.datamodel.registry import register_default
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.imputils import lower_constant
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import (
    BaseNativeLowering,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NoPythonSupportedFeatureValidation,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)


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


class _Kernel(JITCodeLibrary):
    """Code that Python calls."""

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(NativeLowering):
    """`NativeLowering` into a library of our own."""

    _name = "matchwood_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Kernel(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


class _Flags(Flags):
    """Settings of the compiler that are compared by a text; Numba compares all thirty of them, thousands of times a kernel."""

    __slots__ = ("_text",)

    def __init__(self, copy_from: Flags | None = None) -> None:
        super().__init__(copy_from)
        self._text: str | None = None

    def _compared(self) -> str:
        if self._text is None:
            self._text = intern(self.summary())
        return self._text

    def __hash__(self) -> int:
        return hash(self._compared())

    def __eq__(self, other: object) -> bool:
        return self._compared() == other._compared() if isinstance(other, _Flags) else NotImplemented


class KernelCompiler(CompilerBase):
    """Numba's compiler with fewer passes."""

    lowering: type[BaseNativeLowering] = _KernelLowering

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, names: Any) -> None:
        super().__init__(typing, target, library, args, result, _Flags(flags), names)

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("matchwood")
        passes.add_pass(TranslateByteCode, "read the bytecode")
        passes.add_pass(FixupArgs, "number the arguments")
        passes.add_pass(IRProcessing, "find the uses of variables")
        passes.add_pass(RewriteSemanticConstants, "insert what is constant for these types")
        passes.add_pass(DeadBranchPrune, "remove branches for optional arguments that are None, or that are not")
        passes.add_pass(GenericRewrites, "rewrite constant indices")
        passes.add_pass(ReconstructSSA, "split variables by assignment")
        passes.add_pass(NopythonTypeInference, "infer types")
        passes.add_pass(PreLowerStripPhis, "join the variables again")
        passes.add_pass(NoPythonSupportedFeatureValidation, "refuse what cannot be compiled")
        passes.add_pass(IRLegalization, "check the result")
        passes.add_pass(self.lowering, "make LLVM code")
        passes.add_pass(NoPythonBackend, "make the result")
        passes.finalize()
        return [passes]


class HelperCompiler(KernelCompiler):
    lowering = _HelperLowering


class HelperType(types.Dispatcher):
    """The type of one helper; values of it are all the same."""


register_default(HelperType)(OpaqueModel)


@lower_constant(HelperType)  # type: ignore[untyped-decorator]
def _nothing(context: Any, builder: Any, helper_type: HelperType, helper: Helper) -> Any:
    return context.get_dummy_value()


class Helper(CPUDispatcher):
    """A function that other compiled functions link; `kernel` makes one that Python can call out of it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], kernel: Callable[..., Any]) -> None:
        options = {**options, "nopython": True, "no_cpython_wrapper": True}
        super().__init__(py_func=function, targetoptions=options, pipeline_class=HelperCompiler)
        self._kernel = kernel
        self._callable: Any = None
        self._type = HelperType(self)
        self.typingctx._remove_global(self)
        self.typingctx._insert_global(self, self._type)

    @property
    def _numba_type_(self) -> HelperType:
        return HelperType(self)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As `CPUDispatcher.get_call_template`, but a constant argument does not make a version of its own."""
        return super().get_call_template(map(types.unliteral, args), kws)

    def add_overload(self, compiled: Any) -> None:
        """As `CPUDispatcher.add_overload`, without an entry point for Python."""
        self.overloads[tuple(compiled.signature.args)] = compiled

    def __call__(self, *arguments: Any) -> Any:
        if self._callable is None:
            self._callable = self._kernel(self.py_func)
        return self._callable(*arguments)
