"""Whether two schemas agree: every dimension and key of one must have the same meaning in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matchwood.schema.symbols import Symbols
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
            found = _symbol_difference(own.symbols, other.symbols)
            if found is not None:
                return f"{subject}: {found}"
    return None


def _layout(attribute: Attribute) -> str:
    return f"dimension {attribute.dims[0]} of type {attribute.declared or 'not known yet'}"


def _symbol_difference(ours: Symbols, theirs: Symbols) -> str | None:
    """The first of their symbols that has another code here. A string that one has forgotten is no difference."""
    if len(theirs) <= len(ours) and theirs.codes.items() <= ours.codes.items():
        return None
    for text, code in theirs.codes.items():
        if code >= len(ours):
            return f"the string {text_of(text)} is not known here"
        own = ours.text(code)
        if own is not None and own != text:
            return f"expected the code {code} for {text_of(own)}, got it for {text_of(text)}"
    if len(theirs) > len(ours):
        return f"the code {len(theirs) - 1}, whose string has been forgotten, is not known here"
    return None
