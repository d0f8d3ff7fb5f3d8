"""The grammar of the text language (docs/language.md): the shape of a text -> a `Template`."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain, product
from operator import itemgetter
from typing import Any, NamedTuple

from matchwood.errors import ExpressionError
from matchwood.lang import template as read
from matchwood.lang import temporal_grammar
from matchwood.lang.expression import (
    KEYWORDS,
    MAX_DEPTH,
    And,
    BBox,
    Between,
    Compare,
    Constant,
    DWithin,
    Expression,
    In,
    IsNull,
    ListCount,
    ListOperator,
    Lists,
    Not,
    Operator,
    Or,
    Predicate,
    Quantifier,
    Shape,
    SpatialOperator,
    opposite,
    spatial,
)
from matchwood.lang.geometry import Geometry, GeometryType
from matchwood.lang.grammar_decay import read_decay
from matchwood.lang.template import CIRCLE, Leaf, Place, PlacedError, Step, Template
from matchwood.lang.text_tests import Like, TextOperator, TextTest
from matchwood.lang.tokens import Token, tokens_of
from matchwood.lang.units import METRES
from matchwood.lang.wkt import WORDS, coordinates_of
from matchwood.schema import Point
from matchwood.schema.functions import FUNCTIONS, derived_name, function_of, is_derived

_COMPARISONS = {"==": Operator.EQ, "<>": Operator.NE, **{operator.value: operator for operator in Operator}}
_PLAIN_CONVERTERS = frozenset(read.CONVERTERS.values())
_QUANTIFIERS = {quantifier.upper(): quantifier for quantifier in Quantifier}
_LIST_OPERATORS = {operator.upper(): operator for operator in ListOperator}
_TEXT_OPERATORS = {operator.upper(): operator for operator in TextOperator}
_SPATIAL_OPERATORS = {operator.upper(): operator for operator in SpatialOperator}
_FIXED_VALUES = {"TRUE": True, "FALSE": False, "INF": math.inf, "+INF": math.inf, "-INF": -math.inf}


_Values = Callable[[list[Any]], tuple[Any, ...]]
"""The values of a list, from those of a template."""


@dataclass(slots=True)
class _Group:
    """An open parenthesis (or the whole text): an OR of ANDs of nodes, and the NOTs before the next operand."""

    opening: Token
    terms: list[list[int]] = field(default_factory=lambda: [[]])
    nots: list[Token] = field(default_factory=list)


MAX_ROWS = 16
"""Rows of the normal form that a template knows."""


class _Condition(NamedTuple):
    """What makes a predicate: a step of the template, and the values that it uses, by index."""

    step: Step
    attribute: int
    weight: int
    form: str = ""
    """The operator, BETWEEN, IN or CIRCLE, if the condition consists of that and `values`."""
    values: tuple[int, ...] = ()
    negated: bool = False
    """Does a NOT go around the predicate?"""
    depth: int = 1
    """Levels of the tree that the step makes: more than one if it is not a single predicate."""


class Grammar:
    """Reads the tokens of one shape into a template.

        expression = term { OR term }
        term       = factor { AND factor }
        factor     = NOT factor | "(" expression ")" | TRUE | FALSE | predicate

    These three rules use a stack of groups instead of recursion, so that no text can exhaust Python's stack. Trees are limited to
    `MAX_DEPTH` levels, so that readers of a tree may recurse.
    """

    def __init__(self, shape: tuple[str, ...]) -> None:
        self.tokens = tokens_of(shape)
        self.at = 0
        self.converters = [read.CONVERTERS[kind] for kind in shape[0]]
        self.fixed: list[Any] = []
        self.computed: list[tuple[int, Callable[[list[Any]], Any]]] = []
        self.steps: list[Step] = []
        self.places: list[Place] = []
        self.depths: list[int] = []
        self.conditions: dict[int, _Condition] = {}
        self.joined: dict[int, tuple[type[And] | type[Or], list[int]]] = {}

    def template(self) -> Template:
        """The template of the shape; `PlacedError` if it is not of the grammar. O(tokens)."""
        self.expression()
        leaves, rows = self.leaves_and_rows()
        return Template(
            tuple(self.converters),
            tuple(self.fixed),
            tuple(self.steps),
            tuple(self.places),
            leaves,
            rows,
            tuple(self.computed),
        )

    def leaves_and_rows(self) -> tuple[tuple[Leaf, ...], tuple[tuple[int, ...], ...]]:
        """`leaves` and `rows` of the template; nothing if they are not known."""
        leaves = {node: leaf for node in self.conditions if (leaf := self.leaf(node)) is not None}
        if len(leaves) < len(self.conditions):
            return (), ()
        found = self.alternatives(len(self.steps) - 1, leaves)
        position = {node: at for at, node in enumerate(leaves)}
        rows = tuple([tuple([position[node] for node in row]) for row in found])
        return (tuple(leaves.values()), rows) if rows else ((), ())

    def leaf(self, node: int) -> Leaf | None:
        """The predicate that a step makes; None if its attribute is not known before the constants are."""
        condition, constants = self.conditions[node], len(self.converters)
        name = None if condition.attribute < constants else self.fixed[condition.attribute - constants]
        if name is None:  # a quoted name, which is a constant, or a function with an argument
            return None
        is_plain = condition.form == CIRCLE or (
            not is_derived(name) and all(map(self.is_plain_value, condition.values))
        )
        weight = condition.weight if condition.weight < constants else None
        return Leaf(name, condition.form if is_plain else "", condition.values, weight, node)

    def is_plain_value(self, index: int) -> bool:
        """Is it a constant as the text has it, TRUE or FALSE?"""
        constants = len(self.converters)
        if index < constants:
            return self.converters[index] in _PLAIN_CONVERTERS
        return isinstance(self.fixed[index - constants], bool)

    def alternatives(self, node: int, leaves: dict[int, Leaf]) -> list[tuple[int, ...]]:
        """The rows of a part of the expression, each as its leaves; none if normalising may merge, drop or unite some."""
        if node not in self.joined:
            return [(node,)] if node in leaves else []
        kind, children = self.joined[node]
        parts = [self.alternatives(child, leaves) for child in children]
        if not all(parts):
            return []
        if kind is Or:
            rows = [row for part in parts for row in part]
            together = tuple([row[0] for row in rows if len(row) == 1])  # alternatives on one attribute may unite
            return rows if len(rows) <= MAX_ROWS and _names_differ(together, leaves) else []
        if math.prod(map(len, parts)) > MAX_ROWS:
            return []
        rows = [tuple(chain.from_iterable(choice)) for choice in product(*parts)]
        return rows if all(_names_differ(row, leaves) for row in rows) else []

    def expression(self) -> None:
        if self.token.kind == "end":
            raise self.problem("expected an expression, got none; write TRUE to match every event")
        groups = [_Group(self.token)]
        while True:
            self.operand(groups)
            while self.takes(")"):
                if len(groups) == 1:
                    raise self.problem("this parenthesis was never opened", self.tokens[self.at - 1])
                self.add(groups[-2], self.close(groups.pop()))
            if self.takes("OR"):
                groups[-1].terms.append([])
            elif not self.takes("AND"):
                break
        if self.token.kind == "end" and len(groups) > 1:
            raise self.problem("this parenthesis is never closed", groups[-1].opening)
        if self.token.kind != "end":
            raise self.problem(self.why_not_after_operand(in_group=len(groups) > 1))
        self.close(groups.pop())

    def operand(self, groups: list[_Group]) -> None:
        """Everything up to and including the next predicate or constant: NOTs and opening parentheses come before it."""
        while True:
            token = self.token
            if self.takes("NOT"):
                groups[-1].nots.append(token)
            elif self.takes("("):
                groups.append(_Group(token))
                if len(groups) > MAX_DEPTH:
                    raise self.problem(f"parentheses nest more than {MAX_DEPTH} deep; use fewer", token)
            else:
                break
        if token.upper in ("TRUE", "FALSE") and self.tokens[self.at + 1].text not in _COMPARISONS:
            self.at += 1
            constant = Constant(token.upper == "TRUE")
            self.add(groups[-1], self.node(lambda values, nodes: constant, token))
        else:
            self.add(groups[-1], self.predicate())

    def add(self, group: _Group, node: int) -> None:
        """Put a finished operand under the NOTs before it and into the last term of the group."""
        for token in reversed(group.nots):
            node = self.negation(node, token)
        group.nots.clear()
        group.terms[-1].append(node)

    def close(self, group: _Group) -> int:
        terms = [self.join(And, term, group.opening) for term in group.terms]
        return self.join(Or, terms, group.opening)

    def join(self, kind: type[And] | type[Or], children: list[int], token: Token) -> int:
        if len(children) == 1:
            return children[0]
        chosen = itemgetter(*children)
        depth = 1 + max(self.depths[child] for child in children)
        node = self.node(lambda values, nodes: kind(chosen(nodes)), token, depth)
        self.joined[node] = kind, children
        return node

    def negation(self, child: int, token: Token) -> int:
        return self.node(lambda values, nodes: Not(nodes[child]), token, 1 + self.depths[child])

    def node(self, step: Step, token: Token, depth: int = 1) -> int:
        if depth > MAX_DEPTH:
            raise self.problem(f"the expression nests more than {MAX_DEPTH} levels deep; simplify it", token)
        self.steps.append(step)
        self.places.append(token.place)
        self.depths.append(depth)
        return len(self.steps) - 1

    def predicate(self) -> int:
        token = self.token
        if self.begins_call(temporal_grammar.FUNCTIONS):
            return self.node(temporal_grammar.temporal(self), token)
        condition = self.condition()
        if self.token.upper == "DECAY":
            condition = self.graded(condition)
        node = self.node(condition.step, token, condition.depth)
        if condition.negated:
            return self.negation(node, token)
        if condition.depth > 1:
            return node
        self.conditions[node] = condition
        return node

    def graded(self, condition: _Condition) -> _Condition:
        """The condition with the DECAY that follows it."""
        decay, make = read_decay(self), condition.step

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            made = make(values, nodes)
            if not isinstance(made, Predicate):
                raise ExpressionError("DECAY belongs to one predicate; this condition stands for several")
            return replace(made, grade=decay(values))

        return condition._replace(step=step, form="", values=())

    def condition(self) -> _Condition:
        if self.calls("DWITHIN"):
            return self.dwithin()
        if self.calls("BBOX"):
            return self.bbox()
        if self.begins_call(_SPATIAL_OPERATORS):
            return self.spatial()
        if self.begins_call(_LIST_OPERATORS):
            return self.lists()
        if self.calls("A_COUNT"):
            return self.list_count()
        if self.begins_call(_TEXT_OPERATORS):
            return self.text_test()
        if self.begins_value():
            value = self.value()
            if self.token.upper in ("BETWEEN", "IN", "IS", "NOT"):
                word = self.token.upper
                raise self.problem(
                    f"{word} needs the name of an attribute on its left, not a value; write x {word} ..."
                )
            operator = self.comparison(f"expected a comparison after a value{_unsupported(self.token)}").mirrored
            return self.compare(*self.subject(), operator, value)
        attribute, quantifier = self.subject()
        if self.token.text in _COMPARISONS:
            operator = self.comparison("")
            return self.compare(attribute, quantifier, operator, self.value())
        if quantifier is None and self.takes("IS"):
            return self.is_null(attribute)
        if quantifier is None and self.ends_operand():  # a bool by itself
            return self.compare(attribute, None, Operator.EQ, self.constant(True))
        negated = self.takes("NOT")
        if self.takes("BETWEEN"):
            return self.between(attribute, quantifier, negated)
        if self.takes("IN"):
            return self.is_in(attribute, quantifier, negated)
        if self.takes("LIKE"):
            return self.like(attribute, quantifier, negated)
        expected = "BETWEEN, IN or LIKE after NOT"
        if not negated:
            expected = "=, !=, <, <=, >, >=, BETWEEN, IN, LIKE or IS NULL after the name"
        raise self.problem(f"expected {expected}, got {self.token}{_unsupported(self.token)}")

    def subject(self) -> tuple[int, Quantifier | None]:
        """The attribute of a condition, and its quantifier."""
        if not self.begins_call(_QUANTIFIERS):
            return self.attribute(), None
        quantifier = _QUANTIFIERS[self.token.upper]
        self.at += 2
        attribute = self.attribute()
        self.expect(")", f"after the name in {quantifier.upper()}")
        return attribute, quantifier

    def compare(self, attribute: int, quantifier: Quantifier | None, operator: Operator, value: int) -> _Condition:
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            return Compare(
                values[attribute], values[weight], operator=operator, value=values[value], quantifier=quantifier
            )

        return _Condition(step, attribute, weight, "" if quantifier else operator.value, (value,))

    def lists(self) -> _Condition:
        operator = _LIST_OPERATORS[self.token.upper]
        self.at += 2
        is_mirrored = self.token.text == "("
        attribute, listed = (self.list_and_attribute if is_mirrored else self.attribute_and_list)(operator.upper())
        operator = operator.mirrored if is_mirrored else operator
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            return Lists(values[attribute], values[weight], operator=operator, values=listed(values))

        return _Condition(step, attribute, weight)

    def list_count(self) -> _Condition:
        attribute, listed = self.attribute_and_list("A_COUNT")
        operator = self.comparison("expected a comparison after A_COUNT(...)")
        count = self.value()
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            return ListCount(
                values[attribute], values[weight], values=listed(values), operator=operator, count=values[count]
            )

        return _Condition(step, attribute, weight)

    def attribute_and_list(self, function: str) -> tuple[int, _Values]:
        """The arguments of a test of lists, and the parenthesis behind them."""
        attribute = self.attribute()
        self.expect(",", f"and a list of values after the name in {function}")
        listed = self.listed(function)
        self.expect(")", f"at the end of {function}")
        return attribute, listed

    def list_and_attribute(self, function: str) -> tuple[int, _Values]:
        """The same with the list first."""
        listed = self.listed(function)
        self.expect(",", f"and the name of an attribute after the list in {function}")
        if self.token.text == "(":
            raise self.problem(f"expected the name of an attribute in {function}, got a second list")
        attribute = self.attribute()
        self.expect(")", f"at the end of {function}")
        return attribute, listed

    def listed(self, function: str) -> _Values:
        slots, is_list = self.list_of_values(f"before the list of {function}", f"in the list of {function}")
        return itemgetter(slots[0]) if is_list else lambda values: tuple([values[slot] for slot in slots])

    def list_of_values(self, before: str, where: str) -> tuple[list[int], bool]:
        """The values of a list in parentheses; or the one constant that is the list as a whole, and True."""
        if self.token.kind == "l":
            self.at += 1
            return [self.tokens[self.at - 1].slot], True
        self.expect("(", before)
        if self.token.text == ")":
            raise self.problem(f"expected at least one value {where}")
        members = [self.value()]
        while self.takes(","):
            members.append(self.value())
        self.expect(")", f"or , {where}")
        return members, False

    def between(self, attribute: int, quantifier: Quantifier | None, negated: bool) -> _Condition:
        lo = self.value()
        self.expect("AND", "between the two ends of BETWEEN")
        hi = self.value()
        weight = self.weight()
        around, negated, quantifier = _moved_out(negated, quantifier)

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            ends = {"lo": values[lo], "hi": values[hi]}
            return Between(values[attribute], values[weight], **ends, negated=negated, quantifier=quantifier)

        return _Condition(step, attribute, weight, "" if negated or quantifier else "BETWEEN", (lo, hi), around)

    def is_in(self, attribute: int, quantifier: Quantifier | None, negated: bool) -> _Condition:
        slots, is_list = self.list_of_values("after IN", "in IN (...)")
        weight = self.weight()
        around, negated, quantifier = _moved_out(negated, quantifier)

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            chosen = values[slots[0]] if is_list else tuple([values[slot] for slot in slots])
            return In(values[attribute], values[weight], values=chosen, negated=negated, quantifier=quantifier)

        return _Condition(step, attribute, weight, "" if negated or quantifier else "IN", tuple(slots), around)

    def like(self, attribute: int, quantifier: Quantifier | None, negated: bool) -> _Condition:
        pattern = self.text("a pattern in single quotes after LIKE")
        weight = self.weight()
        around, negated, quantifier = _moved_out(negated, quantifier)

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            return Like(
                values[attribute], values[weight], pattern=values[pattern], negated=negated, quantifier=quantifier
            )

        return _Condition(step, attribute, weight, negated=around)

    def text_test(self) -> _Condition:
        operator = _TEXT_OPERATORS[self.token.upper]
        self.at += 2
        attribute, quantifier = self.subject()
        self.expect(",", f"and a string after the name in {operator.upper()}")
        argument = self.text(f"a string in single quotes in {operator.upper()}")
        self.expect(")", f"at the end of {operator.upper()}")
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            return TextTest(
                values[attribute], values[weight], operator=operator, argument=values[argument], quantifier=quantifier
            )

        return _Condition(step, attribute, weight)

    def text(self, expected: str) -> int:
        """A string, or a function of one."""
        if self.token.kind != "s" and not self.begins_folded():
            raise self.problem(f"expected {expected}, got {self.token}")
        return self.value()

    def is_null(self, attribute: int) -> _Condition:
        negated = self.takes("NOT")
        if self.token.upper in ("TRUE", "FALSE"):
            return self.is_true(attribute, negated)
        self.expect("NULL", "after IS; compare with a value by =")
        weight = self.weight()
        return _Condition(
            lambda values, nodes: IsNull(values[attribute], values[weight], negated=negated), attribute, weight
        )

    def is_true(self, attribute: int, negated: bool) -> _Condition:
        """`x IS TRUE` is `x = TRUE`; `x IS NOT TRUE` also holds for an absent attribute, as in SQL."""
        asked = self.token.upper == "TRUE"
        self.at += 1
        if not negated:
            return self.compare(attribute, None, Operator.EQ, self.constant(asked))
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            other = Compare(values[attribute], values[weight], operator=Operator.EQ, value=not asked)
            return Or((other, IsNull(values[attribute], values[weight])))

        return _Condition(step, attribute, weight, depth=2)

    def dwithin(self) -> _Condition:
        attribute = self.place_attribute()
        if not self.calls("POINT"):
            raise self.problem(f"expected a centre such as POINT(-73.98 40.75), got {self.token}")
        lon = self.number(read.longitude, "a longitude")
        if self.token.text == ",":
            raise self.problem("unexpected ','; a point's longitude and latitude are separated by a space")
        lat = self.number(read.latitude, "a latitude")
        self.expect(")", "after the point's latitude")
        self.expect(",", "and a radius after the centre")
        radius = self.radius()
        shape = Shape.CIRCLE
        if self.takes(","):
            if self.token.upper not in ("CIRCLE", "SQUARE"):
                raise self.problem(f"expected CIRCLE or SQUARE, got {self.token}")
            shape = Shape(self.token.text.lower())
            self.at += 1
        self.expect(")", "at the end of DWITHIN")
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            centre = Point(values[lon], values[lat])
            return DWithin(values[attribute], values[weight], centre=centre, radius=values[radius], shape=shape)

        form = CIRCLE if shape is Shape.CIRCLE else ""
        return _Condition(step, attribute, weight, form, (lon, lat, radius))

    def radius(self) -> int:
        radius = self.number(read.weight, "a radius such as 1 km")
        unit = "m"
        if self.token.kind == "w":
            unit = self.token.text.lower()
            if unit not in METRES:
                raise self.problem(f"expected one of the units {', '.join(METRES)}, got {self.token}")
            self.at += 1
        self.converters[radius] = partial(read.metres, unit=unit)
        return radius

    def bbox(self) -> _Condition:
        attribute = self.place_attribute()
        west, south, east, north = self.borders()
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            sides = {"west": values[west], "south": values[south], "east": values[east], "north": values[north]}
            return BBox(values[attribute], values[weight], **sides)

        return _Condition(step, attribute, weight)

    def borders(self) -> tuple[int, int, int, int]:
        """The sides of a box, and the parenthesis behind them."""
        west = self.number(read.longitude, "the west border")
        self.expect(",", "after the west border")
        south = self.number(read.latitude, "the south border")
        self.expect(",", "after the south border")
        east = self.number(read.longitude, "the east border")
        self.expect(",", "after the east border")
        north = self.number(read.latitude, "the north border")
        self.expect(")", "at the end of BBOX")
        return west, south, east, north

    def spatial(self) -> _Condition:
        """A spatial function of an attribute and a geometry, in either order."""
        function = self.token.upper
        operator = _SPATIAL_OPERATORS[function]
        self.at += 2
        if self.begins_geometry():
            geometry = self.geometry()
            self.expect(",", f"and an attribute after the geometry in {function}")
            attribute, operator = self.attribute(), operator.mirrored
        else:
            attribute = self.attribute()
            self.expect(",", f"and a geometry after the name in {function}")
            if not self.begins_geometry():
                raise self.problem(_why_no_geometry(self.token))
            geometry = self.geometry()
        self.expect(")", f"at the end of {function}")
        weight = self.weight()

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            return spatial(values[attribute], values[weight], operator, geometry(values))

        return _Condition(step, attribute, weight)

    def begins_geometry(self) -> bool:
        return self.token.upper in WORDS or self.begins_call(("BBOX",))

    def geometry(self) -> Callable[[list[Any]], Geometry]:
        """A geometry as WKT or BBOX(...): what makes it from the values of the template."""
        if self.calls("BBOX"):
            borders = itemgetter(*self.borders())
            return lambda values: Geometry(GeometryType.BBOX, borders(values))
        word = self.token
        type_ = WORDS[word.upper]
        self.at += 1
        self.takes("Z")
        if self.token.kind == "l":  # all coordinates are one constant
            slot = self.token.slot
            self.at += 1
            self.converters[slot] = partial(coordinates_of, type_=type_)
            return lambda values: Geometry(type_, values[slot])
        if self.takes("EMPTY"):
            raise self.problem(f"an empty {word.upper} contains no place; leave the condition out", word)
        if type_ not in (GeometryType.POINT, GeometryType.COLLECTION) or self.token.text != "(":
            raise self.why_no_coordinates(word)
        self.at += 1
        if type_ is GeometryType.POINT:
            slots = [self.number(read.degrees, "a longitude"), self.number(read.degrees, "a latitude")]
            if self.token.kind == "n":  # the altitude, which is left out
                self.at += 1
            self.expect(")", "after the point's latitude")
            return lambda values: Geometry(type_, tuple([values[slot] for slot in slots]))
        members = [self.member()]
        while self.takes(","):
            members.append(self.member())
        self.expect(")", "or , in GEOMETRYCOLLECTION")
        return lambda values: Geometry(type_, tuple([member(values) for member in members]))

    def member(self) -> Callable[[list[Any]], Geometry]:
        """A member of a collection, which is not one itself."""
        if not self.begins_geometry() or self.token.upper == "GEOMETRYCOLLECTION":
            raise self.problem(f"expected a geometry such as POINT(4.35 50.85), got {self.token}")
        return self.geometry()

    def why_no_coordinates(self, word: Token) -> PlacedError:
        """The first token that cannot be part of coordinates."""
        while self.token.kind == "n" or self.token.text in ("(", ")", ","):
            self.at += 1
        example = "(0 0, 1 0, 0 1, 0 0)" if "LINE" in word.upper or "POINT" in word.upper else "((0 0, 1 0, 0 1, 0 0))"
        return self.problem(f"expected the coordinates of a {word.upper} such as {example}, got {self.token}")

    def place_attribute(self) -> int:
        attribute = self.attribute()
        self.expect(",", "after the name")
        return attribute

    def attribute(self) -> int:
        """A name, or functions of a name: the index of the attribute."""
        if not self.begins_call(FUNCTIONS):
            return self.plain_attribute()
        function = self.token.upper
        self.at += 2
        attribute, argument = self.attribute(), None
        if self.takes(","):
            argument = self.argument_of(function)
        self.expect(")", f"after the name in {function}")
        if argument is None:
            return self.converted(attribute, partial(derived_name, function))
        index = self.constant(None)
        self.computed.append((index, lambda values: derived_name(function, values[attribute], values[argument])))
        return index

    def argument_of(self, function: str) -> int:
        """The second argument of a function of an attribute: another attribute for AGE, a string for others."""
        if function == "AGE":
            return self.plain_attribute()
        token = self.token
        if token.kind != "s":
            raise self.problem(f"expected a string in single quotes as the second argument of {function}, got {token}")
        self.at += 1
        return token.slot

    def converted(self, index: int, function: Callable[[Any], Any]) -> int:
        """The index of a value with a function applied to it."""
        if index >= len(self.converters):
            return self.constant(function(self.fixed[index - len(self.converters)]))
        convert = self.converters[index]
        self.converters[index] = lambda text: function(convert(text))
        return index

    def plain_attribute(self) -> int:
        token = self.token
        if token.kind == "q":
            self.at += 1
            return token.slot
        if token.kind == "w" and token.upper not in KEYWORDS:
            if self.is_called():
                raise self.problem(f"functions are not supported, got {token.text}(...); compare the attribute itself")
            self.at += 1
            return self.constant(token.text)
        remedy = f'; a name that is a keyword needs double quotes: "{token.text}"' if token.kind == "w" else ""
        if token.text == "(":
            remedy = f"; {_NESTED}"
        elif token.kind in "ns":
            remedy = "; a condition compares an attribute with a constant, not two constants"
        raise self.problem(f"expected the name of an attribute, got {token}{remedy}")

    def begins_value(self) -> bool:
        token = self.token
        called = token.upper in ("TIMESTAMP", "DATE") and self.tokens[self.at + 1].text == "("
        return token.kind in "ns" or token.upper in _FIXED_VALUES or called or self.begins_folded()

    def begins_folded(self) -> bool:
        """Is it a function of a constant, such as CASEI('a')?"""
        at = self.at
        while self.tokens[at].upper in FUNCTIONS and self.tokens[at + 1].text == "(":
            at += 2
        return at > self.at and self.tokens[at].kind == "s"

    def folded(self) -> int:
        """A function of a constant: the constant with the function applied to it."""
        name = self.token.upper
        function = function_of(name)
        if not function.folds_constants:
            raise self.problem(f"{name} of a constant is not supported; write its result")
        self.at += 2
        value = self.value()
        self.expect(")", f"after the constant in {name}")
        return self.converted(value, function.call)

    def value(self) -> int:
        token = self.token
        if not self.begins_value():
            if token.kind == "w" and token.upper not in KEYWORDS and self.is_called():
                raise self.problem(f"functions are not supported, got {token.text}(...); write a constant")
            raise self.problem(_why_no_value(token))
        if self.begins_folded():
            return self.folded()
        if self.calls("TIMESTAMP", "DATE"):
            return self.text_of_instant(read.timestamp if token.upper == "TIMESTAMP" else read.midnight)
        self.at += 1
        return token.slot if token.kind in "ns" else self.constant(_FIXED_VALUES[token.upper])

    def text_of_instant(self, convert: Callable[[str], datetime]) -> int:
        token = self.token
        if token.kind != "s":
            raise self.problem(f"expected a timestamp in single quotes, '2026-01-31T12:00:00Z', got {token}")
        self.at += 1
        self.expect(")", "after the timestamp")
        self.converters[token.slot] = convert
        return token.slot

    def number(self, convert: Callable[[str], float], what: str) -> int:
        token = self.token
        if token.kind != "n":
            raise self.problem(f"expected {what}, got {token}")
        self.at += 1
        self.converters[token.slot] = convert
        return token.slot

    def weight(self) -> int:
        return self.number(read.weight, "a weight such as ^0.4") if self.takes("^") else self.constant(1.0)

    def comparison(self, expected: str) -> Operator:
        operator = _COMPARISONS.get(self.token.text)
        if operator is None:
            raise self.problem(f"{expected}, got {self.token}")
        self.at += 1
        return operator

    def constant(self, value: object) -> int:
        """The index of a value that the shape itself holds: these follow the constants of the text."""
        self.fixed.append(value)
        return len(self.converters) + len(self.fixed) - 1

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def ends_operand(self) -> bool:
        """Is the operand complete before this token?"""
        return self.token.kind == "end" or self.token.upper in ("AND", "OR", ")", "^")

    def takes(self, text: str) -> bool:
        """Step over the next token if it is the operator or keyword `text`."""
        found = self.token.upper == text
        self.at += found
        return found

    def is_called(self) -> bool:
        """Does a parenthesis follow this token?"""
        following = self.tokens[self.at + 1]
        return following.text == "(" or following.kind == "l"

    def begins_call(self, functions: Container[str]) -> bool:
        """Are the next two tokens one of `functions` and its parenthesis?"""
        return self.token.upper in functions and self.tokens[self.at + 1].text == "("

    def calls(self, *functions: str) -> bool:
        """Step over the next two tokens if they are one of `functions` and its parenthesis."""
        found = self.begins_call(functions)
        self.at += 2 * found
        return found

    def expect(self, text: str, where: str) -> None:
        if not self.takes(text):
            raise self.problem(f"expected {text} {where}, got {self.token}")

    def problem(self, message: str, token: Token | None = None) -> PlacedError:
        return PlacedError(message, (token or self.token).place)

    def why_not_after_operand(self, *, in_group: bool) -> str:
        if self.token.text in _COMPARISONS:
            return "comparisons do not chain; join them with AND or use BETWEEN"
        if self.token.upper == "DECAY":
            return "DECAY belongs to a predicate and stands once, right after its weight: a <= 1 ^0.4 DECAY(...)"
        if self.token.text == "^":
            return "a weight belongs to a predicate and stands once, right after it: a = 1 ^0.4"
        end = ")" if in_group else "the end of the text"
        return f"expected AND, OR or {end}, got {self.token}{_unsupported(self.token)}"


def _moved_out(negated: bool, quantifier: Quantifier | None) -> tuple[bool, bool, Quantifier | None]:
    """(Does a NOT go around the predicate?, is it negated itself?, its quantifier), of a condition with NOT and a quantifier."""
    if quantifier is None or not negated:
        return False, negated, quantifier
    return True, False, opposite(quantifier)


_NESTED = "arithmetic is not supported, nor is a comparison with another attribute or a condition"


def _why_no_geometry(token: Token) -> str:
    if token.kind in "wq" and token.upper not in KEYWORDS:
        expected = "expected a geometry such as POLYGON((0 0, 1 0, 0 1, 0 0))"
        return f"{expected}, got the name {token}; two attributes cannot be compared"
    return f"expected a geometry such as POLYGON((0 0, 1 0, 0 1, 0 0)) or BBOX(-10, 35, 30, 60), got {token}"


def _unsupported(token: Token) -> str:
    """What to say about a token that other languages allow after an operand."""
    if token.kind == "n" or token.upper in ("DIV", "MOD", "^"):
        return "; arithmetic is not supported"
    if token.upper in ("ILIKE", "RLIKE", "REGEXP", "SIMILAR", "CONTAINS", "STARTSWITH"):
        return "; write CASEI(x) LIKE 'a%', STARTS_WITH(x, 'a'), ENDS_WITH, CONTAINS or REGEX(x, '^a')"
    return ""


def _why_no_value(token: Token) -> str:
    if token.upper == "NULL":
        return "NULL is not a value; write IS NULL or IS NOT NULL"
    if token.kind == "q":
        return "expected a value, got a quoted name; double quotes are for attributes, write a string in single quotes"
    if token.kind == "w" and token.upper not in KEYWORDS:
        string = f"write a string in single quotes, '{token.text}'"
        return f"expected a value, got the name {token}; {string}; comparing two attributes is not supported"
    if token.text == "(":
        return f"expected a value, got {token}; {_NESTED}"
    return f"expected a value (a number, a 'string', TRUE, FALSE, TIMESTAMP('...')), got {token}"


def _names_differ(nodes: tuple[int, ...], leaves: dict[int, Leaf]) -> bool:
    return len({leaves[node].attribute for node in nodes}) == len(nodes)
