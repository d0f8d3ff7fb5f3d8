"""`matchwood.sphere` compiled: the same code objects, bound to their compiled siblings, so that both give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from matchwood import sphere
from matchwood.jit.decorators import helper


def _compiled(function: Callable[..., Any], **siblings: Callable[..., Any]) -> Callable[..., Any]:
    assert isinstance(function, FunctionType)
    scope = {**function.__globals__, **siblings}
    return helper(FunctionType(function.__code__, scope, function.__name__))


sine = _compiled(sphere.sine)
sine_of_degrees = _compiled(sphere.sine_of_degrees, sine=sine)
unit_vector = _compiled(sphere.unit_vector, sine_of_degrees=sine_of_degrees)
chord_squared = _compiled(sphere.chord_squared, sine=sine)
is_within = _compiled(sphere.is_within, unit_vector=unit_vector)
