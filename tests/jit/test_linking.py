"""Helpers: parts of kernels, and nothing by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core import types
from numba.core.codegen import JITCPUCodegen

from matchwood.jit.decorators import helper, kernel, subroutine
from tests.jit.installation import Installation


@helper
def twice(x):
    return 2.0 * x


@helper
def twice_plus(x, more):
    return twice(x) + more


@helper
def twice_plus_one(x):
    return twice_plus(x, 1.0)


@subroutine
def power(x, exponent):
    result = 1.0
    for _ in range(exponent):
        result *= x
    return result


@kernel
def combined(values, exponent):
    total = 0.0
    for i in range(values.size):
        total += power(twice_plus(values[i], 1.0), exponent)
    return total


def compiled(function, *arguments):
    """A fresh compilation of a kernel, which can be inspected, after one call."""
    fresh = kernel(function.py_func)
    fresh._cache.disable()
    fresh(*arguments)
    return fresh


def test_a_kernel_calls_helpers_of_helpers_and_subroutines() -> None:
    assert combined(np.array([1.0, 2.0]), 3) == 27.0 + 125.0


def test_only_helpers_are_forced_inline_and_not_the_subroutines_that_they_call() -> None:
    called = subroutine(lambda x: x + 1.0)
    inner = helper(lambda x: called(x) * 3.0)
    assert compiled(kernel(lambda x: inner(x)), 1.0)(1.0) == 6.0
    is_inlined = {function: next(iter(function.overloads.values())).fndesc.inline for function in (called, inner)}
    assert is_inlined == {called: False, inner: True}


def test_a_helper_as_an_argument_is_no_address_that_keeps_kernels_off_the_disk() -> None:
    apply = subroutine(lambda function, x: function(x) + 1.0)
    caller = subroutine(lambda x: apply(twice, x) * apply(twice_plus_one, x))
    assert compiled(kernel(lambda x: caller(x)), 3.0)(3.0) == 7.0 * 8.0
    assert not next(iter(caller.overloads.values())).library.has_dynamic_globals  # before anything is optimised away


def test_only_the_kernel_becomes_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = []
    add_module = JITCPUCodegen._add_module
    monkeypatch.setattr(JITCPUCodegen, "_add_module", lambda self, module: finished.append(add_module(self, module)))
    inner = helper(lambda x: x + 1.0)
    outer = subroutine(lambda x: inner(x) * 3.0)
    assert compiled(kernel(lambda x: outer(inner(x))), 1.0)(1.0) == 9.0
    assert len(finished) == 1


def test_helpers_are_inlined_into_the_kernel() -> None:
    (code,) = compiled(combined, np.arange(3.0), 2).inspect_asm().values()
    assert not [line for line in code.splitlines() if "twice" in line and ("call" in line or line.endswith(":"))]


def test_a_helper_can_be_called_from_python() -> None:
    assert twice_plus(4.0, 1.0) == 9.0
    assert power(2.0, 5) == 32.0


def test_a_helper_is_compiled_for_every_type_that_it_is_called_with() -> None:
    @helper
    def first(values):
        return values[0]

    @kernel
    def firsts(a, b):
        return first(a) + first(b)

    assert firsts(np.array([1], np.uint8), np.array([2.5])) == 3.5
    kinds = {arguments[0].dtype for arguments in first.overloads}
    assert kinds == {types.uint8, types.float64}


def test_constants_share_one_version_of_a_helper() -> None:
    @helper
    def plus(a, b):
        return a + b

    @kernel
    def sums(a):
        return plus(a, 1) + plus(a, 2) + plus(3, a)

    assert sums(10) == 11 + 12 + 13
    assert len(plus.overloads) == 1


def test_a_branch_for_an_optional_argument_is_removed() -> None:
    @helper
    def count(tally, amount):
        if tally is not None:
            tally[0] += amount

    @kernel
    def work(tally, n):
        for i in range(n):
            count(tally, i)
        return n

    tally = np.zeros(1, np.int64)
    assert work(tally, 4) == work(None, 4) == 4
    assert tally[0] == 6


COUNTING = """
from numba.core import event

class Compilations(event.Listener):
    names = []
    def on_start(self, e):
        self.names.append(e.data["dispatcher"].py_func.__name__)
    def on_end(self, e):
        pass

event.register("numba:compile", Compilations())
from matchwood.structures.toy.kernels.outer import twice_all
import numpy as np
result = twice_all(np.arange(4.0))
print(result, len(Compilations.names), sum(twice_all.stats.cache_hits.values()), "-")
"""


def test_a_second_process_loads_a_kernel_and_compiles_no_helper(installation: Installation) -> None:
    assert installation.run(COUNTING)[:3] == ([12.0], 2, 0)
    results, compilations, hits, _ = installation.run(COUNTING)
    assert results == [12.0]
    assert hits == 1
    assert compilations <= 1  # the event of the kernel itself, whose code comes from disk
