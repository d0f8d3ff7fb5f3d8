r"""Text -> Expression.

    text                  "age > 31 AND city = 'Oslo' ^0.4"
      | split             one regular expression lifts the constants out; a list of numbers or of strings is one constant
    shape, constants      ("nsn", "age > ", " AND city = ", " ^", "")    ["31", "'Oslo'", "0.4"]
      | _template         the grammar, run once for each shape and cached
    Template              a straight-line program over the constants
      | build
    Expression

Most systems have few shapes and many constants, so the grammar is rarely run: a known shape costs the split, one dictionary
lookup and the construction of the nodes. There is one grammar for both paths: a template is a function of the shape alone, and
what depends on the constants (timestamps, weights, radii) is checked by `Template.build`.

Places are (piece, offset) in the split text; they are turned into a position in the text only for an error.

Any number of threads may parse at the same time: templates are immutable, and `lru_cache` locks itself.
"""

from __future__ import annotations

import re
from functools import lru_cache

from matchwood.errors import ExpressionError
from matchwood.lang.expression import Expression
from matchwood.lang.grammar import Grammar
from matchwood.lang.limits import DEFAULT_LIMITS, Limits
from matchwood.lang.template import PlacedError, Template
from matchwood.schema import describe

_NUMBER = r"[+-]?+ (?: [0-9]++ (?: \.[0-9]*+ )?+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+"
_COORDINATES = r"[-+.,0-9eE\s]*+"
"""Of LINESTRING, POLYGON and the like: all that is between the parentheses that nest in them is one constant."""
_STRING = r"' [^']*+ (?: '' [^']*+ )*+ '"

# One character class comes first, so that the search skips everything else in C; the look-behinds then decide what that
# character begins. Possessive quantifiers (`*+`) detect a string that is never closed in linear time.
_CONSTANTS = re.compile(
    rf"""( ['"+\-.0-9(]
          (?: (?<=') [^']*+ (?: '' [^']*+ )*+ '
            | (?<=") [^"]*+ (?: "" [^"]*+ )*+ "
            | (?: (?<=[iI][nN]\() | (?<=[iI][nN][ ]\() )
              \s*+ (?: {_NUMBER} (?: \s*+ , \s*+ {_NUMBER} )++ | {_STRING} (?: \s*+ , \s*+ {_STRING} )++ ) \s*+ \)
            | (?: (?<=[gGzZ]\() | (?<=[gGzZ][ ]\() | (?<=[oO][nN]\() | (?<=[oO][nN][ ]\()
                | (?<=[tT][iI][pP][oO][iI][nN][tT]\() | (?<=[tT][iI][pP][oO][iI][nN][tT][ ]\() )
              {_COORDINATES} (?: \( {_COORDINATES} (?: \( {_COORDINATES} \) {_COORDINATES} )*+ \) {_COORDINATES} )*+ \)
            | (?: (?<=[0-9]) (?<! [\w.:]. ) [0-9]*+ (?: \.[0-9]*+ )?
                | (?<=[+-]) (?: [0-9]++ (?: \.[0-9]*+ )? | \.[0-9]++ )
                | (?<=\.) (?<! [\w.:]. ) [0-9]++
              ) (?: [eE][+-]?[0-9]++ )?
          )
        )""",
    re.ASCII | re.VERBOSE,
)
_KINDS = str.maketrans({"'": "s", '"': "q", "(": "l", **dict.fromkeys("+-.0123456789", "n")})
_CACHED_SHAPES = 4096
_CACHED_LENGTH = 4096
"""Longer shapes are not cached: they are rare, seldom repeat, and would make the cache large."""

Pieces = list[str]
"""A text that is split: what lies between the constants (even positions) and the constants (odd positions)."""
Shape = tuple[str, ...]
"""The kinds of the constants of a text, then what lies between them."""


def parse(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """The expression of a text; `ParseError` with position and caret if it is not of the grammar (docs/language.md).

    A text longer than `limits` allow is a `TooComplexError`. O(length). About 20 us for six predicates of a shape seen before,
    five times that for a new one.

    >>> parse("age BETWEEN 22 AND 36 ^0.4")
    Between(attribute='age', weight=0.4, grade=None, lo=22, hi=36, negated=False, quantifier=None)
    >>> print(parse("not (a=1 and b=2) or 5<c"))
    NOT (a = 1 AND b = 2) OR c > 5
    >>> parse("age = NULL")
    Traceback (most recent call last):
    ...
    matchwood.errors.ParseError: NULL is not a value; write IS NULL or IS NOT NULL at position 6
      age = NULL
            ^
    """
    if not isinstance(text, str):
        raise ExpressionError(f"expected the text of an expression, got {describe(text)}")
    limits.check_length(len(text))
    pieces = _CONSTANTS.split(text)
    constants = pieces[1::2]
    try:
        template = template_of(shape_of(pieces, constants))
    except PlacedError as error:
        raise error.within(text, pieces) from None
    try:
        return template.build(constants)
    except ExpressionError:
        raise template.first_error(constants).within(text, pieces) from None


def split(text: str) -> Pieces:
    """The text between the constants, and the constants, in turn. O(length)."""
    return _CONSTANTS.split(text)


def shape_of(pieces: Pieces, constants: list[str]) -> Shape:
    """What texts that differ in their constants only have in common."""
    return ("".join([constant[0] for constant in constants]).translate(_KINDS), *pieces[::2])


def template_of(shape: Shape) -> Template:
    """The template of a shape; `PlacedError` if it is not of the grammar. O(1) if the shape is cached."""
    return _template(shape) if sum(map(len, shape)) <= _CACHED_LENGTH else _template.__wrapped__(shape)


_ZEROS = ("0", "(0)")


def without_numbers(text: str) -> str:
    """The text with 0 for each number, and (0) for a list of them.

    Two texts that are equal after this have the same attributes, types and strings.

    O(length), a fifth of the cost of `parse`.

    >>> without_numbers("price <= 12.5 ^0.4 AND item = 'size 5' AND d1 > -3")
    "price <= 0 ^0 AND item = 'size 5' AND d1 > 0"
    """
    pieces = _CONSTANTS.split(text)
    pieces[1::2] = [
        constant if "'" in constant or constant[0] == '"' else _ZEROS[constant[0] == "("] for constant in pieces[1::2]
    ]
    return "".join(pieces)


@lru_cache(_CACHED_SHAPES)
def _template(shape: Shape) -> Template:
    """The template of a shape: the kinds of its constants, then the text between them. Errors are not cached."""
    return Grammar(shape).template()
