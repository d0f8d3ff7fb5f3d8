"""Signatures are those of Standard Webhooks: its library accepts ours, and we accept its."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from matchwood.broker.keys import Secret
from matchwood.broker.signatures import message_id, new_secret, secret_bytes, sign, verify
from matchwood.errors import AuthenticationError, RequestError

OLD, NEW = new_secret(), new_secret()
BODY = json.dumps({"price": 12, "item": "téléphone"}).encode()


def test_the_signature_is_the_one_of_the_specification() -> None:
    headers = sign(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330.9,
        body=b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-timestamp"] == "1614265330"


@pytest.mark.parametrize("known", [OLD, NEW])
def test_during_a_rotation_either_secret_is_accepted_by_the_library_of_the_standard(known: Secret) -> None:
    headers = sign([NEW, OLD], id=message_id("ann", 7), timestamp=time.time(), body=BODY)
    assert Webhook(known.reveal()).verify(BODY, headers) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret().reveal()).verify(BODY, headers)


def test_what_the_library_signs_is_accepted() -> None:
    now = int(time.time())
    signature = Webhook(NEW.reveal()).sign("msg_1", datetime.fromtimestamp(now, UTC), BODY.decode())
    headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(now), "Webhook-Signature": f"v1a,xyz {signature}"}
    assert verify([OLD, NEW], headers, BODY, now=now) == "msg_1"


@given(st.binary(max_size=60), st.text(max_size=8), st.integers(0, 2**40))
def test_what_is_signed_is_accepted_and_any_change_is_not(body: bytes, name: str, seq: int) -> None:
    headers = sign([NEW], id=message_id(name, seq), timestamp=1000.0, body=body)
    assert verify([OLD, NEW], headers, body, now=1010.0) == message_id(name, seq)
    changed = [
        (headers, body + b" "),
        ({**headers, "webhook-id": headers["webhook-id"] + "0"}, body),
        ({**headers, "webhook-timestamp": "1001"}, body),
    ]
    for other, content in changed:
        with pytest.raises(AuthenticationError, match="no signature"):
            verify([NEW], other, content, now=1010.0)


@given(st.text(), st.text(), st.integers(0, 99), st.integers(0, 99))
def test_ids_differ_if_subscription_or_seq_does_and_fit_a_header(one: str, two: str, first: int, second: int) -> None:
    one, two = (text.encode("utf-8", "replace").decode() for text in (one, two))
    ids = message_id(one, first), message_id(two, second)
    assert (ids[0] == ids[1]) == ((one, first) == (two, second))
    assert all(id_.isascii() and id_.isprintable() and not {".", " "} & set(id_) for id_ in ids)


@pytest.mark.parametrize(("now", "says"), [(1301.0, "too old"), (699.0, "too new")])
def test_a_message_from_another_time_is_refused(now: float, says: str) -> None:
    headers = sign([NEW], id="a", timestamp=1000.0, body=b"")
    assert verify([NEW], headers, b"", now=1300.0) == "a"
    with pytest.raises(AuthenticationError, match=says):
        verify([NEW], headers, b"", now=now)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"webhook-id": "a"},
        {"webhook-id": "a", "webhook-timestamp": "x", "webhook-signature": "v1,"},
        {"webhook-id": "a", "webhook-timestamp": "9" * 400, "webhook-signature": "v1,"},
        {"webhook-id": "\ud800", "webhook-timestamp": "0", "webhook-signature": "v1,\ud800 v1,="},
    ],
)
def test_missing_or_odd_headers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(AuthenticationError, match=r"are needed|number of seconds|no signature"):
        verify([NEW], headers, b"", now=0.0)


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_short", "whsec_!!!!", "plain", "whsec_" + "A" * 120])
def test_a_secret_of_another_form_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(RequestError, match="24 to 64 bytes in base64") as refused:
        secret_bytes(Secret(text))
    assert not text or text in "whsec_" or text not in str(refused.value)
    with pytest.raises(RequestError, match="needs a secret"):
        sign([], id="a", timestamp=0, body=b"")
