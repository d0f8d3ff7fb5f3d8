"""What strangers send over the network, damaged: CloudEvents, keys, URLs of webhooks, signed messages, server-sent events."""

from __future__ import annotations

import ipaddress
import json
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any

from matchwood.broker.cloudevents import (
    BATCH,
    STRUCTURED,
    PlainEvent,
    read,
    to_cloud,
    write_binary,
    write_structured,
)
from matchwood.broker.egress import Egress, is_public, literal
from matchwood.broker.keys import Key, KeyRing, Secret, make_key
from matchwood.broker.retries import seconds_of
from matchwood.broker.signatures import new_secret, sign, verify
from matchwood.client.streaming import EventReader
from matchwood.errors import AuthenticationError, EgressError, MatchwoodError
from tests.fuzz.mutation import mutated_bytes, mutated_json, mutated_text

NOW = datetime(2026, 5, 1, tzinfo=UTC)
URLS = (
    "https://example.org/hook?a=1",
    "https://127.0.0.1/",
    "https://[::1]:8443/x",
    "https://0x7f.1/",
    "https://2130706433/",
    "https://[::ffff:10.0.0.1]/",
    "https://169.254.169.254/latest/meta-data",
    "http://user:word@example.org/",
)
EVENTS = (
    PlainEvent({"price": 250, "ce": {"id": "7", "source": "/shop", "type": "offer", "time": "2026-05-01T12:00:00Z"}}),
    PlainEvent(
        {"a": {"b": [1, "x"]}, "ce": {"id": "é", "source": "urn:x", "type": "t", "n": 4}}, until="2027-01-01T00:00:00Z"
    ),
)


def cloud_events(random: Random) -> int:
    """A damaged CloudEvent is refused, or is one that is written and read again as it is."""
    cloud = to_cloud(random.choice(EVENTS), source="s", type="t")
    headers: dict[str, str]
    if random.random() < 0.4:
        headers, body = write_binary(cloud)
        name = random.choice(sorted(headers))
        headers[name] = mutated_text(random, headers[name], random.choice(sorted(headers.values())))
        body = mutated_bytes(random, body) if random.random() < 0.5 else body
    else:
        media, body = write_structured(cloud)
        document = mutated_json(random, json.loads(body))
        batch = random.random() < 0.3
        headers = {"content-type": BATCH if batch else media}
        try:
            body = json.dumps([document, document] if batch else document).encode()
        except (ValueError, RecursionError):  # Python does not write it
            return 1
        body = mutated_bytes(random, body) if random.random() < 0.3 else body
    try:
        found = read(headers, body)
    except MatchwoodError:
        return 1
    for event in found if isinstance(found, list) else [found]:
        if isinstance(event, PlainEvent):
            again = write_structured(to_cloud(event, source="s", type="t"))[1]
            assert read({"content-type": STRUCTURED}, again) == event, (headers, body)
    return 1


@cache
def ring() -> tuple[KeyRing, Key, Secret]:
    key, text = make_key("acme", ["publish"], now=NOW)
    return KeyRing([key]), key, text


def authorization(random: Random) -> int:
    """A damaged key is refused."""
    keys, key, text = ring()
    whole = f"Bearer {text.reveal()}"
    header = mutated_text(random, whole, f"Bearer mw_{key.id}_")
    try:
        assert keys.authenticate(header, now=NOW) is key
    except AuthenticationError:
        return 1
    assert header.split()[-1] == text.reveal(), "a key that differs was accepted"
    return 1


def hook_urls(random: Random) -> int:
    """A URL that is accepted has no credentials, and no address that is not public."""
    url = mutated_text(random, random.choice(URLS), random.choice(URLS))
    try:
        host = Egress().check_url(url)
    except EgressError:
        return 1
    address = literal(host)
    assert address is None or is_public(address), url
    assert url.startswith("https:") or url.lower().startswith("https:"), url
    return 1


def addresses(random: Random) -> int:
    """No form of a private IPv4 address is public, however it is wrapped in IPv6."""
    inner = ipaddress.IPv4Address(
        random.choice([0x7F000001, 0x0A000001, 0xA9FEA9FE, 0xC0A80101]) + random.randrange(200)
    )
    number = int(inner)
    wrapped = [number | 0xFFFF << 32, number, 0x2002 << 112 | number << 80, 0x0064FF9B << 96 | number]
    assert not is_public(inner)
    for value in wrapped:
        assert not is_public(ipaddress.IPv6Address(value)), ipaddress.IPv6Address(value)
    return 1


@cache
def signed() -> tuple[Secret, dict[str, str], bytes]:
    secret, body = new_secret(), b'{"id": "ann@7"}'
    return secret, sign([secret], id="ann@7", timestamp=1000, body=body), body


def signatures(random: Random) -> int:
    """A damaged message is refused."""
    secret, headers, body = signed()
    changed = dict(headers)
    name = random.choice(sorted(headers))
    changed[name] = mutated_text(random, headers[name], headers["webhook-signature"])
    if random.random() < 0.3:
        changed, body = headers, mutated_bytes(random, body)
    try:
        verify([secret], changed, body, now=1000.0)
    except AuthenticationError:
        return 1
    same = (changed["webhook-id"], int(changed["webhook-timestamp"]), body) == ("ann@7", 1000, signed()[2])
    assert same, (changed, body)
    return 1


def server_events(random: Random) -> int:
    """Damaged streams are read without an error, and the same however they are cut."""
    whole = b'id: 7\nevent: match\ndata: {"seq": 7}\n\n: beat\n\nid: 8\ndata: a\ndata: b\r\n\r\n'
    raw = mutated_bytes(random, whole)
    at = random.randrange(len(raw) + 1)
    one, two = EventReader(), EventReader()
    cut: list[Any] = one.feed(raw[:at]) + one.feed(raw[at:])
    assert cut == two.feed(raw)
    seconds = seconds_of(mutated_text(random, "Thu, 01 Jan 1970 00:01:00 GMT", "120"), now=0.0)
    assert seconds is None or seconds >= 0
    return 1
