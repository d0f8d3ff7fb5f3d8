"""Equality, IN-lists and membership: our targets, and indexes written by hand."""

from __future__ import annotations

from bench.claims.forms import Chapter, Claim, Rival, Section, Target, at, at_most, by_metric, by_system
from bench.inverted_by_hand import DuckTables, NumpyBitsets, RoaringSets
from bench.postings import ADS, AUTO, KEYWORDS, LARGE, PAPERS, POSTINGS, ROUTING, SIZES

BITSETS, ROARING, DUCK = NumpyBitsets.name, RoaringSets.name, DuckTables.name
SIZE = SIZES["paper"]
LINES = [(name, name, SIZE) for name in (ADS, ROUTING, KEYWORDS, PAPERS)]
LINES.append((f"{ADS}, {LARGE:,}", ADS, LARGE))
SYSTEMS = [(POSTINGS, "`postings`"), (AUTO, "`auto`"), (ROARING, ROARING), (BITSETS, BITSETS)]


def against(
    what: str, workload: str, metric: str, target: Target | None = None, *, n: int = SIZE, why: str = ""
) -> Claim:
    """`postings` beside Roaring bitmaps, in microseconds."""
    ours = at(workload, POSTINGS, metric, n)
    rival = Rival(ROARING, at(workload, ROARING, metric, n), ours)
    return Claim(what, ours, "µs", target=target, rival=rival, why=why)


def change(what: str, metric: str, bound: float | None = None, why: str = "") -> Claim:
    """A change of ads, in microseconds."""
    target = None if bound is None else at_most(bound)
    return Claim(what, at(ADS, POSTINGS, metric, SIZE), "µs", target=target, why=why)


CHAPTER = Chapter(
    "postings",
    "Equality, IN-lists and membership in lists",
    "`python -m bench postings`. Ads, routing, keywords and alerts on papers: [the workloads](workloads.md). Engines with "
    "`postings`, and with what `auto` chooses, beside inverted indexes of Roaring bitmaps and of NumPy bitsets, which find the "
    "rows of each value and intersect them, and beside DuckDB, which answers a batch by one query. Processor time of the whole "
    "process. The indexes by hand and DuckDB return ids, best first, and hold a fixed set of rows; ours also return scores.",
    [
        Section(
            "Batches, 100,000 subscriptions",
            "",
            [
                against("ads, all matches, an event", ADS, "us_per_event", at_most(60)),
                against("ads, five best", ADS, "us_per_event_top_5", at_most(5)),
                against("routing, all matches", ROUTING, "us_per_event", at_most(90)),
                against("keywords, all matches", KEYWORDS, "us_per_event", at_most(40)),
                against("papers, all matches", PAPERS, "us_per_event", at_most(40)),
                against("1,000,000 ads, all matches", ADS, "us_per_event", at_most(900), n=LARGE),
                against("1,000,000 ads, five best", ADS, "us_per_event_top_5", at_most(10), n=LARGE),
            ],
            grids=[
                by_system("all matches, unordered, µs an event", LINES, [*SYSTEMS, (DUCK, DUCK)]),
                by_system(
                    "all matches, best first, µs an event",
                    LINES,
                    [*SYSTEMS, (DUCK, DUCK)],
                    metric="us_per_event_ordered",
                ),
                by_system("five best, µs an event", LINES, SYSTEMS, metric="us_per_event_top_5"),
            ],
        ),
        Section(
            "Single calls with a dict",
            "",
            [
                against("`top_k` of an ad, five best", ADS, "top_5_us", at_most(60)),
                against(
                    "`match` of an ad, as arrays",
                    ADS,
                    "match_arrays_us",
                    why="A single event has the planes to itself, and its matches are put in order; bitmaps number rows by rank.",
                ),
            ],
            grids=[
                by_system("`top_k`, five best, µs", LINES, SYSTEMS, metric="top_5_us"),
                by_system("`match`, as arrays, µs", LINES, SYSTEMS, metric="match_arrays_us"),
                by_system("`match`, a list of objects, µs", LINES, SYSTEMS, metric="match_us"),
            ],
            differs="A list of all matches has an object for each, thousands of them; the indexes by hand return an array.",
        ),
        Section(
            "Changes, memory and the first answer",
            "",
            [
                change("insert one ad, as arrays (`subscribe_rows`)", "insert_us", 30),
                change("of this, the index", "index_insert_us"),
                change("insert ads in bulk, each", "bulk_insert_us", 2),
                change("build with all ads, each", "build_us", 2),
                change(
                    "delete one ad (`unsubscribe`)",
                    "delete_us",
                    5,
                    "Most of it is the engine: its lock, and a note that undoes the change after an exception.",
                ),
                change("of that, the index", "index_delete_us"),
                change("delete ads in bulk, each", "bulk_delete_us", 5),
                change("change the bid of an ad (`set_priority`)", "set_priority_us"),
                change("replace the conditions of an ad by text (`update`)", "update_us"),
                change("insert an ad as text (`subscribe`)", "subscribe_us"),
                Claim("memory of an ad", at(ADS, POSTINGS, "bytes_per_row", SIZE), "bytes", target=at_most(1_024)),
                Claim("first answer, 10,000 ads, empty kernel cache", at(ADS, POSTINGS, "first_answer_s"), "s"),
                Claim("the same with compiled kernels", at(ADS, POSTINGS, "warm_first_answer_s"), "s"),
            ],
            grids=[
                by_metric(
                    "ads: build and memory",
                    [(label, ADS, system) for system, label in SYSTEMS if system != AUTO],
                    [("build_us", "build, µs a row", 1), ("bytes_per_row", "bytes a row", 1)],
                ),
            ],
        ),
    ],
)
