"""Requests to a broker: typed bodies in and out, errors as exceptions, and repetition where it is safe."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Mapping
from types import NoneType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from matchwood import __version__
from matchwood.broker.egress import literal
from matchwood.broker.problems import error_of
from matchwood.broker.retries import seconds_of
from matchwood.client.backoff import Backoff
from matchwood.errors import ConnectionLostError, MissingExtraError, QuotaError, RequestError, UnavailableError

try:
    import aiohttp
    import msgspec
except ImportError as error:
    raise MissingExtraError(
        f"the client of a broker needs aiohttp and msgspec, of which one cannot be imported ({error}); "
        "install them with: pip install 'matchwood[client]'"
    ) from None

LOG = logging.getLogger("matchwood.client")
JSON = "application/json"
NDJSON = "application/x-ndjson"
ENCODER = msgspec.json.Encoder(decimal_format="number")
T = TypeVar("T")


class Transport:
    """A session with one broker.

    A request that is safe to repeat is repeated while the broker cannot be reached or says that it is not available or that it
    is asked too often, for `patience` seconds in all; others raise at once. Redirects are not followed: a key goes to one host.
    """

    def __init__(self, url: str, key: str | None, *, patience: float, timeout: float, cafile: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise RequestError(f"expected the URL of a broker, such as http://127.0.0.1:8440, got {url!r}")
        if parts.scheme == "http" and key and not _is_local(parts.hostname):
            LOG.warning("the key is sent to %s without encryption; use https", parts.hostname)
        self.url = url.rstrip("/")
        self._patience, self._timeout, self._cafile = patience, timeout, cafile
        self._headers = {"User-Agent": f"matchwood/{__version__}"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"<Transport: {self.url}>"

    def open(self) -> None:
        """Open the session; needs a running event loop."""
        context = True if self._cafile is None else ssl.create_default_context(cafile=self._cafile)
        connector = aiohttp.TCPConnector(limit=64, ssl=context)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout),
        )

    async def close(self) -> None:
        """Close the session; requests that are under way fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session."""
        if self._session is None:
            raise RequestError("the client is not open; use it as `async with matchwood.connect(...) as mw`")
        return self._session

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        body: object = None,
        content_type: str = JSON,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = True,
    ) -> T:
        """Send a request and return its answer as this type (`NoneType`: nothing). `body` is encoded unless it is bytes.

        `repeat=False` is for what must not happen twice.
        """
        data = None if body is None else body if isinstance(body, bytes) else ENCODER.encode(body)
        sent = {**(headers or {}), **({} if data is None else {"Content-Type": content_type})}
        query = {name: _text(value) for name, value in (params or {}).items() if value is not None}
        end = time.monotonic() + self._patience
        backoff = Backoff()
        while True:
            try:
                raw = await self._once(method, path, data, sent, query)
            except (ConnectionLostError, UnavailableError, QuotaError) as error:
                delay = backoff.delay(at_least=error.retry_after)
                lost_for_good = not repeat and isinstance(error, ConnectionLostError)
                if lost_for_good or time.monotonic() + delay > end:
                    raise
                LOG.info("%s %s: %s; again in %.1f s", method, path, error, delay)
                await asyncio.sleep(delay)
                continue
            return _decoded(raw, answer)

    async def _once(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str], query: Mapping[str, str]
    ) -> bytes:
        session = self.session
        try:
            async with session.request(
                method, self.url + path, data=data, headers=headers, params=query, allow_redirects=False
            ) as response:
                raw = await response.read()
                if response.status >= 300:
                    raise failure(response, raw)
                return raw
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise lost(self.url, error) from None


def failure(response: aiohttp.ClientResponse, raw: bytes) -> Exception:
    """The exception that an answer of 300 or more stands for."""
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        body = None
    after = seconds_of(response.headers.get("Retry-After"), now=time.time())
    return error_of(response.status, body, retry_after=after)


def lost(url: str, error: Exception) -> ConnectionLostError:
    """The broker did not answer."""
    why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return ConnectionLostError(f"the broker at {url} cannot be reached: {why}")


def _decoded(raw: bytes, answer: type[T]) -> T:
    if answer is NoneType:
        return None  # type: ignore[return-value]
    try:
        return msgspec.json.decode(raw, type=answer)
    except msgspec.DecodeError as error:
        raise RequestError(
            f"the answer is not of the type {answer.__name__} ({error}); is this a Matchwood broker?"
        ) from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_local(host: str) -> bool:
    address = literal(host)
    return host == "localhost" or (address is not None and address.is_loopback)
