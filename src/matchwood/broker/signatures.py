"""Signatures of webhooks, as Standard Webhooks defines them: HMAC-SHA256 over id, timestamp and body, by one or two secrets.

A secret is `whsec_` and 24 to 64 bytes in base64. While it is rotated, a message carries two signatures, so that a receiver that
knows either one accepts it. Receivers can use `verify`, or any library of Standard Webhooks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from matchwood.broker.keys import Secret
from matchwood.errors import AuthenticationError, RequestError

PREFIX = "whsec_"
TOLERANCE = 300.0
"""Seconds that the clocks of sender and receiver may differ: an older message may be a repetition by somebody else."""
_BYTES = 32
_MIN_BYTES, _MAX_BYTES = 24, 64


def new_secret() -> Secret:
    """A new secret: `whsec_` and 32 random bytes."""
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode())


def message_id(subscription: object, seq: int) -> str:
    """The id of a message: the same for each attempt, and safe in a header and in what is signed (no dot, no space).

    >>> message_id("ann", 12), message_id("ann.smith/7", 12)
    ('ann@12', 'ann%2Esmith%2F7@12')
    """
    return f"{quote(str(subscription), safe='').replace('.', '%2E')}@{seq}"


def sign(keys: Sequence[Secret | str], *, id: str, timestamp: float, body: bytes) -> dict[str, str]:
    """The headers of a message, signed with each of the secrets: the current one first, then the one it replaces.

    >>> headers = sign(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], id="msg_1", timestamp=1614265330, body=b'{"test": 2432232314}')
    >>> sorted(headers)
    ['webhook-id', 'webhook-signature', 'webhook-timestamp']
    """
    if not keys:
        raise RequestError("a message needs a secret to be signed with")
    seconds = int(timestamp)
    made = " ".join(f"v1,{_signature(secret, id, seconds, body)}" for secret in keys)
    return {"webhook-id": id, "webhook-timestamp": str(seconds), "webhook-signature": made}


def verify(
    keys: Sequence[Secret | str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float,
    tolerance: float = TOLERANCE,
) -> str:
    """The id of a message that one of the secrets has signed; `AuthenticationError` if none has, or it is too old or too new.

    `headers` may be of any case. Comparison is in constant time.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        id_, timestamp, signatures = (lower[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError:
        raise AuthenticationError(
            "the headers webhook-id, webhook-timestamp and webhook-signature are needed"
        ) from None
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        raise AuthenticationError("webhook-timestamp is not a number of seconds")
    seconds = int(timestamp)
    if abs(now - seconds) > tolerance:
        when = "old" if now > seconds else "new"
        raise AuthenticationError(f"message {id_!r} is too {when}: it was signed {abs(now - seconds):.0f} s from now")
    given = [value for version, _, value in (part.partition(",") for part in signatures.split()) if version == "v1"]
    expected = [_signature(secret, id_, seconds, body) for secret in keys]
    same = [hmac.compare_digest(_bytes(one), _bytes(two)) for one in given for two in expected]
    if not any(same):
        raise AuthenticationError(f"no signature of message {id_!r} is by the secret of this webhook")
    return id_


def secret_bytes(secret: Secret | str) -> bytes:
    """The key of a secret; `RequestError` if it is not one."""
    text = secret.reveal() if isinstance(secret, Secret) else secret
    try:
        key = base64.b64decode(text.removeprefix(PREFIX).encode(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not _MIN_BYTES <= len(key) <= _MAX_BYTES:
        raise RequestError(
            f"the secret of a webhook is {PREFIX} and {_MIN_BYTES} to {_MAX_BYTES} bytes in base64; leave it out to get a new one"
        )
    return key


def _bytes(text: str) -> bytes:
    """What a header may hold: frameworks decode bytes that are not UTF-8 to lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _signature(secret: Secret | str, id_: str, seconds: int, body: bytes) -> str:
    signed = b"%s.%d.%s" % (_bytes(id_), seconds, body)
    return base64.b64encode(hmac.digest(secret_bytes(secret), signed, hashlib.sha256)).decode()
