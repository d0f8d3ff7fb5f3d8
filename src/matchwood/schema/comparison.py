"""Whether two schemas agree: every dimension and key of one must have the same meaning in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matchwood.schema.types import Attribute
from matchwood.schema.values import text_of

if TYPE_CHECKING:
    from matchwood.schema.schema import Schema


def schema_difference(ours: Schema, theirs: Schema) -> str | None:
    """The first attribute of `theirs` that `ours` lacks or uses otherwise, for a message; None if there is none.

    O(1) for one and the same schema, otherwise O(attributes + symbols).
    """
    if theirs is ours:
        return None
    for other in list(theirs):
        own = ours.get(other.name)
        subject = f"attribute {other.name!r}"
        if own is None:
            return f"{subject} is not known here"
        # An attribute without a type has only been tested for presence, which is the same for every type.
        if (
            other.type not in (None, own.type)
            or own.dims[: len(other.dims)] != other.dims
            or (other.order is not None and other.order != own.order)
        ):
            return f"{subject}: expected {_layout(own)}, got {_layout(other)}"
        if other.symbols is not None and own.symbols is not None:
            found = _symbol_difference(own.symbols.texts, other.symbols.texts)
            if found is not None:
                return f"{subject}: {found}"
    return None


def _layout(attribute: Attribute) -> str:
    return f"dimension {attribute.dims[0]} of type {attribute.declared or 'not known yet'}"


def _symbol_difference(ours: list[str | None], theirs: list[str | None]) -> str | None:
    """The first of their symbols that has another code here. A string that one has forgotten is no difference."""
    if ours[: len(theirs)] == theirs:
        return None
    pairs = enumerate(zip(ours, theirs, strict=False))
    code = next((code for code, (a, b) in pairs if a != b and a is not None and b is not None), len(ours))
    if code == len(ours) >= len(theirs):
        return None
    if code == len(ours):
        return f"the string {text_of(theirs[code])} is not known here"
    return f"expected the code {code} for {text_of(ours[code])}, got it for {text_of(theirs[code])}"
