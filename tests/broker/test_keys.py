"""Keys: made once, stored hashed, found again, rotated, revoked, and never shown."""

from __future__ import annotations

import copy
import hmac
import json
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from matchwood.broker import keys as module
from matchwood.broker.keys import Key, KeyRing, Scope, Secret, bearer, make_key, redacted, revoke, rotate, scopes
from matchwood.errors import AuthenticationError, ForbiddenError, RequestError

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def header(text: Secret) -> str:
    return f"Bearer {text.reveal()}"


def test_a_key_is_found_by_its_text_and_by_nothing_else() -> None:
    key, text = make_key("acme", ["publish"], now=NOW, note="the shop")
    other, other_text = make_key("other", ["publish"], now=NOW)
    ring = KeyRing([key, other])
    assert ring.authenticate(header(text), now=NOW) is key
    assert ring.authenticate(header(other_text), now=NOW) is other
    _, id_, secret = text.reveal().split("_")
    swapped = f"Bearer mw_{other.id}_{secret}"  # the hash covers the id: a secret is of no use under another id
    flipped = f"Bearer mw_{id_}_{secret[:-1]}{'a' if secret[-1] != 'a' else 'b'}"
    for wrong in (swapped, flipped, f"Bearer mw_zzzzzzzzzz_{secret}"):
        with pytest.raises(AuthenticationError, match="is unknown, or its secret is not the current one"):
            ring.authenticate(wrong, now=NOW)


@pytest.mark.parametrize(
    ("authorization", "says"),
    [
        (None, "this needs a key"),
        ("", "this needs a key"),
        ("Basic abc", "expected the scheme Bearer, got 'Basic'"),
        ("Bearer", "expected the scheme Bearer"),
        ("Bearer mw_short", "not of the form"),
        ("Bearer mw_0123456789_" + "A" * 43 + "\n", "is unknown"),  # surrounding space is no part of the token
        ("Bearer mw_0123456789_" + "A" * 44, "not of the form"),
        ("Bearer mw_0123456789_" + "é" * 43, "not of the form"),
    ],
)
def test_a_header_without_a_usable_key_says_what_is_wrong(authorization: str | None, says: str) -> None:
    with pytest.raises(AuthenticationError, match=says):
        KeyRing().authenticate(authorization, now=NOW)


def test_the_scheme_is_read_whatever_its_case() -> None:
    assert bearer("BEARER  x") == "x"


