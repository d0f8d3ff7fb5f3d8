"""The facade: subscribe, publish, match, explain, save and load."""

from matchwood.engine.engine import Engine
from matchwood.engine.explanation import Explanation
from matchwood.engine.live import LiveMatch
from matchwood.engine.ranking import Match, Ranking
from matchwood.engine.results import Subscription

__all__ = ["Engine", "Explanation", "LiveMatch", "Match", "Ranking", "Subscription"]
