r"""Text -> Expression.

    text                  "age > 31 AND city = 'Oslo' ^0.4"
      | split             one regular expression lifts the constants out
    shape, constants      ("nsn", "age > ", " AND city = ", " ^", "")    ["31", "'Oslo'", "0.4"]
      | _plan             the grammar, read once a shape and cached
    Plan                  a straight-line program over the constants
      | build
    Expression

Real systems hold few shapes and many constants, so the grammar is hardly ever run: a known shape costs the split, one
dictionary lookup and the making of the nodes. There is no second grammar for the fast path: a plan is a function of the shape
alone, and what depends on the constants (timestamps, signs of weights, sizes of radii) is checked by `Plan.build`, whether the
plan is new or not.

Positions are kept as (piece, offset) in the split text and become an index into the text only when an error is raised.

Any number of threads may parse at the same time: plans are immutable, and `lru_cache` locks itself.
"""

from __future__ import annotations

import re
from functools import lru_cache

from matchwood.errors import ExpressionError
from matchwood.lang.expression import Expression
from matchwood.lang.grammar import Grammar
from matchwood.lang.plan import PlacedError, Plan
from matchwood.schema import describe

# One character class comes first, since that lets the search skip everything else at the speed of C (9 us -> 4 us a text); the
# look-behinds then tell what that character began. Possessive quantifiers (`*+`) find a string that never ends in linear time.
_CONSTANTS = re.compile(
    r"""( ['"+\-.0-9]
          (?: (?<=') [^']*+ (?: '' [^']*+ )*+ '
            | (?<=") [^"]*+ (?: "" [^"]*+ )*+ "
            | (?: (?<=[0-9]) (?<! [\w.]. ) [0-9]*+ (?: \.[0-9]*+ )?
                | (?<=[+-]) (?: [0-9]++ (?: \.[0-9]*+ )? | \.[0-9]++ )
                | (?<=\.) (?<! [\w.]. ) [0-9]++
              ) (?: [eE][+-]?[0-9]++ )?
          )
        )""",
    re.ASCII | re.VERBOSE,
)
_KINDS = str.maketrans({"'": "s", '"': "q", **dict.fromkeys("+-.0123456789", "n")})
_CACHED_SHAPES = 4096
_CACHED_LENGTH = 4096
"""Longer texts are planned anew each time: they are rare, seldom repeat, and would make the cache's size a matter of luck."""


def parse(text: str) -> Expression:
    """The expression that `text` says; `ParseError` with position and caret if it is not of the grammar (docs/language.md).

    O(length). About 20 us for six predicates of a shape seen before, five times that for a new one.

    >>> parse("age BETWEEN 22 AND 36 ^0.4")
    Between(attribute='age', weight=0.4, lo=22, hi=36, negated=False)
    >>> print(parse("not (a=1 and b=2) or 5<c"))
    NOT (a = 1 AND b = 2) OR c > 5
    >>> parse("age = NULL")
    Traceback (most recent call last):
    ...
    matchwood.errors.ParseError: NULL is no value; write IS NULL or IS NOT NULL at position 6
      age = NULL
            ^
    """
    if not isinstance(text, str):
        raise ExpressionError(f"expected the text of an expression, got {describe(text)}")
    pieces = _CONSTANTS.split(text)
    constants = pieces[1::2]
    shape = ("".join([constant[0] for constant in constants]).translate(_KINDS), *pieces[::2])
    try:
        plan = _plan(shape) if len(text) <= _CACHED_LENGTH else _plan.__wrapped__(shape)
    except PlacedError as error:
        raise error.within(text, pieces) from None
    try:
        return plan.build(constants)
    except ExpressionError:
        raise plan.first_error(constants).within(text, pieces) from None


def without_numbers(text: str) -> str:
    """The text with 0 for each number. Texts that are equal then name the same attributes, types and strings.

    O(length), a fifth of the cost of `parse`.

    >>> without_numbers("price <= 12.5 ^0.4 AND item = 'size 5' AND d1 > -3")
    "price <= 0 ^0 AND item = 'size 5' AND d1 > 0"
    """
    pieces = _CONSTANTS.split(text)
    pieces[1::2] = [constant if constant[0] in "'\"" else "0" for constant in pieces[1::2]]
    return "".join(pieces)


@lru_cache(_CACHED_SHAPES)
def _plan(shape: tuple[str, ...]) -> Plan:
    """The plan of a shape: the kinds of its constants, then the text between them. Errors are not cached."""
    return Grammar(shape).plan()
