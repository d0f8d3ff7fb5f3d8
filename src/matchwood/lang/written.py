"""How names and constants are written in the text language."""

from __future__ import annotations

import math
import re
from datetime import datetime

from matchwood.schema import Scalar
from matchwood.schema.functions import SEPARATOR, function_of, source_of

KEYWORDS = frozenset("AND OR NOT BETWEEN IN IS LIKE NULL TRUE FALSE INF".split())
"""Words that need quotes as attribute names. TIMESTAMP, DATE, POINT and the like are recognised by the parenthesis that follows,
so `timestamp > ...` and `date > ...` need no quotes."""

PLAIN_NAME = r"[A-Za-z_]\w*(?:[.:]\w+)*"
"""An attribute name that needs no quotes, as a pattern for `re.ASCII`."""

_PLAIN = re.compile(PLAIN_NAME, re.ASCII)


def name(text: str) -> str:
    """An attribute name in the text language: quoted unless it is a plain word; a derived one as its function."""
    if SEPARATOR in text:
        function, inner = function_of(text), name(source_of(text))
        word = text.partition(SEPARATOR)[0].partition(":")[0]
        if function.argument is None:
            return f"{word}({inner})"
        return f"{word}({inner}, {name(function.argument) if function.is_age else literal(function.argument)})"
    return text if _PLAIN.fullmatch(text) and text.upper() not in KEYWORDS else '"' + text.replace('"', '""') + '"'


def literal(value: Scalar) -> str:
    """A value in the text language."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP('{value.isoformat().replace('+00:00', 'Z')}')"
    return number(value)


def weight_suffix(weight: float) -> str:
    """A weight as it follows a predicate in the text language; nothing for the default."""
    return "" if weight == 1.0 else f" ^{number(weight)}"


def number(value: float) -> str:
    if isinstance(value, int):
        return int.__repr__(value)
    # The `repr` of subclasses (NumPy's float64, enums) is not a number.
    return float.__repr__(float(value)) if math.isfinite(value) else ("INF" if value > 0 else "-INF")
