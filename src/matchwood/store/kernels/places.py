"""`matchwood.geo` and `matchwood.decay` compiled: the same code objects, bound to their compiled siblings.

So Python and kernels give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from matchwood import decay, geo
from matchwood.jit.decorators import helper


def _compiled(function: Callable[..., Any], **siblings: Callable[..., Any]) -> Callable[..., Any]:
    assert isinstance(function, FunctionType)
    scope = {**function.__globals__, **siblings}
    return helper(FunctionType(function.__code__, scope, function.__name__))


sine = _compiled(geo.sine)
sine_of_degrees = _compiled(geo.sine_of_degrees, sine=sine)
unit_vector = _compiled(geo.unit_vector, sine_of_degrees=sine_of_degrees)
chord_squared = _compiled(geo.chord_squared, sine=sine)
gap_squared = _compiled(geo.gap_squared)
is_within = _compiled(geo.is_within, unit_vector=unit_vector, gap_squared=gap_squared)
reach_of = _compiled(geo.reach_of)
arc_of = _compiled(geo.arc_of)
width_of = _compiled(geo.width_of, sine=sine, arc_of=arc_of)
metres_of = _compiled(geo.metres_of, arc_of=arc_of, _short_series=_compiled(geo._short_series))
half_power = _compiled(decay.half_power)
rate_of = _compiled(decay.rate_of)
closeness = _compiled(decay.closeness, half_power=half_power)
distance_to = _compiled(decay.distance_to)
