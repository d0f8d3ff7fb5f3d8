"""The planner: chooses the structure for the subscriptions and events of an engine by timing the contenders on a sample."""

from matchwood.planner import elements  # noqa: F401  conditions on elements are matched by an index
from matchwood.planner.plan import AUTO, Plan, make_plan, planned_index
from matchwood.planner.planned import Planned
from matchwood.planner.rules import RULES, Rules

__all__ = ["AUTO", "RULES", "Plan", "Planned", "Rules", "make_plan", "planned_index"]
