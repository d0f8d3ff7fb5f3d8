"""How close a value is to the best one, as a number from 0 to 1: the curves of graded predicates, in plain arithmetic.

Like `geo`, the oracle calls these functions as they stand and kernels compile the very same functions. They use only `+ - * /`
and comparisons, so that both give the same bits on every machine; `math.exp` would not do.

With x = max(0, distance - offset) / scale, and `to` the closeness where x is 1:

    LINEAR       1 - (1 - to) x, and 0 from there on
    EXPONENTIAL  to ** x
    GAUSSIAN     to ** (x * x)

The last two are powers of 2: to ** x = 2 ** (-rate * x). They are the decay functions of Elasticsearch, where `to` is "decay".
"""

from __future__ import annotations

LINEAR, EXPONENTIAL, GAUSSIAN = 0, 1, 2
_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_LAST_POWER = 1075.0
"""From here on powers of 1/2 are 0 in float64."""


def _inverse_factorials(last: int) -> tuple[float, ...]:
    found, product = [1.0], 1
    for n in range(1, last + 1):
        product *= n
        found.append((-1) ** n / product)
    return tuple(reversed(found))


_EXP_SERIES = _inverse_factorials(18)
"""Coefficients of the series of exp(-x), last first."""
_LOG_SERIES = tuple(1.0 / (2 * n + 1) for n in range(12, -1, -1))
"""Coefficients of the series of atanh, last first."""


def half_power(exponent: float) -> float:
    """2 to the minus `exponent`, which is not negative; from 0 to 1, to about 1e-16."""
    if exponent >= _LAST_POWER:
        return 0.0
    whole = int(exponent)
    part = (exponent - whole) * _LN2
    series = 0.0
    for coefficient in _EXP_SERIES:
        series = series * part + coefficient
    power = 0.5
    while whole > 0:
        if whole & 1:
            series = series * power
        power = power * power
        whole = whole >> 1
    return series


def rate_of(curve: int, to: float) -> float:
    """What `closeness` needs of `to`: how much a line falls over the scale, or minus the logarithm to base 2."""
    if curve == LINEAR:
        return 1.0 - to
    halvings = 0.0
    rest = to
    while rest < _SQRT_HALF:
        rest = rest * 2.0
        halvings = halvings + 1.0
    z = (rest - 1.0) / (rest + 1.0)
    series = 0.0
    for coefficient in _LOG_SERIES:
        series = series * z * z + coefficient
    return halvings - 2.0 * z * series / _LN2


def closeness(curve: int, distance: float, scale: float, offset: float, rate: float) -> float:
    """The closeness at a distance, from 0 to 1. It never grows with the distance, but for the last bits of a power."""
    away = distance - offset
    if not away > 0.0:
        return 1.0
    x = away / scale
    if curve == LINEAR:
        height = 1.0 - x * rate
        return height if height > 0.0 else 0.0
    if curve == GAUSSIAN:
        x = x * x
    return half_power(x * rate)


def distance_to(lo: float, hi: float, first: float, last: float) -> float:
    """How far the interval [first, last] is from [lo, hi]; 0 if they meet."""
    if first > hi:
        return first - hi
    if lo > last:
        return lo - last
    return 0.0
