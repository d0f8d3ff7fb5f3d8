"""The facade: subscribe, publish, match, explain, save and load."""

from matchwood.engine.engine import Engine, Match
from matchwood.engine.explanation import Explanation

__all__ = ["Engine", "Explanation", "Match"]
