"""`GET /live`: a page that shows matches as they happen, on a map. It holds no data and no key: its script asks the service."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from matchwood.broker.http import Answer, Request


async def live_page(request: Request) -> Answer:
    """GET /live"""
    request.query()
    return _answer()


@cache
def _answer() -> Answer:
    """The page, and headers that let a browser run its own script and style, and ask this service, and nothing else."""
    page = (files("matchwood.broker") / "live.html").read_bytes()
    hashes = {tag: _hash(page, tag) for tag in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-cache"),
    )
    return Answer(200, page, headers)


def _hash(page: bytes, tag: str) -> str:
    inline = re.search(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
    assert inline is not None
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline[1]).digest()).decode()}'"
