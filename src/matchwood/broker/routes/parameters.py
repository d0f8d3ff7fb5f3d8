"""What several routes read from a request: the size of a page, and a name in the path."""

from __future__ import annotations

import msgspec

from matchwood.broker import types as t
from matchwood.broker.http import Request
from matchwood.errors import RequestError

PAGE = 100
"""Records of a page, if the request does not say."""
MAX_PAGE = 1000


def name_of(request: Request, what: str = "name") -> str:
    """The name in the path; `what` is its word in the error."""
    name = request.path["name"]
    try:
        return msgspec.convert(name, t.Name)
    except msgspec.MsgspecError as error:
        raise RequestError(f"{what} {name[:50]!r}: {error}") from None
