"""Cold start: what compiling costs, and our targets."""

from __future__ import annotations

from bench.claims.forms import Chapter, Claim, Section, at, at_most, by_metric
from bench.cold import AUTO, COVERING, LIVE, PREBUILT, TEXTS
from matchwood.structures import INDEXES

WORKLOAD = "city-mixed"

CHAPTER = Chapter(
    "cold",
    "Cold start",
    "`python -m bench cold`. Every system in a fresh process with an empty kernel cache, 10,000 subscriptions. Compiled kernels "
    "are kept on disk, so this is paid once per machine and version. Live events and covering count what they add to `scan`. "
    "Compilation is processor time; the first answer is wall time from the import of Matchwood on, or from the first call of "
    "live events and of covering.",
    [
        Section(
            "Compiling everything that is used",
            "",
            [
                Claim(
                    "import, 10,000 subscriptions as text, first match",
                    at(WORKLOAD, TEXTS, "first_answer_s"),
                    "s",
                    target=at_most(8),
                ),
                Claim(
                    "the same with prebuilt kernels", at(WORKLOAD, PREBUILT, "first_answer_s"), "s", target=at_most(3)
                ),
                Claim("`scan`", at(WORKLOAD, "scan", "compile_cpu_s"), "s", target=at_most(4)),
                Claim(
                    "`auto`, with all that the planner tries",
                    at(WORKLOAD, AUTO, "compile_cpu_s"),
                    "s",
                    target=at_most(40),
                ),
            ],
            grids=[
                by_metric(
                    "system",
                    [(f"`{system}`", WORKLOAD, system) for system in INDEXES]
                    + [(system, WORKLOAD, system) for system in (LIVE, COVERING)]
                    + [(f"`{AUTO}`", WORKLOAD, AUTO)],
                    [
                        ("compile_cpu_s", "compilation, s", 1),
                        ("kernels", "kernels", 1),
                        ("compilations", "compilations", 1),
                        ("first_answer_s", "first answer, s", 1),
                    ],
                ),
            ],
        ),
    ],
)
