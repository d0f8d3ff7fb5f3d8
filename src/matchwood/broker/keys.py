"""API keys: `mw_<id>_<secret>`. The broker stores a hash of the secret; the text is shown once, when the key is made or rotated.

A `Key` is what is stored: who may do what, and the hashes of at most two secrets, the older of which expires (rotation). A
`KeyRing` finds the key that a request carries. Nothing here writes: the owner of the store saves `Key.to_json()`.

The secret is 256 random bits, so one round of SHA-256 is enough: there is nothing to guess, and a request must not cost 100 ms.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from matchwood.errors import AuthenticationError, ForbiddenError, RequestError

_ID = "0123456789abcdefghjkmnpqrstvwxyz"
_SECRET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 10
_SECRET_LENGTH = 43  # log2(62) * 43 = 256 bits
_TEXT = re.compile(rf"mw_([{_ID}]{{{_ID_LENGTH}}})_([{_SECRET}]{{{_SECRET_LENGTH}}})")
_LEAKED = re.compile(rf"(mw_[{_ID}]{{{_ID_LENGTH}}}_)[{_SECRET}]+")
_NOBODY = hashlib.sha256(b"no such key").digest()
OVERLAP = timedelta(hours=24)
"""How long the old secret of a rotated key stays valid unless told."""


class Scope(StrEnum):
    """What a key may be used for. `admin` includes the others and the management of keys."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    MANAGE = "manage"
    FEDERATE = "federate"
    ADMIN = "admin"


