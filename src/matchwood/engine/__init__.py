"""The facade: subscribe, publish, match, explain, save and load."""

from matchwood.engine.engine import Engine, Match, Subscription
from matchwood.engine.explanation import Explanation
from matchwood.engine.live import LiveMatch

__all__ = ["Engine", "Explanation", "LiveMatch", "Match", "Subscription"]
