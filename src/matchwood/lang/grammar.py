"""The grammar of the text language (docs/language.md): the shape of a text -> a `Template`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import chain, product
from operator import itemgetter
from typing import Any

from matchwood.errors import ExpressionError
from matchwood.lang import template as read
from matchwood.lang import temporal_grammar
from matchwood.lang.expression import MAX_DEPTH, And, Constant, Expression, Not, Or, Predicate
from matchwood.lang.grammar_conditions import read_condition
from matchwood.lang.grammar_decay import read_decay
from matchwood.lang.nested import Nested
from matchwood.lang.operands import COMPARISONS, QUANTIFIERS, Condition, Operands, unsupported
from matchwood.lang.operators import Quantifier
from matchwood.lang.template import CIRCLE, Leaf, Place, Step, Template
from matchwood.lang.tokens import Token
from matchwood.schema.functions import is_derived

_PLAIN_CONVERTERS = frozenset(read.CONVERTERS.values())
MAX_ROWS = 16
"""Rows of the normal form that a template knows."""


@dataclass(slots=True)
class _Group:
    """An open parenthesis (or the whole text): an OR of ANDs of nodes, and the NOTs before the next operand.

    That of ANY(items, ...) and ALL(items, ...) has the quantifier and the index of the attribute.
    """

    opening: Token
    quantifier: Quantifier | None = None
    attribute: int = 0
    terms: list[list[int]] = field(default_factory=lambda: [[]])
    nots: list[Token] = field(default_factory=list)


class Grammar(Operands):
    """Reads the tokens of one shape into a template.

        expression = term { OR term }
        term       = factor { AND factor }
        factor     = NOT factor | "(" expression ")" | nested | TRUE | FALSE | predicate
        nested     = ( ANY | ALL ) "(" name "," expression ")" [ "^" number ]

    These rules use a stack of groups instead of recursion, so that no text can exhaust Python's stack. Trees are limited to
    `MAX_DEPTH` levels, so that readers of a tree may recurse.
    """

    def __init__(self, shape: tuple[str, ...]) -> None:
        super().__init__(shape)
        self.steps: list[Step] = []
        self.places: list[Place] = []
        self.depths: list[int] = []
        self.conditions: dict[int, Condition] = {}
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
                group = groups.pop()
                node = self.close(group)
                self.add(groups[-1], node if group.quantifier is None else self.nested(group, node))
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
            elif self.takes("(") or self.begins_nested():
                groups.append(_Group(token) if token.text == "(" else self.opened(token))
                if len(groups) > MAX_DEPTH:
                    raise self.problem(f"parentheses nest more than {MAX_DEPTH} deep; use fewer", token)
            else:
                break
        if token.upper in ("TRUE", "FALSE") and self.tokens[self.at + 1].text not in COMPARISONS:
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

    def begins_nested(self) -> bool:
        """Are the next tokens ANY or ALL, a parenthesis, a name and a comma?"""
        following = self.tokens[self.at + 2 : self.at + 4] if self.begins_call(QUANTIFIERS) else []
        return len(following) == 2 and following[0].kind in "wq" and following[1].text == ","

    def opened(self, token: Token) -> _Group:
        """The group of a condition on elements, up to the comma."""
        self.at += 2
        attribute = self.plain_attribute()
        self.at += 1
        if self.token.text == ")":
            raise self.problem(f"expected a condition on the objects of the list in {token.upper}, got )")
        return _Group(token, QUANTIFIERS[token.upper], attribute)

    def nested(self, group: _Group, child: int) -> int:
        """The node of a condition on elements, whose parenthesis has been closed."""
        quantifier, attribute, weight = group.quantifier, group.attribute, self.weight()
        assert quantifier is not None

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            return Nested(values[attribute], values[weight], condition=nodes[child], quantifier=quantifier)

        return self.node(step, group.opening, 1 + self.depths[child])

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
        condition = read_condition(self)
        if self.token.upper == "DECAY":
            condition = self.graded(condition)
        node = self.node(condition.step, token, condition.depth)
        if condition.negated:
            return self.negation(node, token)
        if condition.depth > 1:
            return node
        self.conditions[node] = condition
        return node

    def graded(self, condition: Condition) -> Condition:
        """The condition with the DECAY that follows it."""
        decay, make = read_decay(self), condition.step

        def step(values: list[Any], nodes: list[Expression]) -> Expression:
            made = make(values, nodes)
            if not isinstance(made, Predicate):
                raise ExpressionError("DECAY belongs to one predicate; this condition stands for several")
            return replace(made, grade=decay(values))

        return condition._replace(step=step, form="", values=())

    def why_not_after_operand(self, *, in_group: bool) -> str:
        if self.token.text in COMPARISONS:
            return "comparisons do not chain; join them with AND or use BETWEEN"
        if self.token.upper == "DECAY":
            return "DECAY belongs to a predicate and stands once, right after its weight: a <= 1 ^0.4 DECAY(...)"
        if self.token.text == "^":
            return "a weight belongs to a predicate and stands once, right after it: a = 1 ^0.4"
        end = ")" if in_group else "the end of the text"
        return f"expected AND, OR or {end}, got {self.token}{unsupported(self.token)}"


def _names_differ(nodes: tuple[int, ...], leaves: dict[int, Leaf]) -> bool:
    return len({leaves[node].attribute for node in nodes}) == len(nodes)
