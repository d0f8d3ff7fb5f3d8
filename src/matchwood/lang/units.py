"""Units of lengths and of times."""

from __future__ import annotations

METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "ft": 0.3048, "nmi": 1852.0}
"""The units of a radius, and of a distance between places."""
MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6, "min": 60e6, "h": 3600e6, "d": 86_400e6, "w": 604_800e6}
"""The units of a distance between instants."""