class Secret:
    """A text that is shown once. Its `repr`, `str` and format are stars; `reveal` gives the text.

    >>> Secret("whsec_abc")
    Secret('***')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not pickled; store its hash")


@dataclass(frozen=True, slots=True)
class Hashed:
    """The hash of one secret, and the time at which it stops being valid (None: never)."""

    digest: bytes
    until: datetime | None = None

    def __repr__(self) -> str:
        return f"Hashed(until={self.until})"


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is stored. `secrets` holds the current hash first."""

    id: str
    tenant: str
    scopes: frozenset[Scope]
    secrets: tuple[Hashed, ...]
    created: datetime
    note: str = ""
    until: datetime | None = None
    revoked: datetime | None = None

    def allows(self, scope: Scope) -> bool:
        """May the key be used for this?"""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise `ForbiddenError` unless the key may be used for this."""
        if not self.allows(scope):
            has = ", ".join(sorted(self.scopes))
            raise ForbiddenError(
                f"key {self.id!r} lacks the scope {scope.value!r} (it has: {has}); use a key that has it"
            )

    def to_json(self) -> dict[str, Any]:
        """The key as JSON values, hashes included: for the store, not for users."""
        return {
            "id": self.id,
            "tenant": self.tenant,
            "scopes": sorted(self.scopes),
            "secrets": [[hashed.digest.hex(), _text(hashed.until)] for hashed in self.secrets],
            "created": _text(self.created),
            "note": self.note,
            "until": _text(self.until),
            "revoked": _text(self.revoked),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Key:
        """The key that `to_json` wrote."""
        created = _instant(stored["created"])
        assert created is not None
        return cls(
            id=stored["id"],
            tenant=stored["tenant"],
            scopes=scopes(stored["scopes"]),
            secrets=tuple(Hashed(bytes.fromhex(digest), _instant(until)) for digest, until in stored["secrets"]),
            created=created,
            note=stored["note"],
            until=_instant(stored["until"]),
            revoked=_instant(stored["revoked"]),
        )

    def shown(self) -> dict[str, Any]:
        """The key as users may see it in a list: without hashes."""
        seen = self.to_json()
        del seen["secrets"]
        return seen


def scopes(names: Iterable[str]) -> frozenset[Scope]:
    """The scopes of these names.

    >>> sorted(scopes(["publish", "subscribe"]))
    [<Scope.PUBLISH: 'publish'>, <Scope.SUBSCRIBE: 'subscribe'>]
    """
    known = {scope.value: scope for scope in Scope}
    given = list(names)
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        what = f"unknown scope {unknown[0]!r}" if unknown else "a key needs at least one scope"
        raise RequestError(f"{what}; the scopes are {', '.join(known)}")
    return frozenset(known[name] for name in given)


def make_key(
    tenant: str,
    allowed: Iterable[str],
    *,
    now: datetime,
    note: str = "",
    until: datetime | None = None,
) -> tuple[Key, Secret]:
    """A new key, to be stored, and its text, to be shown once.

    >>> from datetime import UTC, datetime
    >>> key, text = make_key("acme", ["publish"], now=datetime(2026, 5, 1, tzinfo=UTC))
    >>> text.reveal().startswith(f"mw_{key.id}_")
    True
    """
    id_ = _random(_ID, _ID_LENGTH)
    secret = _random(_SECRET, _SECRET_LENGTH)
    key = Key(id_, tenant, scopes(allowed), (Hashed(_hash(id_, secret)),), now, note, until)
    return key, Secret(f"mw_{id_}_{secret}")


def rotate(key: Key, *, now: datetime, overlap: timedelta = OVERLAP) -> tuple[Key, Secret]:
    """The key with a new secret, and its text. The current secret stays valid for `overlap`, an older one ends at once."""
    if key.revoked is not None:
        raise RequestError(f"key {key.id!r} is revoked; make a new one")
    secret = _random(_SECRET, _SECRET_LENGTH)
    old = (replace(key.secrets[0], until=now + overlap),) if overlap > timedelta(0) else ()
    return replace(key, secrets=(Hashed(_hash(key.id, secret)), *old)), Secret(f"mw_{key.id}_{secret}")


def revoke(key: Key, *, now: datetime) -> Key:
    """The key, no longer valid. Revoking twice changes nothing."""
    return key if key.revoked is not None else replace(key, revoked=now)


class KeyRing:
    """The keys of a broker in memory, by id. Thread safety: replace and find are single dictionary operations.

    >>> from datetime import UTC, datetime
    >>> now = datetime(2026, 5, 1, tzinfo=UTC)
    >>> key, text = make_key("acme", ["publish"], now=now)
    >>> KeyRing([key]).authenticate(f"Bearer {text.reveal()}", now=now).tenant
    'acme'
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = {key.id: key for key in keys}

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._keys.values()))

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, id: str) -> Key | None:
        """The key of this id."""
        return self._keys.get(id)

    def put(self, key: Key) -> None:
        """Add the key, or replace the one of its id."""
        self._keys[key.id] = key

    def remove(self, id: str) -> None:
        """Forget the key of this id, if there is one."""
        self._keys.pop(id, None)

    def authenticate(self, authorization: str | None, *, now: datetime) -> Key:
        """The key of an `Authorization` header; `AuthenticationError` if there is none that is valid.

        An unknown id, a wrong secret and an outdated secret take the same time and give the same message. Only who has proved
        to know the secret is told that the key is revoked or expired.
        """
        found = _TEXT.fullmatch(bearer(authorization))
        if found is None:
            raise AuthenticationError("the key is not of the form mw_<id>_<secret>; copy it again, whole")
        id_, secret = found.groups()
        key = self._keys.get(id_)
        digest = _hash(id_, secret)
        valid = False
        for hashed in key.secrets if key is not None else (Hashed(_NOBODY),):
            same = hmac.compare_digest(hashed.digest, digest)
            valid |= same and (hashed.until is None or now < hashed.until)
        if key is None or not valid:
            raise AuthenticationError(
                f"key {id_!r} is unknown, or its secret is not the current one; use a current key"
            )
        if key.revoked is not None:
            raise AuthenticationError(f"key {id_!r} was revoked at {_text(key.revoked)}; use another")
        if key.until is not None and now >= key.until:
            raise AuthenticationError(f"key {id_!r} expired at {_text(key.until)}; use another")
        return key


def bearer(authorization: str | None) -> str:
    """The token of an `Authorization` header.

    >>> bearer("bearer mw_1_2")
    'mw_1_2'
    """
    if not authorization:
        raise AuthenticationError("this needs a key; send the header 'Authorization: Bearer mw_...'")
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise AuthenticationError(
            f"expected the scheme Bearer, got {scheme[:20]!r}; send 'Authorization: Bearer mw_...'"
        )
    return token.strip()


def redacted(text: str) -> str:
    """The text with the secret of every key in it replaced by stars: for logs of what others have sent.

    >>> redacted("GET /v1/events?key=mw_0123456789_" + "A" * 43)
    'GET /v1/events?key=mw_0123456789_***'
    """
    return _LEAKED.sub(r"\1***", text)


def _hash(id_: str, secret: str) -> bytes:
    return hashlib.sha256(f"matchwood key 1\n{id_}\n{secret}".encode()).digest()


def _random(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
