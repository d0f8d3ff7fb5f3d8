from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from matchwood.encode.arrays import INTERVAL, JOINED
from matchwood.workloads import City, WorkloadError, streets
from matchwood.workloads.data import FOLDER_VARIABLE, data_folder

SMALL = City.preset("quick", size=4000)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_places(folder: Path) -> None:
    lon, lat = [1.0, 2.0], [10.0, 20.0]
    pyarrow.parquet.write_table(pyarrow.table({"lon": lon, "lat": lat}), folder / "uber_nyc_2014q2.parquet")
    spots = pyarrow.table({"lon": lon, "lat": lat, "n_pickups": [3, 1]})
    pyarrow.parquet.write_table(spots, folder / "uber_hotspots_10k.parquet")


def test_without_data_the_city_is_synthetic(no_data: Path) -> None:
    workload = City(size=500)
    assert not workload.is_real
    assert np.array_equal(workload.subscriptions().lo, City(size=500, source="synthetic").subscriptions().lo)
    with pytest.raises(WorkloadError, match="not both found"):
        City(size=500, source="real").subscriptions()


def test_real_places_are_used_where_a_folder_holds_them(no_data: Path) -> None:
    write_places(no_data)
    workload = City(size=500, data=no_data)
    assert workload.is_real
    rows = workload.subscriptions()
    heads = rows.offsets[:-1]
    middle = np.unique(np.round((rows.lo[heads] + rows.hi[heads]) / 2, 6))
    assert middle.tolist() == [1.0, 2.0]
    events = workload.events(4000)
    assert np.mean(events.lo[events.offsets[:-1]] == 1.0) == pytest.approx(0.75, abs=0.03)


def test_the_folder_is_found_by_variable_and_beside_the_repository(
    no_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_folder() is None
    (no_data / "repository" / ".git").mkdir(parents=True)
    (no_data / "repository" / "deep").mkdir()
    (no_data / "shared" / "data").mkdir(parents=True)
    monkeypatch.chdir(no_data / "repository" / "deep")
    assert data_folder() == no_data / "shared" / "data"
    monkeypatch.setenv(FOLDER_VARIABLE, str(no_data / "elsewhere"))
    assert data_folder() == no_data / "elsewhere"
    assert data_folder(no_data) == no_data


def test_a_square_is_one_point_predicate_longitude_before_latitude() -> None:
    rows = SMALL.subscriptions()
    heads = rows.offsets[:-1]
    assert (rows.dims[heads] == 0).all()
    assert (rows.dims[heads + 1] == 1).all()
    assert (rows.kinds[heads] == INTERVAL).all()
    assert np.array_equal(np.flatnonzero(rows.kinds == JOINED), heads + 1)
    sides = rows.hi - rows.lo
    assert sides[heads] == pytest.approx(sides[heads + 1])
    assert SMALL.schema().find("place").dims == (0, 1)


def test_half_widths_are_log_uniform_within_their_limits() -> None:
    rows = SMALL.subscriptions()
    half = (rows.hi - rows.lo)[rows.offsets[:-1]] / 2
    assert half.min() >= 0.0005 - 1e-9
    assert half.max() <= 0.02 + 1e-9
    assert np.median(half) == pytest.approx(np.sqrt(0.0005 * 0.02), rel=0.1)


@pytest.mark.parametrize(("preset", "entries"), [("k6", (6, 6)), ("k10", (10, 10)), ("mixed", (4, 10))])
def test_predicates_are_counted_as_the_paper_does(preset: str, entries: tuple[int, int]) -> None:
    sizes = np.diff(City.preset(preset, size=2000, source="synthetic").subscriptions().offsets)
    assert (sizes.min(), sizes.max()) == entries


def test_events_have_15_to_20_attributes_and_stand_at_hot_spots() -> None:
    events, spots = SMALL.events(1000), SMALL.hotspots()
    sizes = np.diff(events.offsets)
    assert (sizes.min(), sizes.max()) == (15, 20)
    assert np.isin(events.lo[events.offsets[:-1]], spots.lon).all()
    content = events.lo[events.dims > 1]
    assert content.min() >= 0
    assert content.max() < 1


def test_popular_content_attributes_come_first() -> None:
    rows = City.preset("k4", size=20_000, source="synthetic").subscriptions()
    uses = np.bincount(rows.dims, minlength=20)[2:]
    assert uses[0] > uses[1] > uses[4] > uses[17]
    assert uses[0] / 20_000 > 0.4
    even = City.preset("k4", size=20_000, source="synthetic", skew=0.0).subscriptions()
    assert np.ptp(np.bincount(even.dims)[2:]) < 500


def test_every_event_is_published_before_its_until_and_after_the_one_before() -> None:
    published, until = SMALL.times(1000)
    assert (np.diff(published) >= 0).all()
    assert (until > published).all()
    assert np.array_equal(until, np.floor(until))
    seconds = (until - published) / 1e6
    assert seconds.min() >= 59
    assert seconds.max() <= 21_601
    assert np.array_equal(published, City.preset("quick", size=9).times(1000)[0])


def test_events_hit_some_squares_but_few() -> None:
    found = SMALL.selectivity(events=200)
    assert 1e-5 < found.probability < 5e-3


def test_the_synthetic_city_has_streets_a_park_and_a_dense_centre() -> None:
    lon, lat = streets.pickups(np.random.default_rng(3), 50_000)
    west, south, east, north = streets.EXTENT
    assert lon.min() >= west
    assert lon.max() <= east
    assert lat.min() >= south
    assert lat.max() <= north
    counts, _, _ = np.histogram2d(lon, lat, bins=40, range=((west, east), (south, north)))
    busiest = np.sort(counts.ravel())[::-1]
    assert busiest[:160].sum() > 0.75 * len(lon), "a tenth of the squares holds most of the pick-ups"
    assert np.mean(counts == 0) > 0.2, "and there is water"


def test_hot_spots_are_the_busiest_places_first() -> None:
    spots = streets.hotspots(np.random.default_rng(3), 500)
    assert len(spots.lon) == len(spots.lat) == 500
    assert (np.diff(spots.pickups) <= 0).all()
    assert spots.pickups[0] > 10 * spots.pickups[-1]
