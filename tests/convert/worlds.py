"""Seeded random events, and random conditions of each language over the same few attributes."""

from __future__ import annotations

from random import Random
from typing import Any

NUMBERS = (0, 1, 2, 3, 4, 5)
STRINGS = ("a", "b", "c")
NAMES = ("n", "m", "s", "b", "o.n")


def a_value(random: Random, name: str) -> Any:
    if name == "s":
        return random.choice(STRINGS)
    return random.random() < 0.5 if name == "b" else random.choice(NUMBERS)


def an_event(random: Random, *, lists: bool = True) -> dict[str, Any]:
    """Scalars, lists and missing attributes; "o.n" is nested."""
    event: dict[str, Any] = {}
    for name in NAMES:
        kind = random.random()
        if kind < 0.3:
            continue
        value = a_value(random, name)
        if lists and kind > 0.6:
            value = [a_value(random, name) for _ in range(random.randrange(1, 4))]
        if name == "o.n":
            event["o"] = {"n": value}
        else:
            event[name] = value
    return event


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """The event with dotted names."""
    return {
        **{name: value for name, value in event.items() if name != "o"},
        **({"o.n": event["o"]["n"]} if "o" in event else {}),
    }


def elements(event: dict[str, Any], name: str) -> list[Any]:
    """The values of an attribute; none if it is absent."""
    value = flat(event).get(name, [])
    return value if isinstance(value, list) else [value]


def an_eventbridge_pattern(random: Random, depth: int = 2) -> dict[str, Any]:
    pattern: dict[str, Any] = {}
    for name in random.sample(NAMES, random.randrange(1, 3)):
        entries = [_an_entry(random, name) for _ in range(random.randrange(1, 3))]
        if name == "o.n" and random.random() < 0.5:
            pattern["o"] = {"n": entries}
        else:
            pattern[name] = entries
    if depth and random.random() < 0.5:
        pattern["$or"] = [an_eventbridge_pattern(random, depth - 1) for _ in range(2)]
    return pattern


def _an_entry(random: Random, name: str) -> Any:
    kind = random.random()
    if kind < 0.35:
        return a_value(random, name)
    if kind < 0.5:
        return {"exists": random.random() < 0.5}
    if kind < 0.75 or name in ("s", "b"):
        but = a_value(random, name) if random.random() < 0.5 else [a_value(random, name) for _ in range(2)]
        return {"anything-but": but}
    if random.random() < 0.4:
        return {"numeric": [random.choice(["=", "<", "<=", ">", ">="]), a_value(random, name)]}
    lo, hi = sorted(random.sample(NUMBERS, 2))
    return {"numeric": [random.choice([">", ">="]), lo, random.choice(["<", "<="]), hi]}


def a_mongodb_condition(random: Random, depth: int = 2) -> dict[str, Any]:
    kind = random.random()
    if depth and kind < 0.5:
        branches = [a_mongodb_condition(random, depth - 1) for _ in range(random.randrange(1, 3))]
        return {random.choice(["$and", "$or", "$nor"]): branches}
    condition: dict[str, Any] = {}
    for name in random.sample(NAMES, random.randrange(1, 3)):
        if random.random() < 0.2:
            condition[name] = random.choice([a_value(random, name), None])
            continue
        operators = dict(_an_operator(random, name) for _ in range(random.randrange(1, 4)))
        condition[name] = {"$not": operators} if random.random() < 0.3 else operators
    return condition


def _an_operator(random: Random, name: str) -> tuple[str, Any]:
    some = [a_value(random, name) for _ in range(random.randrange(1, 3))]
    choices: list[tuple[str, Any]] = [
        ("$eq", some[0]),
        ("$ne", random.choice([some[0], None])),
        ("$in", [*some, *random.choice([[], [None]])]),
        ("$nin", [*some, *random.choice([[], [None]])]),
        ("$exists", random.random() < 0.5),
        ("$all", some),
        ("$elemMatch", {random.choice(["$eq", "$ne"]): some[0]}),
    ]
    if name not in ("s", "b"):
        lo, hi = sorted(random.sample(NUMBERS, 2))
        ends = {random.choice(["$gt", "$gte"]): lo, random.choice(["$lt", "$lte"]): hi}
        choices += [(random.choice(["$gt", "$gte", "$lt", "$lte"]), some[0])] * 4 + [("$elemMatch", ends)] * 2
    return random.choice(choices)


def an_elasticsearch_query(random: Random, depth: int = 2) -> dict[str, Any]:
    if depth and random.random() < 0.6:
        body: dict[str, Any] = {}
        for key in random.sample(["must", "filter", "should", "must_not"], random.randrange(1, 4)):
            body[key] = [an_elasticsearch_query(random, depth - 1) for _ in range(random.randrange(1, 4))]
        if "should" in body and random.random() < 0.5:
            body["minimum_should_match"] = random.randrange(-1, 4)
        return {"bool": body}
    name = random.choice(NAMES)
    kind = random.random()
    if kind < 0.3:
        return {"term": {name: a_value(random, name)}}
    if kind < 0.45:
        return {"terms": {name: [a_value(random, name) for _ in range(random.randrange(3))]}}
    if kind < 0.55:
        return {"exists": {"field": name}}
    if kind < 0.6:
        return random.choice([{"match_all": {}}, {"match_none": {}}])
    lo, hi = sorted(random.sample(NUMBERS, 2))
    ends = {random.choice(["gt", "gte"]): lo, random.choice(["lt", "lte"]): hi}
    if random.random() < 0.4:
        ends.pop(random.choice(list(ends)))
    return {"range": {random.choice(["n", "m", "o.n"]): ends}}


def a_cesql_tree(random: Random, depth: int = 3) -> Any:
    """A filter as nested tuples: ("AND", left, right), ("NOT", child), ("EXISTS", name), (operator, name, value) ..."""
    kind = random.random()
    if depth and kind < 0.5:
        return (
            random.choice(["AND", "OR", "XOR"]),
            a_cesql_tree(random, depth - 1),
            a_cesql_tree(random, depth - 1),
        )
    if depth and kind < 0.65:
        return ("NOT", a_cesql_tree(random, depth - 1))
    name = random.choice(["n", "m", "s", "b", "type"])
    if kind < 0.72:
        return ("EXISTS", name)
    string = name in ("s", "type")
    if name == "b":
        return ("=", name, random.random() < 0.5) if random.random() < 0.5 else ("TRUTH", name)
    if kind < 0.85:
        values = [a_value(random, "s" if string else name) for _ in range(random.randrange(1, 3))]
        return (random.choice(["IN", "NOT IN"]), name, values)
    operators = ["=", "!=", "<>"] if string else ["=", "!=", "<>", "<", "<=", ">", ">="]
    return (random.choice(operators), name, a_value(random, "s" if string else name))
