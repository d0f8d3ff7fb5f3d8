"""Expression -> conditions of MongoDB, Elasticsearch and CloudEvents SQL.

The tree is walked with NOT moved to the predicates, as Matchwood reads it: a negated predicate holds for events that have the
attribute, and no value of it meets the predicate. A writer says how its language writes AND, OR, presence, and each predicate;
what it cannot write is refused by name. Weights that a language has no place for are dropped: they never change what matches.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from matchwood.errors import ConversionError
from matchwood.geo import EARTH_RADIUS_M
from matchwood.lang.expression import And, Constant, Expression, Not, Or, Predicate
from matchwood.lang.list_predicates import Lists
from matchwood.lang.nested import Nested, with_names
from matchwood.lang.operators import ListOperator, Operator, Quantifier, Shape
from matchwood.lang.place_predicates import BBox, DWithin
from matchwood.lang.predicates import Between, Compare, In, IsNull
from matchwood.lang.temporal import Temporal, rewritten
from matchwood.lang.text_tests import Like, TextTest
from matchwood.schema import Scalar
from matchwood.schema.functions import is_derived

_OPPOSITES = {
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


def to_mongodb(expression: Expression) -> dict[str, Any]:
    """The condition of MongoDB that matches the same documents, for `json.dumps` (extended JSON). O(size).

    >>> from matchwood.lang.parser import parse
    >>> to_mongodb(parse("age > 18 AND city != 'Oslo'"))
    {'$and': [{'age': {'$gt': 18}}, {'$and': [{'city': {'$ne': None}}, {'$nor': [{'city': {'$eq': 'Oslo'}}]}]}]}
    """
    written: dict[str, Any] = _Mongo().written(expression)
    return written


def to_elasticsearch(expression: Expression) -> dict[str, Any]:
    """The query of Elasticsearch that matches the same documents, for `json.dumps`. O(size).

    >>> from matchwood.lang.parser import parse
    >>> to_elasticsearch(parse("age BETWEEN 18 AND 30 ^2"))
    {'range': {'age': {'gte': 18, 'lte': 30, 'boost': 2.0}}}
    """
    written: dict[str, Any] = _Elastic().written(expression)
    return written


def to_cesql(expression: Expression) -> str:
    """The filter of CloudEvents SQL that passes the same events, whose attributes are single values. O(size).

    >>> from matchwood.lang.parser import parse
    >>> print(to_cesql(parse("type = 'order' OR region IN ('eu', 'us')")))
    ((EXISTS type AND (type = 'order')) OR (EXISTS region AND (region IN ('eu', 'us'))))
    """
    written: str = _Cesql().written(expression)
    return written


class _Writer(ABC):
    """One language. Conditions are objects of JSON or text."""

    language = ""
    lists = True
    """Has an event lists? Then conditions that ask for one value cannot be joined."""

    def written(self, expression: Expression) -> Any:
        return self._walk(expression, False)[0]

    def _walk(self, tree: Expression, negated: bool) -> tuple[Any, set[str]]:
        """The condition, and the attributes of which it asks for one value."""
        if isinstance(tree, Not):
            return self._walk(tree.child, not negated)
        if isinstance(tree, Constant):
            return self.constant(tree.value is not negated), set()
        if isinstance(tree, (And, Or)):
            found = [self._walk(child, negated) for child in tree.children]
            names = Counter(name for _, asked in found for name in asked)
            is_and = isinstance(tree, And) is not negated
            twice = [name for name, count in names.items() if count > 1]
            if is_and and self.lists and twice:
                raise self.refusal(
                    f"conditions on one value of a list, {twice[0]!r},", f"write BETWEEN, or ANY({twice[0]}) in each"
                )
            return (self.all if is_and else self.any)([condition for condition, _ in found]), set(names)
        if isinstance(tree, Temporal):
            return self._walk(rewritten(tree, negated=negated), False)
        assert isinstance(tree, Predicate)
        return self._predicate(tree, negated)

    def _predicate(self, tree: Predicate, negated: bool) -> tuple[Any, set[str]]:
        if is_derived(tree.attribute) or tree.grade is not None or isinstance(tree, (Like, TextTest)):
            raise self.unknown(tree)
        name = self.name(tree.attribute)
        if isinstance(tree, Nested):
            return self._nested(name, tree, negated), set()
        if isinstance(tree, IsNull):
            return self.presence(name, tree.negated is not negated, tree.weight), set()
        excludes = negated
        if isinstance(tree, (Compare, Between, In)) and tree.quantifier is not None:
            return self._quantified(tree, negated), set()
        if (isinstance(tree, (Between, In)) and tree.negated) or (
            isinstance(tree, Compare) and tree.operator is Operator.NE
        ):
            excludes = not negated
            tree = _positive(tree)
        condition = self.predicate(name, tree)
        if excludes:
            return self.all([self.presence(name, True, 0.0), self.no(condition)]), set()
        asks = {tree.attribute} if isinstance(tree, (Compare, Between, In)) else set()
        return condition, asks

    def _nested(self, name: str, tree: Nested, negated: bool) -> Any:
        """A condition on a list of objects. ALL says that there is one, and none that does not meet the condition."""
        is_all = tree.quantifier is Quantifier.ALL
        found = self.some_element(name, tree, complement=is_all)
        if not is_all:
            return self.all([self.has_elements(name), self.no(found)]) if negated else found
        return found if negated else self.all([self.has_elements(name), self.no(found)])

    def some_element(self, name: str, tree: Nested, *, complement: bool) -> Any:
        """One element meets the condition, or does not meet it."""
        raise self.refusal(f"{tree}: a condition on a list of objects", "leave this condition to Matchwood")

    def has_elements(self, name: str) -> Any:
        """The list has an element."""
        return self.presence(name, True, 0.0)

    def _quantified(self, tree: Compare | Between | In, negated: bool) -> Any:
        name = self.name(tree.attribute)
        if tree.quantifier is Quantifier.ANY:
            if isinstance(tree, Compare) and tree.operator is Operator.NE:
                raise self.refusal(
                    f"{tree}: a test for some other value of a list", "test for the values that are wanted"
                )
            condition = self.predicate(name, tree)
            return self.all([self.presence(name, True, 0.0), self.no(condition)]) if negated else condition
        opposite = _OPPOSITES.get(tree.operator) if isinstance(tree, Compare) else None
        if opposite is None:
            raise self.refusal(
                f"{tree}: ALL with anything but <, <=, >, >=", "use NOT with the values that are not wanted"
            )
        assert isinstance(tree, Compare)
        other = self.predicate(name, Compare(tree.attribute, 0.0, operator=opposite, value=tree.value))
        return other if negated else self.all([self.presence(name, True, 0.0), self.no(other)])

    def refusal(self, construct: str, remedy: str) -> ConversionError:
        return ConversionError(f"{construct} cannot be written in {self.language}; {remedy}")

    def unknown(self, tree: Predicate) -> ConversionError:
        return self.refusal(str(tree), "leave this condition to Matchwood")

    def finite(self, value: Scalar) -> Scalar:
        if isinstance(value, float) and math.isinf(value):
            raise self.refusal("an infinite number", "leave this end of the range out")
        return value

    def name(self, name: str) -> str:
        return name

    @abstractmethod
    def constant(self, value: bool) -> Any: ...

    @abstractmethod
    def all(self, parts: list[Any]) -> Any: ...

    @abstractmethod
    def any(self, parts: list[Any]) -> Any: ...

    @abstractmethod
    def no(self, part: Any) -> Any: ...

    @abstractmethod
    def presence(self, name: str, present: bool, weight: float) -> Any: ...

    @abstractmethod
    def predicate(self, name: str, tree: Predicate) -> Any: ...


def _positive(tree: Compare | Between | In) -> Predicate:
    if isinstance(tree, Compare):
        return Compare(tree.attribute, tree.weight, operator=Operator.EQ, value=tree.value)
    if isinstance(tree, Between):
        return Between(tree.attribute, tree.weight, lo=tree.lo, hi=tree.hi)
    return In(tree.attribute, tree.weight, values=tree.values)


class _Mongo(_Writer):
    language = "MongoDB"
    names: ClassVar = {
        Operator.EQ: "$eq",
        Operator.LT: "$lt",
        Operator.LE: "$lte",
        Operator.GT: "$gt",
        Operator.GE: "$gte",
    }

    def name(self, name: str) -> str:
        if name.startswith("$") or any(part.isdigit() for part in name.split(".")):
            raise self.refusal(f"the name {name!r}, an operator or a position,", "rename the attribute")
        return name

    def constant(self, value: bool) -> Any:
        return {} if value else {"$nor": [{}]}

    def all(self, parts: list[Any]) -> Any:
        return {"$and": parts}

    def any(self, parts: list[Any]) -> Any:
        return {"$or": parts}

    def no(self, part: Any) -> Any:
        return {"$nor": [part]}

    def presence(self, name: str, present: bool, weight: float) -> Any:
        return {name: {"$ne": None}} if present else {name: None}

    def predicate(self, name: str, tree: Predicate) -> Any:
        match tree:
            case Compare(operator=operator, value=value):
                return {name: {self.names[operator]: self.value(value)}}
            case In(values=values):
                return {name: {"$in": [self.value(value) for value in values]}}
            case Lists(operator=ListOperator.CONTAINS, values=values):
                return {name: {"$all": [self.value(value) for value in values]}}
            case Lists(operator=ListOperator.OVERLAPS, values=values):
                return {name: {"$in": [self.value(value) for value in values]}}
            case Between():
                raise self.refusal(
                    f"{tree}, which one value of a list has to meet,",
                    f"write ANY({name}) >= ... AND ANY({name}) <= ...",
                )
            case DWithin(centre=centre, radius=radius, shape=Shape.CIRCLE):
                return {name: {"$geoWithin": {"$centerSphere": [list(centre), radius / EARTH_RADIUS_M]}}}
            case BBox(west=west, south=south, east=east, north=north) if west <= east:
                return {name: {"$geoWithin": {"$box": [[west, south], [east, north]]}}}
        raise self.unknown(tree)

    def some_element(self, name: str, tree: Nested, *, complement: bool) -> Any:
        condition = self.written(tree.condition)
        return {name: {"$elemMatch": self.no(condition) if complement else condition}}

    def value(self, value: Scalar) -> Any:
        if isinstance(value, datetime):
            return {"$date": value.isoformat().replace("+00:00", "Z")}
        return self.finite(value)


class _Elastic(_Writer):
    language = "Elasticsearch"
    ends: ClassVar = {Operator.LT: "lt", Operator.LE: "lte", Operator.GT: "gt", Operator.GE: "gte"}

    def name(self, name: str) -> str:
        if name in ("boost", "_name", "distance", "distance_type"):
            raise self.refusal(f"the name {name!r}, an option there,", "rename the attribute")
        return name

    def constant(self, value: bool) -> Any:
        return {"match_all": {}} if value else {"match_none": {}}

    def all(self, parts: list[Any]) -> Any:
        return {"bool": {"must": parts}}

    def any(self, parts: list[Any]) -> Any:
        return {"bool": {"should": parts, "minimum_should_match": 1}}

    def no(self, part: Any) -> Any:
        return {"bool": {"must_not": [part]}}

    def presence(self, name: str, present: bool, weight: float) -> Any:
        return {"exists": {"field": name, **_boost(weight)}} if present else self.no({"exists": {"field": name}})

    def predicate(self, name: str, tree: Predicate) -> Any:
        boost = _boost(tree.weight)
        match tree:
            case Compare(operator=Operator.EQ, value=value) if not isinstance(value, datetime):
                return {"term": {name: {"value": self.finite(value), **boost}}}
            case Compare(operator=Operator.EQ, value=value):
                return {"range": {name: {"gte": self.value(value), "lte": self.value(value), **boost}}}
            case Compare(operator=operator, value=value):
                return {"range": {name: {self.ends[operator]: self.value(value), **boost}}}
            case Between(lo=lo, hi=hi):
                return {"range": {name: {"gte": self.value(lo), "lte": self.value(hi), **boost}}}
            case In(values=values) | Lists(operator=ListOperator.OVERLAPS, values=values):
                if any(isinstance(value, datetime) for value in values):
                    raise self.refusal(f"{tree}: a list of times", "join several = with OR")
                return {"terms": {name: [self.finite(value) for value in values], **boost}}
            case Lists(operator=ListOperator.CONTAINS, values=values):
                if any(isinstance(value, datetime) for value in values):
                    raise self.refusal(f"{tree}: a list of times", "join several = with AND and ANY")
                return self.all([{"term": {name: {"value": self.finite(value)}}} for value in values])
            case DWithin(centre=centre, radius=radius, shape=Shape.CIRCLE):
                return {"geo_distance": {"distance": f"{Decimal(repr(float(radius))):f}m", name: list(centre), **boost}}
            case BBox(west=west, south=south, east=east, north=north):
                box = {"top": north, "left": west, "bottom": south, "right": east}
                return {"geo_bounding_box": {name: box, **boost}}
        raise self.unknown(tree)

    def some_element(self, name: str, tree: Nested, *, complement: bool) -> Any:
        condition = self.written(with_names(tree.condition, lambda own: f"{name}.{own}"))
        query = self.no(condition) if complement else condition
        return {"nested": {"path": name, "query": query, **_boost(tree.weight)}}

    def has_elements(self, name: str) -> Any:
        return {"nested": {"path": name, "query": {"match_all": {}}, **_boost(0.0)}}

    def value(self, value: Scalar) -> Any:
        if isinstance(value, (str, bool)):
            raise self.refusal(f"a range that ends at {value!r}", "compare numbers or timestamps")
        return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else self.finite(value)


def _boost(weight: float) -> dict[str, float]:
    return {} if weight == 1.0 else {"boost": weight}


class _Cesql(_Writer):
    language = "CloudEvents SQL"
    lists = False

    def name(self, name: str) -> str:
        if not re.fullmatch("[a-z0-9]+", name) or name.upper() in ("AND", "OR", "XOR", "NOT", "IN", "LIKE", "EXISTS"):
            raise self.refusal(f"the name {name!r}", "attributes there have lower-case letters and digits only")
        return name

    def constant(self, value: bool) -> Any:
        return "TRUE" if value else "FALSE"

    def all(self, parts: list[Any]) -> Any:
        return f"({' AND '.join(parts)})"

    def any(self, parts: list[Any]) -> Any:
        return f"({' OR '.join(parts)})"

    def no(self, part: Any) -> Any:
        return f"NOT ({part})"

    def presence(self, name: str, present: bool, weight: float) -> Any:
        return f"EXISTS {name}" if present else f"(NOT EXISTS {name})"

    def predicate(self, name: str, tree: Predicate) -> Any:
        """With a test for presence before it: reading an absent attribute would make the whole filter fail."""
        match tree:
            case Compare(operator=operator, value=value):
                if operator is not Operator.EQ and (isinstance(value, bool) or not isinstance(value, int)):
                    raise self.refusal(f"{tree}: an order of anything but integers", "compare integers")
                test = f"{name} {operator} {self.literal(value)}"
            case Between(lo=int() as lo, hi=int() as hi):
                test = f"{name} >= {self.literal(lo)} AND {name} <= {self.literal(hi)}"
            case In(values=values):
                test = f"{name} IN ({', '.join(map(self.literal, values))})"
            case _:
                raise self.unknown(tree)
        return f"(EXISTS {name} AND ({test}))"

    def literal(self, value: Scalar) -> str:
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int) and -(2**31) <= value < 2**31:
            return str(value)
        if isinstance(value, str):
            return "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"
        raise self.refusal(f"the constant {value!r}", "use strings, booleans and integers of 32 bits")
