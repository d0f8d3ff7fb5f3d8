"""What the types that go over the wire have in common."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")]
"""The name of a consumer, a hook or a tenant."""
SubscriptionText = Annotated[str, Meta(min_length=1, max_length=200)]
"""The id of a subscription: any text without control characters."""
Place = Annotated[list[float], Meta(min_length=2, max_length=2)]
"""[longitude, latitude]"""


class RequestType(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a client sends. Unknown fields are refused."""


class AnswerType(Struct, omit_defaults=True, kw_only=True):
    """What a client gets."""


class Rejected(AnswerType):
    """A record of a batch that could not be used."""

    position: int
    problem: str
