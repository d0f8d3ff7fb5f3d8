"""Durations: '90 min', '1.5 h', 'PT1H30M', 'P2W' as seconds."""

from __future__ import annotations

import re
from fractions import Fraction

from matchwood.errors import SchemaError
from matchwood.schema.values import describe

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), Fraction(1, 1000)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), Fraction(1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("h", "hour", "hours"), Fraction(3600)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86_400)),
    **dict.fromkeys(("w", "week", "weeks"), Fraction(604_800)),
}
_AMOUNT = r"\d+(?:\.\d+)?"
_PLAIN = re.compile(rf"([+-]?)({_AMOUNT})\s*([a-z]+)", re.IGNORECASE)
_ISO = re.compile(
    rf"([+-]?)P(?!$)(?:({_AMOUNT})W)?(?:({_AMOUNT})D)?(?:T(?=\d)(?:({_AMOUNT})H)?(?:({_AMOUNT})M)?(?:({_AMOUNT})S)?)?",
    re.IGNORECASE,
)
_ISO_UNITS = ("w", "d", "h", "min", "s")


def seconds_of(value: object) -> object:
    """The seconds of a duration that is a text; anything else unchanged. `SchemaError` if the text is no duration.

    >>> seconds_of("90 min"), seconds_of("PT1H30M"), seconds_of("-1.5 s"), seconds_of(30)
    (5400, 5400, -1.5, 30)
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if (plain := _PLAIN.fullmatch(text)) and plain[3].lower() in _UNITS:
        total, sign = Fraction(plain[2]) * _UNITS[plain[3].lower()], plain[1]
    elif iso := _ISO.fullmatch(text):
        total = sum(
            (Fraction(n) * _UNITS[unit] for n, unit in zip(iso.groups()[1:], _ISO_UNITS, strict=True) if n), Fraction()
        )
        sign = iso[1]
    else:
        raise SchemaError(
            f"expected a duration such as '90 min', '1.5 h' or 'PT1H30M', or seconds, got {describe(value)}; "
            "months and years have no fixed length, use days"
        )
    total = -total if sign == "-" else total
    return int(total) if total.denominator == 1 else float(total)
