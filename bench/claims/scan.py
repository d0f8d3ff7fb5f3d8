"""Scan, the floor that every index must beat, and the way into the arrays."""

from __future__ import annotations

from bench.claims.forms import Chapter, Claim, Rival, Section, at, at_least, at_most, by_system, times

LAWS = (("BEGen, uniform", "BEGen uniform"), ("BEGen, Zipf", "BEGen zipf"), ("city squares", "city, *"))

CHAPTER = Chapter(
    "scan",
    "Scan and the way in",
    "`python -m bench scan`. A baseline is worth as much as the effort that went into it, so Scan is compared "
    "with the same algorithm in C++ (plain loops, `-O3 -march=native`), compiled on the spot. Wall time.",
    [
        Section(
            "Scan against C++",
            "",
            [
                Claim(
                    f"{label}: our time as a share of that of C++",
                    times(at(workload, "scan"), at(workload, "C++ scan")),
                    "x",
                    target=at_most(1.3),
                    rival=Rival("C++ scan", at(workload, "C++ scan"), at(workload, "scan")),
                )
                for label, workload in LAWS
            ],
            plots=[("scan.png", "Scan and the same scan in C++")],
            grids=[
                by_system(
                    "µs an event",
                    [(label, workload, None) for label, workload in LAWS],
                    [
                        ("scan", "all matches"),
                        ("scan top-10", "the 10 best"),
                        ("scan any, top-10", "`any`, the 10 best"),
                        ("C++ scan", "C++, all matches"),
                    ],
                    bold=False,
                )
            ],
        ),
        Section(
            "Parsing, encoding, single calls",
            "",
            [
                Claim(
                    "expressions of six predicates parsed a second",
                    at("six predicates", "parse", "per_second"),
                    "",
                    target=at_least(20_000),
                ),
                Claim("parsed and normalised a second", at("six predicates", "parse+normalise", "per_second"), ""),
                Claim(
                    "an Arrow table of 1M subscriptions of 8 predicates into arrays",
                    at("Arrow list form, 8 predicates", "encode", "seconds"),
                    "s",
                    target=at_most(5),
                ),
                Claim(
                    "`Engine.match`, one event of 15 attributes",
                    at("single calls", "Engine.match", "us_per_call"),
                    "µs",
                ),
                Claim("`Engine.top_k`", at("single calls", "Engine.top_k", "us_per_call"), "µs"),
                Claim("`Engine.subscribe`, from text", at("single calls", "Engine.subscribe", "us_per_call"), "µs"),
                Claim("`Engine.unsubscribe`", at("single calls", "Engine.unsubscribe", "us_per_call"), "µs"),
            ],
            differs="Single calls are with an index so small that matching is nothing: this is what Python and "
            "encoding cost. Batches pay it once.",
        ),
    ],
)
