"""States: the arrays that kernels share, handed to them as one address.

A `State` declares its arrays once, by name and type. Python reads them as attributes; kernels receive the state as one
argument and read the same attributes:

    class Postings(State):
        slots: np.ndarray = array(np.uint32)  # by list, ascending
        starts: np.ndarray = array(np.int64)

    @kernel
    def total(postings, ...):
        postings.slots[i]

A kernel gets the address of a block of words that says where each array begins and how long it is. Numba types a NamedTuple
of arrays field by field and passes seven values for each array to every function that it compiles; a state is one pointer, so
calls are cheaper, and compiling a function takes less than half the time. The words do not change while a kernel runs
(kernels never grow an array), so LLVM keeps what it has read of them in registers (`invariant.load`).

A state is immutable: `_replace` makes another when an array has grown. Arrays must be contiguous, writable and of the declared
type; this is checked when a state is made, never in a kernel.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

_WORD = ir.IntType(64)
_INDEX = ir.IntType(32)


class _Field:
    """An array, or another state, that a state declares."""

    __slots__ = ("dtype", "numba_type", "size", "word")

    def __init__(self, dtype: np.dtype[Any] | None, numba_type: types.Type) -> None:
        self.dtype = dtype
        """None for a nested state."""
        self.numba_type = numba_type
        self.size = 1 if dtype is None else 1 + numba_type.ndim
        """Words: an address, then the length of each dimension."""
        self.word = 0
        """The position of the first of them in the block of the state."""

    def words(self, owner: str, value: Any) -> list[int]:
        """The words of a value, which must be what the field declares."""
        if self.dtype is None:
            if getattr(value, "_numba_type_", None) is not self.numba_type:
                raise TypeError(f"{owner}: expected {self.numba_type}, got {type(value).__name__}")
            return [value.address]
        ndim = self.numba_type.ndim
        is_array = isinstance(value, np.ndarray)
        if not is_array or value.dtype != self.dtype or value.ndim != ndim or not value.flags.carray:
            got = type(value).__name__
            if is_array:
                got = f"{value.ndim} dimensions of {value.dtype}, " + (
                    "writable" if value.flags.writeable else "read-only"
                )
            expected = f"a contiguous, writable array of {ndim} dimensions and type {self.dtype}"
            raise TypeError(f"{owner}: expected {expected}, got {got}")
        return [value.ctypes.data, *value.shape]


def array(dtype: Any, *, ndim: int = 1) -> Any:
    """Declare an array of a state."""
    dtype = np.dtype(dtype)
    return _Field(dtype, types.Array(from_dtype(dtype), ndim, "C"))


def nested(state: type[State]) -> Any:
    """Declare a state within a state."""
    return _Field(None, state._numba_type_)


class State:
    """A set of arrays that kernels take as one argument; made by keyword. See the module docstring."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _declared: ClassVar[dict[str, _Field]] = {}
    _numba_type_: ClassVar[StateType]
    address: int
    """Of the block of words; Numba reads it at each call."""

    def __init_subclass__(cls) -> None:
        cls._declared = {name: value for name, value in vars(cls).items() if isinstance(value, _Field)}
        cls._fields = tuple(cls._declared)
        word = 0
        for declared in cls._declared.values():
            declared.word = word
            word += declared.size
        cls._numba_type_ = StateType(cls)

    def __init__(self, **values: Any) -> None:
        if values.keys() != self._declared.keys():
            raise TypeError(f"{type(self).__name__}: expected {', '.join(self._fields)}, got {', '.join(values)}")
        name = type(self).__name__
        words = [word for n, declared in self._declared.items() for word in declared.words(f"{name}.{n}", values[n])]
        self._set(values, np.array(words, np.int64))

    def _set(self, values: dict[str, Any], words: np.ndarray) -> None:
        self.__dict__.update(values, _words=words, address=words.ctypes.data)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: use _replace({name}=...)")

    def _replace(self, **changes: Any) -> Self:
        """The state with other arrays in place of these. O(changes)."""
        if not changes.keys() <= self._declared.keys():
            raise TypeError(f"{type(self).__name__}: expected {', '.join(self._fields)}, got {', '.join(changes)}")
        state, words = type(self).__new__(type(self)), self.__dict__["_words"].copy()
        for name, value in changes.items():
            declared = self._declared[name]
            words[declared.word : declared.word + declared.size] = declared.words(
                f"{type(self).__name__}.{name}", value
            )
        state._set({**self._asdict(), **changes}, words)
        return state

    def _asdict(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self._fields}

    @property
    def nbytes(self) -> int:
        """The memory of all arrays, those of nested states included."""
        return sum(value.nbytes for value in self._asdict().values())

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self._asdict())


def _made(kind: type[State], values: dict[str, Any]) -> State:
    return kind(**values)


class StateType(types.Type):
    """Numba's type of the states of one class."""

    def __init__(self, kind: type[State]) -> None:
        self.declared = kind._declared
        arrays = ", ".join(f"{name}: {declared.numba_type}" for name, declared in self.declared.items())
        super().__init__(f"{kind.__module__}.{kind.__qualname__}({arrays})")


@register_model(StateType)
class _Model(models.PrimitiveModel):
    """A pointer to the block. No other value has that type, so `_promise` recognises states by it."""

    def __init__(self, manager: Any, state: StateType) -> None:
        super().__init__(manager, state, _block(state).as_pointer())


def _block(state: StateType) -> ir.ArrayType:
    return ir.ArrayType(_WORD, sum(declared.size for declared in state.declared.values()))


@infer_getattr
class _Attributes(AttributeTemplate):
    key = StateType

    def generic_resolve(self, state: StateType, name: str) -> types.Type | None:
        declared = state.declared.get(name)
        return None if declared is None else declared.numba_type


@lower_getattr_generic(StateType)
def _attribute(context, builder, state, block, name):
    """The array or state whose words are in the block."""
    declared = state.declared[name]
    _promise(builder.function)

    def word(i, kind):
        at = builder.gep(block, [_INDEX(0), _INDEX(declared.word + i)], inbounds=True)
        loaded = builder.load(builder.bitcast(at, kind.as_pointer()))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if declared.dtype is None:
        nested_block = _block(declared.numba_type)
        pointer = word(0, nested_block.as_pointer())
        size = builder.module.add_metadata([ir.Constant(_WORD, 8 * nested_block.count)])
        pointer.set_metadata("dereferenceable", size)
        return pointer
    kind = declared.numba_type
    item = context.get_constant(types.intp, declared.dtype.itemsize)
    shape = [word(1 + i, _WORD) for i in range(kind.ndim)]
    strides = [item]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    value = context.make_array(kind)(context, builder)
    pointer = word(0, context.get_data_type(kind.dtype).as_pointer())
    populate_array(value, data=pointer, shape=shape, strides=strides, itemsize=item, meminfo=None)
    return value._getvalue()


def _promise(function):
    """Tell LLVM of all states among the arguments of a function that their blocks can be read at any time: only then does it
    read them once, before a loop."""
    for argument in function.args:
        block = getattr(argument.type, "pointee", None)
        if isinstance(block, ir.ArrayType) and block.element == _WORD:
            argument.attributes.dereferenceable = 8 * block.count
            argument.add_attribute("noalias")
            argument.add_attribute("nonnull")


@unbox(StateType)
def _unbox(state, value, c):
    address = c.pyapi.object_getattr_string(value, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.bitcast(pointer, _block(state).as_pointer()))
