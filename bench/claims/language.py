"""What the language adds to plain conditions: our targets, and what does the same by hand."""

from __future__ import annotations

from bench.claims.forms import Chapter, Claim, Rival, Section, Target, at, at_most, by_system, times
from bench.language_graded import SIZES, SYSTEMS
from bench.language_objects import WORKLOAD as OBJECTS
from bench.language_patterns import WORKLOAD as PATTERNS
from bench.language_polygons import INDEXES, TREE
from bench.language_polygons import SIZES as POLYGON_SIZES

AUTO, AUTOMATA, LOOP = "auto", "Aho-Corasick", "loop"
POLYGONS = f"polygons, {POLYGON_SIZES['paper']:,}"
GRADED = [f"L3 {kind}, {weights}" for kind in ("nearest", "cheapest") for weights in ("one weight", "weights differ")]
TOP = "us_per_event_top_10"


def beside(
    what: str,
    workload: str,
    metric: str,
    rival: str,
    *,
    system: str = AUTO,
    target: Target | None = None,
    why: str = "",
) -> Claim:
    """A figure of ours beside the same call of a rival."""
    ours = at(workload, system, metric)
    theirs = at(workload, rival, metric if rival == TREE else "us_per_event")
    return Claim(what, ours, "µs", target=target, rival=Rival(rival, theirs, ours), why=why)


CHAPTER = Chapter(
    "language",
    "Patterns, polygons, lists of objects, closeness",
    "`python -m bench language`. 100,000 subscriptions; events are mappings. Processor time of the whole process.",
    [
        Section(
            "Prefixes and contained texts",
            "",
            [
                beside("batches, ten strings an event", PATTERNS, "us_per_event", AUTOMATA, target=at_most(200)),
                beside("single `match`", PATTERNS, "match_us", AUTOMATA, target=at_most(200)),
                Claim("of a plain loop, an event", at(PATTERNS, LOOP), "µs"),
                Claim("`subscribe` of one pattern", at(PATTERNS, AUTO, "subscribe_us"), "µs"),
            ],
            differs="The automata have one kind of pattern and no scores, and are built again for each change.",
        ),
        Section(
            "Polygons of 20 vertices",
            "",
            [
                claim
                for index in INDEXES
                for claim in (
                    beside(f"`match_many`, `{index}`", POLYGONS, "us_per_event", TREE, system=f"match_many, {index}"),
                    beside(
                        f"single `match`, `{index}`",
                        POLYGONS,
                        "us_per_event_single",
                        TREE,
                        system=f"match, {index}",
                        why="A call of `match` reads a mapping and returns a ranking; the tree is given a point of its own kind.",
                    ),
                )
            ],
        ),
        Section(
            "Conditions on the objects of a list",
            "",
            [
                beside("batches, ten objects an event", OBJECTS, "us_per_event", LOOP),
                beside("single `match`", OBJECTS, "match_us", LOOP),
                Claim("`subscribe` of one condition", at(OBJECTS, AUTO, "subscribe_us"), "µs"),
            ],
        ),
        Section(
            "Top-k by closeness",
            "",
            [
                Claim(
                    f"{workload.removeprefix('L3 ')}: the ten best with `DECAY`, times without",
                    times(at(workload, "auto, graded", TOP), at(workload, "auto, plain", TOP)),
                    "x",
                    target=at_most(1.5),
                    why="Plain top-k knows its order before it sees an event and reads one block or two; the ten nearest lie in "
                    "six: docs/decisions/graded.md.",
                )
                for workload in GRADED
            ],
            grids=[
                by_system(
                    f"{kind}, ten best, µs an event",
                    [(workload.removeprefix("L3 "), workload, SIZES["paper"]) for workload in GRADED],
                    [(f"{system}, {kind}", f"`{system}`") for system in SYSTEMS],
                    metric=TOP,
                )
                for kind in ("plain", "graded")
            ],
        ),
    ],
)
