"""Workloads of equality, IN-lists and membership: shapes and shares, and what NOT IN and forbidden terms mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from matchwood import Engine
from matchwood.encode.arrays import ABSENT, INTERVAL, MORE, Events, Rows
from matchwood.structures import Scan
from matchwood.workloads import Keywords, PaperAlerts, Routing, Targeting, Workload, WorkloadError, measure
from matchwood.workloads.targeting import AGE, COUNTRY, DEVICE, GENDER, HOUR, INTERESTS, OS, SITE
from tests.worlds import ranked

SMALL: dict[str, Workload] = {
    "targeting": Targeting(size=5_000),
    "routing": Routing(size=5_000),
    "keywords": Keywords(size=5_000, vocabulary=2_000),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with papers: the second half have no authors."""
    rng, count = np.random.default_rng(4), 400
    folder = tmp_path_factory.mktemp("data")

    def lists(prefix: str, values: int, size: int) -> list[list[str]]:
        return [[f"{prefix}{n}" for n in rng.integers(values, size=rng.integers(1, size))] for _ in range(count)]

    authors = [names if n < count // 2 else [] for n, names in enumerate(lists("a", 60, 5))]
    columns = {
        "title_terms": lists("t", 90, 8),
        "authors": authors,
        "venues": lists("v", 5, 3),
        "year": rng.integers(2016, 2024, count),
    }
    pa.parquet.write_table(pa.table(columns), folder / "acl_papers_2016_2023.parquet")
    return folder


@pytest.fixture(params=[*SMALL, "alerts"])
def workload(request: pytest.FixtureRequest, folder: Path) -> Workload:
    return SMALL.get(request.param) or PaperAlerts(size=5_000, data=folder)


def changed(workload: Workload, **changes: object) -> Workload:
    return type(workload)(**{**vars(workload), **changes})


def same(one: Rows | Events, other: Rows | Events) -> bool:
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(one, other, strict=True))


def test_the_seed_decides_everything_and_batches_differ(workload: Workload) -> None:
    again, other = changed(workload), changed(workload, seed=99)
    assert same(workload.subscriptions(), again.subscriptions())
    assert same(workload.events(30), again.events(30))
    assert not same(workload.subscriptions(), other.subscriptions())
    assert not same(workload.events(30), other.events(30))
    assert not same(workload.events(30), workload.events(30, batch=1))


def test_events_do_not_change_with_the_number_of_subscriptions(workload: Workload) -> None:
    assert same(workload.events(30), changed(workload, size=70).events(30))


def test_rows_are_well_formed(workload: Workload) -> None:
    rows = workload.subscriptions()
    assert np.array_equal(rows.ids, np.arange(5_000))
    assert (np.diff(rows.offsets) > 0).all()
    assert rows.offsets[-1] == len(rows.dims) == len(rows.lo) == len(rows.weight)
    assert np.array_equal(np.isnan(rows.lo), rows.kinds == ABSENT)
    assert (rows.lo[rows.kinds != ABSENT] <= rows.hi[rows.kinds != ABSENT]).all()
    assert rows.dims.max() < workload.schema().dimensions
    assert (rows.priority > 0).all()
    inside = np.ones(len(rows.dims) - 1, dtype=bool)  # neighbours of one row
    inside[rows.offsets[1:-1] - 1] = False
    step = np.diff(rows.dims.astype(int))
    assert (step[inside] >= 0).all()
    assert np.array_equal((rows.kinds[1:] == MORE)[inside], (step == 0)[inside])
    more = inside & (rows.kinds[1:] == MORE)
    assert (rows.lo[1:][more] > rows.hi[:-1][more]).all()


def test_the_engine_takes_the_rows_and_finds_what_plain_code_counts(workload: Workload) -> None:
    workload = changed(workload, size=1_000)
    rows, events = workload.subscriptions(), workload.events(40)
    engine = Engine(workload.schema(), index="scan")
    engine.subscribe_rows(rows)
    found = np.diff(engine.match_many(events).offsets)
    assert found.tolist() == measure(rows, events).matches.tolist()
    assert found.sum() > 20


def test_no_subscriptions_and_no_events_are_empty_arrays(workload: Workload) -> None:
    assert changed(workload, size=0).subscriptions().size == 0
    assert workload.events(0).size == 0


@pytest.mark.parametrize("kind", [Targeting, Routing, Keywords, PaperAlerts])
def test_every_preset_can_be_made_and_tells_its_parameters(kind: type[Workload]) -> None:
    for name in kind.PRESETS:
        assert kind.preset(name, seed=9).parameters()["seed"] == 9


def entries(rows: Rows, dim: int) -> np.ndarray:
    """How many intervals each row has in a dimension."""
    owner = np.repeat(np.arange(rows.size), np.diff(rows.offsets))
    return np.bincount(owner[rows.dims == dim], minlength=rows.size)


def test_campaigns_have_the_stated_shares_and_lists() -> None:
    rows = Targeting(size=20_000).subscriptions()
    expected = {COUNTRY: 1.0, DEVICE: 0.3, OS: 0.4, AGE: 0.5, GENDER: 0.2, INTERESTS: 0.8, HOUR: 0.4, SITE: 0.1}
    lists = {COUNTRY: (1, 20), DEVICE: (1, 1), OS: (1, 3), AGE: (1, 1), INTERESTS: (1, 5), HOUR: (4, 19), SITE: (2, 11)}
    for dim, share in expected.items():
        assert (entries(rows, dim) > 0).mean() == pytest.approx(share, abs=0.015)
    for dim, (least, most) in lists.items():
        used = entries(rows, dim)
        assert (used[used > 0].min(), used.max()) == (least, most)
    assert np.log(rows.priority[rows.priority > 0.01]).std() == pytest.approx(1, abs=0.05)
    countries = np.bincount(rows.lo[rows.dims == COUNTRY].astype(int), minlength=200)
    assert countries[0] > countries[20] > countries[199] > 0


