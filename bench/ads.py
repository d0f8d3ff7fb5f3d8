"""The ad workload: campaigns with equalities, IN-lists and ranges, whose priority is their bid; an impression is an event.

Targeting is that of an ad server: nearly every campaign names countries and categories, fewer name devices, ages, hours, and so
on. Values follow a Zipf law. A campaign without a condition on an attribute accepts every value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from matchwood.encode.arrays import Float64s, Int64s


class Choice(NamedTuple):
    """An attribute of strings: how many values it has, the share of campaigns that name some, and at most how many they name."""

    values: int
    share: float
    most: int


class Span(NamedTuple):
    """An attribute of whole numbers from 0: its end, the share of campaigns with a range on it, and the widest range."""

    end: int
    share: float
    widest: int


CHOICES = {
    "country": Choice(60, 0.98, 3),
    "category": Choice(300, 0.95, 5),
    "device": Choice(4, 0.5, 2),
    "language": Choice(25, 0.6, 1),
    "format": Choice(8, 0.6, 2),
    "site": Choice(2_000, 0.2, 3),
}
SPANS = {"age": Span(100, 0.7, 30), "hour": Span(24, 0.4, 12), "os": Span(30, 0.25, 15)}
IDLE = {"browser": 6, "carrier": 30, "zip": 90_000, "width": 2_000, "height": 2_000, "session": 10_000_000}
"""Attributes of an impression that no campaign names, with the number of their values."""


class Lists(NamedTuple):
    """The values that campaigns name on an attribute, as codes: campaign i names codes[offsets[i]:offsets[i+1]]."""

    offsets: Int64s
    codes: Int64s


@dataclass(frozen=True)
class Campaigns:
    """Campaigns as columns. Without a range, `lo` is 0 and `hi` the last value of the attribute."""

    size: int
    seed: int = 7
    chosen: dict[str, Lists] = field(init=False)
    lo: dict[str, Int64s] = field(init=False)
    hi: dict[str, Int64s] = field(init=False)
    ranged: dict[str, Any] = field(init=False)
    bid: Float64s = field(init=False)

    def __post_init__(self) -> None:
        dice = np.random.default_rng(self.seed)
        lo, hi, ranged = {}, {}, {}
        for name, span in SPANS.items():
            ranged[name] = dice.random(self.size) < span.share
            first = dice.integers(0, span.end, self.size)
            last = np.minimum(first + dice.integers(0, span.widest, self.size), span.end - 1)
            lo[name], hi[name] = np.where(ranged[name], first, 0), np.where(ranged[name], last, span.end - 1)
        for name, value in (
            ("chosen", {name: self._lists(choice, dice) for name, choice in CHOICES.items()}),
            ("lo", lo),
            ("hi", hi),
            ("ranged", ranged),
            ("bid", np.round(dice.lognormal(0.0, 1.0, self.size) * 8192) / 8192),  # so that scores are exact sums
        ):
            object.__setattr__(self, name, value)

    def _lists(self, choice: Choice, dice: np.random.Generator) -> Lists:
        """Distinct codes for each campaign: a run of draws from a Zipf law, without repeats."""
        counts = np.where(dice.random(self.size) < choice.share, dice.integers(1, choice.most + 1, self.size), 0)
        owner = np.repeat(np.arange(self.size), counts)
        drawn = np.unique(owner * choice.values + zipf_codes(choice.values, len(owner), dice))
        owner, codes = drawn // choice.values, drawn % choice.values
        return Lists(np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=self.size))]), codes)

    @property
    def predicates(self) -> Int64s:
        """The number of conditions of each campaign, all of weight 1."""
        listed = sum((np.diff(lists.offsets) > 0).astype(np.int64) for lists in self.chosen.values())
        return np.asarray(listed + sum(mask.astype(np.int64) for mask in self.ranged.values()))

    def table(self) -> pa.Table:
        """The campaigns in the wide form of docs/encoding.md."""
        columns: dict[str, Any] = {"id": np.arange(self.size), "priority": self.bid}
        for name, (offsets, codes) in self.chosen.items():
            texts = pa.array([f"{name}-{code}" for code in range(CHOICES[name].values)]).take(pa.array(codes))
            none = pa.array(np.concatenate([np.diff(offsets) == 0, [False]]))
            starts = pa.compute.if_else(none, pa.scalar(None, pa.int32()), pa.array(offsets.astype(np.int32)))
            columns[name] = pa.ListArray.from_arrays(starts, texts)
        for name, mask in self.ranged.items():
            columns[f"{name}_lo"] = pa.array(self.lo[name], mask=~mask)
            columns[f"{name}_hi"] = pa.array(self.hi[name], mask=~mask)
        return pa.table(columns)


def types() -> dict[str, str]:
    """The types of the attributes that campaigns name."""
    return {**dict.fromkeys(CHOICES, "string"), **dict.fromkeys(SPANS, "number")}


def impressions(count: int, seed: int = 8) -> list[dict[str, Any]]:
    """Events as mappings of 15 attributes, of which campaigns name nine."""
    dice = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        name: [f"{name}-{code}" for code in zipf_codes(choice.values, count, dice).tolist()]
        for name, choice in CHOICES.items()
    }
    columns |= {name: dice.integers(0, span.end, count).tolist() for name, span in SPANS.items()}
    columns |= {name: dice.integers(0, values, count).tolist() for name, values in IDLE.items()}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def zipf_codes(values: int, count: int, dice: np.random.Generator) -> Int64s:
    """Codes from 0 by a Zipf law of exponent 1."""
    weights = np.cumsum(1.0 / np.arange(1, values + 1))
    return np.asarray(np.searchsorted(weights, dice.random(count) * weights[-1]))
