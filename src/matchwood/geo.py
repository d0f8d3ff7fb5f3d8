"""Places on a sphere in plain arithmetic, so that Python and compiled code agree to the last bit.

The oracle calls these functions as they stand; kernels compile the very same functions. They use only `+ - * /`, the square root,
comparisons and `floor`-free range reduction: IEEE 754 gives both the same result. `math.sin` would not do: libm, NumPy's vector
code and LLVM differ in the last bit, and a point on the rim of a circle would match in one of them only.

Distance is along the great circle of a sphere of the earth's mean radius. Two places are within r metres
if the squared chord between their unit vectors is at most (2 sin(r / 2R))^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EARTH_RADIUS_M = 6_371_008.8
HALF_TURN_M = EARTH_RADIUS_M * 3.141592653589793
RADIANS_PER_DEGREE = 0.017453292519943295
_DEGREES_PER_RADIAN = 57.29577951308232
_SLACK = 1e-11
"""Outward rounding of a circle's box, in radians: 0.06 millimetres, far above the error of the arithmetic."""
_ROUNDED_UP = 1.0 + 2e-15
"""Factor for a sine before its arc is taken: near 1 the arc magnifies an error of 1e-16 to 1e-8, several centimetres."""
_SHORT = 0.005
"""Half a chord up to which a distance is short: 64 km."""
_ARC_SERIES = tuple((2 * n - 1) ** 2 / (2 * n * (2 * n + 1)) for n in range(12, 0, -1))
"""Ratios of adjacent coefficients of the series of asin, last first."""


def sine(x: float) -> float:
    """sin of x radians for |x| <= pi/2, to about 1e-16, by its Taylor series in Horner form."""
    t = x * x
    s = 1.0 - t / 506.0
    s = 1.0 - t / 420.0 * s
    s = 1.0 - t / 342.0 * s
    s = 1.0 - t / 272.0 * s
    s = 1.0 - t / 210.0 * s
    s = 1.0 - t / 156.0 * s
    s = 1.0 - t / 110.0 * s
    s = 1.0 - t / 72.0 * s
    s = 1.0 - t / 42.0 * s
    s = 1.0 - t / 20.0 * s
    s = 1.0 - t / 6.0 * s
    return x * s


def sine_of_degrees(degrees: float) -> float:
    """sin of an angle in -450..450 degrees (longitudes and latitudes, and those plus 90)."""
    d = degrees
    if d > 180.0:
        d = d - 360.0
    if d < -180.0:
        d = d + 360.0
    if d > 90.0:
        d = 180.0 - d
    if d < -90.0:
        d = -180.0 - d
    return sine(d * RADIANS_PER_DEGREE)


def unit_vector(lon: float, lat: float) -> tuple[float, float, float]:
    """The point (lon, lat), in degrees, on the unit sphere."""
    upright = sine_of_degrees(lat + 90.0)
    return upright * sine_of_degrees(lon + 90.0), upright * sine_of_degrees(lon), sine_of_degrees(lat)


def chord_squared(radius_m: float) -> float:
    """The squared chord of an arc of `radius_m`; above 4, the whole sphere, from half a turn on."""
    if radius_m >= HALF_TURN_M:
        return 5.0
    half = sine(radius_m / (2.0 * EARTH_RADIUS_M))
    return 4.0 * half * half


def is_within(lon: float, lat: float, x: float, y: float, z: float, chord2: float) -> bool:
    """Is (lon, lat) at most the chord away from the unit vector (x, y, z)? Absent coordinates (NaN) are not."""
    px, py, pz = unit_vector(lon, lat)
    return gap_squared(px, py, pz, x, y, z) <= chord2


def gap_squared(px: float, py: float, pz: float, x: float, y: float, z: float) -> float:
    """The squared chord between two unit vectors."""
    dx = px - x
    dy = py - y
    dz = pz - z
    return dx * dx + dy * dy + dz * dz


def distance(lon: float, lat: float, x: float, y: float, z: float, sqrt: Callable[[Any], Any]) -> float:
    """The metres from (lon, lat) to the unit vector (x, y, z), along the great circle."""
    px, py, pz = unit_vector(lon, lat)
    return metres_of(gap_squared(px, py, pz, x, y, z), sqrt)


def metres_of(chord2: float, sqrt: Callable[[Any], Any]) -> float:
    """The length in metres of the arc over a squared chord."""
    half = sqrt(chord2) / 2.0
    arc: float = arc_of(half, sqrt) if half > _SHORT else half * _short_series(half * half)
    return 2.0 * EARTH_RADIUS_M * arc


def _short_series(t: float) -> float:
    """asin(x) / x for x up to `_SHORT`, given t = x * x: the first terms of the series are exact to float64 there."""
    return 1.0 + t * (1.0 / 6.0 + t * (3.0 / 40.0 + t * (15.0 / 336.0 + t * (105.0 / 3456.0 + t * (945.0 / 42240.0)))))


def reach_of(radius: Any) -> Any:
    """The degrees that a circle reaches to the north and south, rounded up. For a float or an array."""
    return (radius / EARTH_RADIUS_M + _SLACK) * _DEGREES_PER_RADIAN


def width_of(lat: Any, radius: Any, sqrt: Callable[[Any], Any]) -> Any:
    """The degrees that a circle without a pole in it reaches to the east and west, rounded up: asin(sin(angle) / cos(lat)).

    Floats with `math.sqrt`, or arrays with NumPy's, to the same bits: IEEE 754 fixes the square root as it fixes + - * /.
    """
    angle = radius / EARTH_RADIUS_M + _SLACK
    cosine = sine((90.0 - abs(lat)) * RADIANS_PER_DEGREE)
    return (arc_of(sine(angle) / cosine * _ROUNDED_UP, sqrt) + _SLACK) * _DEGREES_PER_RADIAN


def arc_of(sine: Any, sqrt: Callable[[Any], Any]) -> Any:
    """asin of a sine from 0 to a few roundings past 1: the angle is halved three times, then its Taylor series converges fast."""
    part = sine
    for _ in range(3):
        rest = (1.0 - part) * (1.0 + part)
        cosine = sqrt((rest + abs(rest)) / 2.0)  # of max(rest, 0)
        part = part / sqrt(2.0 + 2.0 * cosine)
    series = 1.0
    for ratio in _ARC_SERIES:
        series = 1.0 + part * part * ratio * series
    return 8.0 * part * series