def test_impressions_have_a_value_of_every_attribute_and_10_to_50_interests() -> None:
    events = Targeting().events(500)
    owner = np.repeat(np.arange(events.size), np.diff(events.offsets))
    for dim in range(8):
        counts = np.bincount(owner[events.dims == dim], minlength=events.size)
        assert (counts.min(), counts.max()) == ((10, 50) if dim == INTERESTS else (1, 1))


def test_a_campaign_reads_as_the_text_that_a_user_writes() -> None:
    workload = Targeting(size=300, site_share=1.0)
    engine, again = (Engine(workload.schema(), index="scan") for _ in range(2))
    engine.subscribe_rows(workload.subscriptions())
    for subscription in engine.subscriptions():
        again.subscribe(str(subscription.expression), id=subscription.id, priority=subscription.priority)
    events = workload.events(50)
    one, other = engine.match_many(events, ordered=True), again.match_many(events, ordered=True)
    assert [sorted(one.of(e)[0]) for e in range(50)] == [sorted(other.of(e)[0]) for e in range(50)]
    assert len(one.ids) > 0


def test_rules_have_the_stated_predicates_and_never_exclusions_alone() -> None:
    workload = Routing(size=20_000)
    rows = workload.subscriptions()
    heads = rows.kinds == INTERVAL
    owner = np.repeat(np.arange(rows.size), np.diff(rows.offsets))
    sizes = np.bincount(owner[heads])
    assert (sizes.min(), sizes.max()) == (2, 5)
    excludes, ranged = heads & np.isneginf(rows.lo), heads & (rows.dims >= workload.coded)
    assert excludes.sum() / (heads & ~ranged).sum() == pytest.approx(0.15, abs=0.01)
    assert (np.bincount(owner[excludes], minlength=rows.size) < sizes).all()
    assert ranged.sum() / heads.sum() == pytest.approx(0.2, abs=0.01)
    width = (rows.hi - rows.lo)[ranged]
    assert width.min() == pytest.approx(0.01, abs=0.002)
    assert width.max() == pytest.approx(0.2, abs=0.002)
    values = workload.cardinalities()
    assert values.min() >= 1_000
    assert values.max() <= 100_000


def test_searches_leave_stop_words_out_and_some_forbid_a_term() -> None:
    workload = Keywords(size=20_000, vocabulary=5_000)
    rows, events = workload.subscriptions(), workload.events(50)
    owner = np.repeat(np.arange(rows.size), np.diff(rows.offsets))
    required = np.bincount(owner[rows.kinds == INTERVAL])
    forbidden = np.bincount(owner[rows.kinds == ABSENT], minlength=rows.size)
    assert [(required == count).mean() for count in range(1, 5)] == pytest.approx([0.25] * 4, abs=0.015)
    assert forbidden.max() == 1
    assert forbidden.mean() == pytest.approx(0.1, abs=0.01)
    assert rows.dims.min() >= workload.stop_words
    sizes = np.diff(events.offsets)
    assert sizes.min() >= 100
    assert sizes.max() <= 300
    assert (events.lo == 1).all()


def test_alerts_are_on_authors_or_on_terms_and_all_authors_are_real(folder: Path) -> None:
    workload = PaperAlerts(size=20_000, data=folder)
    rows, schema = workload.subscriptions(), workload.schema()
    authors, terms, venues, years = (
        entries(rows, schema.find(name).dims[0]) for name in ("authors", "title_terms", "venues", "year")
    )
    assert ((authors > 0) ^ (terms > 0)).all()
    assert (authors > 0).mean() == pytest.approx(0.5, abs=0.015)
    assert (authors.max(), terms.max()) == (3, 4)
    assert set(np.unique(venues)) == {0, 2}
    assert (venues > 0).mean() == pytest.approx(0.3, abs=0.015)
    assert (years > 0).mean() == pytest.approx(0.8, abs=0.015)


def test_alerts_without_the_file_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"acl_papers_2016_2023\.parquet was not found .* set MATCHWOOD_DATA"):
        PaperAlerts(size=5, data=tmp_path).subscriptions()


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Targeting, {"countries": 5}),
        (Targeting, {"event_interests": (10, 6_000)}),
        (Routing, {"predicates": (2, 60)}),
        (Keywords, {"vocabulary": 70_000}),
        (Keywords, {"terms": (0, 10)}),
    ],
)
def test_parameters_that_cannot_be_are_refused(kind: type[Workload], wrong: dict[str, object]) -> None:
    with pytest.raises(WorkloadError):
        kind(**wrong)  # type: ignore[arg-type]


def test_keywords_as_attributes_and_as_a_list_have_the_same_matches() -> None:
    terms, lists = (Keywords(size=2_000, vocabulary=300, stop_words=5, as_list=as_list) for as_list in (False, True))
    found = [
        ranked(Scan.build(workload.subscriptions()).match(workload.events(60, batch=1))) for workload in (terms, lists)
    ]
    assert found[0] == found[1]
    assert sum(map(len, found[0])) > 500
