"""Matchwood: ranked content-based publish/subscribe. Matches events against millions of subscriptions, best first.

>>> from matchwood import Engine, attr
>>> engine = Engine()
>>> engine.subscribe((attr("price") < 3300) & attr("place").within((-73.98, 40.75), (1, "km")))
0
>>> engine.match({"price": 3000, "place": {"lon": -73.981, "lat": 40.751}})
[Match(id=0, score=2.0)]
"""

from matchwood.engine import Engine, Explanation, LiveMatch, Match, Subscription
from matchwood.engine.clock import ManualClock
from matchwood.errors import MatchwoodError
from matchwood.lang.builder import attr
from matchwood.lang.event import Event
from matchwood.lang.parser import parse
from matchwood.schema import Point, Range, Schema

__version__ = "0.1.0"

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
    "Schema",
    "Subscription",
    "attr",
    "parse",
]
