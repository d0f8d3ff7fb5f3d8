"""The planner: which structure serves these subscriptions and these events best, tried on a sample and said in words."""

from matchwood.planner.plan import AUTO, Plan, make_plan, planned_index
from matchwood.planner.planned import Planned
from matchwood.planner.rules import RULES, Rules

__all__ = ["AUTO", "RULES", "Plan", "Planned", "Rules", "make_plan", "planned_index"]
