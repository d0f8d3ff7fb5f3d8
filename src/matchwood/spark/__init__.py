"""The pipeline on Spark: raw tables -> ingest -> profile -> weigh -> cover -> index -> match -> evaluate, batch and streaming.

`match(events, subscriptions, k=10)` matches plain DataFrames. A stage is a function from DataFrame to lazy DataFrame, on the
session of the caller. `Lake` stores tables and indexes as versions. `docs/spark.md` shows how to use them. The names below are
public. They are imported at first use, so that workers load only what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matchwood.spark.cdc import captured_changes
    from matchwood.spark.changes import compact
    from matchwood.spark.codebook import Codebook
    from matchwood.spark.direct import SubscriptionIndex, close_all, index_subscriptions, match, match_subscriptions
    from matchwood.spark.evaluate import Evaluation
    from matchwood.spark.explaining import explain
    from matchwood.spark.index_stage import IndexVersion, build_index, open_index
    from matchwood.spark.ingest import read_raw
    from matchwood.spark.jobs import progress, session_problems
    from matchwood.spark.lake import Lake, Manifest
    from matchwood.spark.pipeline import (
        cover_table,
        evaluate_table,
        index_table,
        ingest_table,
        match_subscriptions_table,
        match_table,
        profile_tables,
        weigh_table,
    )
    from matchwood.spark.profile import Profile
    from matchwood.spark.session import local_session, settings, warm
    from matchwood.spark.sql import register
    from matchwood.spark.streaming import MatchStream

_MODULES = {
    "cdc": ["captured_changes"],
    "changes": ["compact"],
    "codebook": ["Codebook"],
    "direct": ["SubscriptionIndex", "close_all", "index_subscriptions", "match", "match_subscriptions"],
    "evaluate": ["Evaluation"],
    "explaining": ["explain"],
    "index_stage": ["IndexVersion", "build_index", "open_index"],
    "ingest": ["read_raw"],
    "jobs": ["progress", "session_problems"],
    "lake": ["Lake", "Manifest"],
    "pipeline": [
        "cover_table",
        "evaluate_table",
        "index_table",
        "ingest_table",
        "match_subscriptions_table",
        "match_table",
        "profile_tables",
        "weigh_table",
    ],
    "profile": ["Profile"],
    "session": ["local_session", "settings", "warm"],
    "sql": ["register"],
    "streaming": ["MatchStream"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Codebook",
    "Evaluation",
    "IndexVersion",
    "Lake",
    "Manifest",
    "MatchStream",
    "Profile",
    "SubscriptionIndex",
    "build_index",
    "captured_changes",
    "close_all",
    "compact",
    "cover_table",
    "evaluate_table",
    "explain",
    "index_subscriptions",
    "index_table",
    "ingest_table",
    "local_session",
    "match",
    "match_subscriptions",
    "match_subscriptions_table",
    "match_table",
    "open_index",
    "profile_tables",
    "progress",
    "read_raw",
    "register",
    "session_problems",
    "settings",
    "warm",
    "weigh_table",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