def test_an_unknown_id_costs_a_comparison_too(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((len(one), len(two)))
        return hmac.compare_digest(one, two)

    monkeypatch.setattr(module, "hmac", type("spy", (), {"compare_digest": staticmethod(compare)}))
    with pytest.raises(AuthenticationError):
        KeyRing().authenticate("Bearer mw_0123456789_" + "A" * 43, now=NOW)
    assert compared == [(32, 32)]


def test_after_a_rotation_both_secrets_are_valid_until_the_overlap_ends() -> None:
    key, first = make_key("acme", ["publish"], now=NOW)
    key, second = rotate(key, now=NOW, overlap=timedelta(hours=1))
    ring = KeyRing([key])
    just_before, after = NOW + timedelta(minutes=59), NOW + timedelta(hours=1)
    assert ring.authenticate(header(first), now=just_before) is key
    assert ring.authenticate(header(second), now=after) is key
    with pytest.raises(AuthenticationError, match="not the current one"):
        ring.authenticate(header(first), now=after)


def test_a_second_rotation_ends_the_oldest_secret_at_once() -> None:
    key, first = make_key("acme", ["publish"], now=NOW)
    key, second = rotate(key, now=NOW)
    key, third = rotate(key, now=NOW)
    ring = KeyRing([key])
    assert len(key.secrets) == 2
    assert ring.authenticate(header(second), now=NOW) is ring.authenticate(header(third), now=NOW) is key
    with pytest.raises(AuthenticationError):
        ring.authenticate(header(first), now=NOW)


def test_a_rotation_without_overlap_leaves_one_secret() -> None:
    key, first = make_key("acme", ["publish"], now=NOW)
    key, _ = rotate(key, now=NOW, overlap=timedelta(0))
    assert len(key.secrets) == 1
    with pytest.raises(AuthenticationError):
        KeyRing([key]).authenticate(header(first), now=NOW)


def test_a_revoked_key_is_refused_and_not_rotated() -> None:
    key, text = make_key("acme", ["publish"], now=NOW)
    key = revoke(key, now=NOW)
    assert revoke(key, now=NOW + timedelta(days=1)) is key
    with pytest.raises(AuthenticationError, match="revoked at 2026-05-01T12:00:00Z"):
        KeyRing([key]).authenticate(header(text), now=NOW)
    with pytest.raises(RequestError, match="is revoked; make a new one"):
        rotate(key, now=NOW)


def test_a_key_ends_at_its_until() -> None:
    key, text = make_key("acme", ["publish"], now=NOW, until=NOW + timedelta(seconds=1))
    ring = KeyRing([key])
    assert ring.authenticate(header(text), now=NOW) is key
    with pytest.raises(AuthenticationError, match="expired at 2026-05-01T12:00:01Z"):
        ring.authenticate(header(text), now=NOW + timedelta(seconds=1))


def test_scopes_are_checked_by_name_and_admin_has_all() -> None:
    key, _ = make_key("acme", ["publish", "subscribe"], now=NOW)
    key.require(Scope.PUBLISH)
    with pytest.raises(ForbiddenError, match=r"lacks the scope 'manage' \(it has: publish, subscribe\)"):
        key.require(Scope.MANAGE)
    admin, _ = make_key("acme", ["admin"], now=NOW)
    assert all(admin.allows(scope) for scope in Scope)
    with pytest.raises(RequestError, match="unknown scope 'root'; the scopes are publish"):
        scopes(["root"])
    with pytest.raises(RequestError, match="at least one scope"):
        scopes([])


def test_a_stored_key_comes_back_the_same_and_holds_no_secret() -> None:
    key, text = make_key("acme", ["publish"], now=NOW, note="n", until=NOW + timedelta(days=1))
    key, _ = rotate(key, now=NOW)
    stored = json.dumps(key.to_json())
    assert Key.from_json(json.loads(stored)) == key
    assert text.reveal().split("_")[2] not in stored
    assert "secrets" not in key.shown()
    assert KeyRing([Key.from_json(json.loads(stored))]).authenticate(header(text), now=NOW) == key


def test_neither_repr_nor_str_nor_pickle_shows_a_secret_or_a_hash() -> None:
    key, text = make_key("acme", ["publish"], now=NOW)
    secret, digest = text.reveal().split("_")[2], key.secrets[0].digest
    shown = f"{key!r} {key} {text!r} {text} {KeyRing([key])!r} {[text]}"
    assert secret not in shown
    assert digest.hex() not in shown
    assert repr(digest) not in shown
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a secret is not pickled"):
            copied(text)


def test_messages_name_the_id_and_not_the_secret() -> None:
    key, text = make_key("acme", ["publish"], now=NOW)
    with pytest.raises(AuthenticationError) as refused:
        KeyRing().authenticate(header(text), now=NOW)
    assert key.id in str(refused.value)
    assert text.reveal() not in str(refused.value)
    assert text.reveal() not in redacted(f"GET /?key={text.reveal()}&x=1")


def test_a_thousand_keys_are_a_thousand_ids() -> None:
    made = [make_key("acme", ["publish"], now=NOW) for _ in range(1000)]
    assert len({key.id for key, _ in made}) == len({text.reveal() for _, text in made}) == 1000


def test_a_ring_is_changed_one_key_at_a_time() -> None:
    key, text = make_key("acme", ["publish"], now=NOW)
    ring = KeyRing()
    ring.put(key)
    assert ring.get(key.id) is key
    assert list(ring) == [key]
    ring.remove(key.id)
    ring.remove(key.id)
    assert len(ring) == 0
    with pytest.raises(AuthenticationError):
        ring.authenticate(header(text), now=NOW)
