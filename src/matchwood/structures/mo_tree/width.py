"""How wide the overlapping cells of each level should be (MO-Tree 5).

Level i (1 = narrowest) has c_i = L - i + 1 cells and is meant for intervals of width t_(i-1) to t_i. Wider cells intercept
more of them (gamma_i grows with w_i) and are stabbed by more events (rho_i grows with w_i): the widths are chosen so that
the sum of gamma is largest while the sum of rho stays within eta.

The paper takes gamma_i to be a parabola through its two ends (5.3: vertex at W_max, exact value at W_min) and solves with
a multiplier: the slopes of all levels that are not at an end are equal to lambda times the slope of rho. `cell_widths`
does that for uniform distributions in closed form up to the search for lambda; `sampled_widths` takes gamma and rho from data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from matchwood.encode.arrays import Float64s

_GRID = 129  # widths tried for each level by `sampled_widths`


def limits(levels: int) -> tuple[Float64s, Float64s, Float64s, Float64s]:
    """c_i, t_i, W_min and W_max of each level (Lemmas 2 and 3)."""
    c = np.arange(levels, 0, -1).astype(np.float64)
    t = np.arange(1, levels + 1) / levels
    return c, t, t.copy(), (t * (c - 1) + 1) / c


def cell_widths(levels: int, eta: float) -> list[float]:
    """Widths for uniform ends of intervals and uniform keys of events (MO-Tree 5.3).

    >>> from fractions import Fraction
    >>> [str(Fraction(w).limit_denominator(1000)) for w in cell_widths(4, 6)]
    ['3/8', '11/18', '5/6', '1']
    """
    c, t, low, high = limits(levels)
    # P_w(x) = 2 (1 - x) and r_i(x) = c (w - x) / (1 - x): at W_min = t_i the integral of gamma is c (t_i - t_(i-1))^2.
    step = 1.0 / levels
    whole = 2 * (t - (t - step)) - (t**2 - (t - step) ** 2)
    least = np.minimum(c * step**2, whole)
    spread = high - low
    bend = np.divide(whole - least, spread**2, out=np.zeros(levels), where=spread > 0)

    def widths(price: float) -> Float64s:
        """Where the slope of the parabola, 2 a (W_max - w), is the price times c, within the limits."""
        lower = np.divide(price * c, 2 * bend, out=np.zeros(levels), where=bend > 0)
        return np.asarray(np.clip(high - lower, low, high))

    return [float(w) for w in _priced(widths, lambda w: float(c @ w), eta)]


def sampled_widths(levels: int, eta: float, lo: Float64s, hi: Float64s, keys: Float64s) -> list[float]:
    """Widths for samples: intervals lo..hi and keys of events, all scaled to [0, 1].

    gamma_i and rho_i are counted, not modelled: the share of intervals of the level's target widths that some cell
    holds, and the mean number of cells a key stabs.
    """
    c, t, low, high = limits(levels)
    tried = [np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True)]
    width = hi - lo
    gamma, rho = np.zeros((levels, _GRID)), np.zeros((levels, _GRID))
    for i in range(levels):
        mine = (width > t[i] - 1.0 / levels) & (width <= t[i])
        for g, w in enumerate(tried[i]):
            gamma[i, g] = _intercepted(lo[mine], width[mine], w, int(c[i])) / max(len(lo), 1)
            rho[i, g] = _stabbed(keys, w, int(c[i]))

    def widths(price: float) -> Float64s:
        best = np.argmax(gamma - price * rho, axis=1)
        return np.array([tried[i][g] for i, g in enumerate(best)])

    def stabbed(w: Float64s) -> float:
        return float(sum(np.interp(w[i], tried[i], rho[i]) for i in range(levels)))

    return [float(w) for w in _priced(widths, stabbed, eta)]


def interception(lo: Float64s, hi: Float64s, widths: Sequence[float]) -> float:
    """The share of intervals that the level meant for their width holds (the sum of gamma)."""
    levels = len(widths)
    width = hi - lo
    total = 0.0
    for i, w in enumerate(widths):
        mine = (width > i / levels) & (width <= (i + 1) / levels)
        total += _intercepted(lo[mine], width[mine], w, levels - i)
    return total / max(len(lo), 1)


def _priced(widths: Callable[[float], Float64s], stabbed: Callable[[Float64s], float], eta: float) -> Float64s:
    """The widths at the lowest price of a stabbed cell that keeps their sum within eta; the narrowest if none does."""
    if stabbed(widths(0.0)) <= eta:
        return widths(0.0)
    cheap, dear = 0.0, 1.0
    while stabbed(widths(dear)) > eta and dear < 1e12:
        dear *= 2
    for _ in range(200):
        price = (cheap + dear) / 2
        cheap, dear = (cheap, price) if stabbed(widths(price)) <= eta else (price, dear)
    return widths(dear)


def _intercepted(lo: Float64s, width: Float64s, w: float, cells: int) -> float:
    """How many intervals one of the cells holds: the last cell that begins at or before the interval does, or none."""
    if cells == 1:
        return float(len(lo))
    stride = (1.0 - w) / (cells - 1)
    first = np.minimum(np.floor(lo / stride), cells - 1) * stride if stride > 0 else np.zeros(len(lo))
    return float((lo + width <= first + w + 1e-12).sum())


def _stabbed(keys: Float64s, w: float, cells: int) -> float:
    """How many cells a key stabs, on average."""
    starts = np.arange(cells) * ((1.0 - w) / max(cells - 1, 1))
    return float(((keys[:, None] >= starts) & (keys[:, None] <= starts + w)).sum() / max(len(keys), 1))
