"""Matchwood: ranked content-based publish/subscribe. Matches events against millions of subscriptions, best first.

>>> from matchwood import Engine, attr
>>> engine = Engine()
>>> engine.subscribe((attr("price") < 3300) & attr("place").within((-73.98, 40.75), (1, "km")))
0
>>> engine.match({"price": 3000, "place": {"lon": -73.981, "lat": 40.751}})
[Match(id=0, score=2.0)]

The names below are public. They are imported at first use: what does not match needs no compiler (parsing, the command line's
help, workers that only encode).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matchwood.client import connect, connect_sync
    from matchwood.engine import Engine, Explanation, LiveMatch, Match, Ranking, Subscription
    from matchwood.engine.clock import ManualClock
    from matchwood.engine.tracking import Track, Tracker
    from matchwood.errors import MatchwoodError
    from matchwood.lang.builder import attr
    from matchwood.lang.event import Event
    from matchwood.lang.parser import parse
    from matchwood.lang.temporal_builder import interval
    from matchwood.schema import Point, Range, Schema

__version__ = "0.1.0"

_MODULES = {
    "client": ["connect", "connect_sync"],
    "engine": ["Engine", "Explanation", "LiveMatch", "Match", "Ranking", "Subscription"],
    "engine.clock": ["ManualClock"],
    "engine.tracking": ["Track", "Tracker"],
    "errors": ["MatchwoodError"],
    "lang.builder": ["attr"],
    "lang.event": ["Event"],
    "lang.parser": ["parse"],
    "lang.temporal_builder": ["interval"],
    "schema": ["Point", "Range", "Schema"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Engine",
    "Event",
    "Explanation",
    "LiveMatch",
    "ManualClock",
    "Match",
    "MatchwoodError",
    "Point",
    "Range",
    "Ranking",
    "Schema",
    "Subscription",
    "Track",
    "Tracker",
    "attr",
    "connect",
    "connect_sync",
    "interval",
    "parse",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
