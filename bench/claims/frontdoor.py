"""The front door: what a user's own calls cost, our targets, and two indexes written by hand."""

from __future__ import annotations

from bench.ads_by_hand import NumpyBitsets, RoaringSets
from bench.claims.forms import Chapter, Claim, Figure, Rival, Section, at, at_least, at_most, beside, by_metric
from bench.frontdoor import FRONT

BITSETS, ROARING = NumpyBitsets.name, RoaringSets.name


def call(what: str, metric: str, bound: float, why: str = "") -> Claim:
    """A call of the engine, with its target in microseconds."""
    return Claim(what, at(FRONT, "Engine", metric), "µs", target=at_most(bound), why=why)


def extra(metric: str) -> Figure:
    """What the attributes that no subscription names add to a call."""
    plain, wide = at(FRONT, "Engine", f"{metric}_us"), at(FRONT, "Engine", f"{metric}_with_unasked_us")
    return lambda experiment: wide(experiment) - plain(experiment)


def against(what: str, metric: str, rival: str) -> Claim:
    """The engine beside an index written by hand."""
    ours, theirs = beside("ads", "Engine", rival, metric)
    return Claim(what, ours, "µs", rival=Rival(rival, theirs, ours))


CHAPTER = Chapter(
    "frontdoor",
    "The front door",
    "`python -m bench frontdoor`. What a user's own calls cost, from the first import to single calls on large engines, in "
    "processor time unless it says otherwise.",
    [
        Section(
            "First answers and imports",
            "",
            [
                Claim(
                    "import, 10,000 text subscriptions, first match; empty cache, from source",
                    at(FRONT, "from source", "first_answer_s"),
                    "s",
                    target=at_most(8),
                ),
                Claim(
                    "the same from the prebuilt wheel",
                    at(FRONT, "from wheel", "first_answer_s"),
                    "s",
                    target=at_most(3),
                ),
                Claim(
                    "`from matchwood import Engine`", at("imports", "import Engine", "wall_s"), "s", target=at_most(0.5)
                ),
                Claim(
                    "`import matchwood`, memory", at("imports", "import matchwood", "peak_mb"), "MB", target=at_most(60)
                ),
            ],
        ),
        Section(
            "Single calls and changes",
            "",
            [
                call("`match` of a dict of 15 attributes, few hits, 1,000 subscriptions", "match_us", 20),
                call("`top_k` of the same", "top_k_us", 20),
                Claim(
                    "20 more attributes that no subscription names: `match`", extra("match"), "µs", target=at_most(3)
                ),
                call("`subscribe` of text of a known shape", "subscribe_us", 60),
                call("`subscribe_many`, each", "subscribe_many_us", 20),
                call(
                    "`publish` with `until`",
                    "publish_us",
                    60,
                    "Two fifths find the matches, a quarter keeps the event; the rest reads it and holds the lock.",
                ),
                call("`move`", "move_us", 20),
                call("`move_many`, each", "move_many_us", 1),
                call("`set_priority`", "set_priority_us", 15),
                call("NDJSON to arrays, batches of 100, an event", "ndjson_100_us_per_event", 4),
                call("NDJSON to arrays, batches of 2,000, an event", "ndjson_2000_us_per_event", 2),
            ],
        ),
        Section(
            "Many hits, and two cores",
            "",
            [
                Claim(
                    "`match_many` of 500 points on 256,000 rectangles with priorities, unordered, an event",
                    at("rectangles", "Engine", "unordered_us_per_event"),
                    "µs",
                    target=at_most(70),
                ),
                Claim(
                    "the same, ordered",
                    at("rectangles", "Engine", "ordered_us_per_event"),
                    "µs",
                    target=at_most(250),
                ),
                Claim(
                    "`top_k` from two threads, times one",
                    at("city", "Engine", "top_k_two_threads_speedup"),
                    "x",
                    target=at_least(1.7),
                    why="The kernel is too short for two threads to hand the interpreter's lock over: see docs/operations.md.",
                ),
                Claim(
                    "`top_k_many` of a list of dicts on two cores, times `top_k` from one thread",
                    at("city", "Engine", "top_k_many_speedup"),
                    "x",
                ),
                Claim(
                    "`match_many` on two cores, times one",
                    at("city", "Engine", "match_many_two_cores_speedup"),
                    "x",
                    target=at_least(1.7),
                ),
            ],
        ),
        Section(
            "Ads, beside indexes written by hand",
            "",
            [
                against("all matches", "match_us", BITSETS),
                against("the ten best", "top_10_us", BITSETS),
                against("all matches", "match_us", ROARING),
                against("the ten best", "top_10_us", ROARING),
            ],
            grids=[
                by_metric(
                    "system",
                    [(f"`{name}`" if name == "Engine" else name, "ads", name) for name in ("Engine", BITSETS, ROARING)],
                    [
                        ("match_us", "all matches, µs", 1),
                        ("top_10_us", "ten best, µs", 1),
                        ("build_s", "build, s", 1),
                        ("mb", "MB", 1),
                    ],
                ),
            ],
        ),
    ],
)
