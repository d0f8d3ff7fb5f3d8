"""float64 to float32, rounded to the side where a filter keeps what it must."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper


@helper
def rounded_down(key):
    """The largest float32 that is not above the key."""
    single = np.float32(key)
    if np.float64(single) > key:
        single = np.nextafter(single, np.float32(-np.inf))
    return single


@helper
def rounded_up(key):
    """The smallest float32 that is not below the key."""
    single = np.float32(key)
    if np.float64(single) < key:
        single = np.nextafter(single, np.float32(np.inf))
    return single
