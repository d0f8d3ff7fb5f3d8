"""Places on a sphere in plain arithmetic, so that Python and compiled code agree to the last bit.

The oracle calls these functions as they stand; kernels compile the very same functions. They use only
`+ - * /`, comparisons and `floor`-free range reduction: IEEE 754 gives both the same result. `math.sin` would not do: libm,
NumPy's vector code and LLVM differ in the last bit, and a point on the rim of a circle would match in one of
them only.

Distance is along the great circle of a sphere of the earth's mean radius. Two places are within r metres
if the squared chord between their unit vectors is at most (2 sin(r / 2R))^2.
"""

from __future__ import annotations

EARTH_RADIUS_M = 6_371_008.8
HALF_TURN_M = EARTH_RADIUS_M * 3.141592653589793
RADIANS_PER_DEGREE = 0.017453292519943295


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
    dx = px - x
    dy = py - y
    dz = pz - z
    return dx * dx + dy * dy + dz * dz <= chord2
