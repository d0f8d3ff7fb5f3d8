"""Webhooks reach public addresses and nothing else, whatever a subscriber writes and whatever a name resolves to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from matchwood.broker.egress import Egress, RefusedAddressError, is_public, literal
from matchwood.errors import EgressError

PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",  # metadata of Alibaba
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",  # the host of Azure
    "169.254.1.1",
    "169.254.169.254",  # metadata of most clouds
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",  # metadata of Oracle
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",  # Teredo
    "2001:0:a00:1::",
    "2001:db8::1",
    "2002:7f00:1::",  # 6to4 of 127.0.0.1
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",  # metadata of AWS
    "fd20:ce::254",  # metadata of Google
    "fe80::1",
    "fe80::a9fe:a9fe",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.32.0.1",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "64:ff9b::8.8.8.8",
]
DISGUISES = [
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "0",
    "0x0",
    "2852039166",  # 169.254.169.254
    "0xA9FEA9FE",
    "0251.0376.0251.0376",
    "169.254.43518",
    "127.0.0.1.",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::1]",
    "[fe80::1%25eth0]",
    "[fd00:ec2::254]",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_an_address_that_is_not_public_is_refused(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    with pytest.raises(EgressError, match="is not public"):
        Egress().check_address(address)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with pytest.raises(RefusedAddressError):
        Egress().socket((family, socket.SOCK_STREAM, 6, "", (text, 443)))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_allowed(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))
    Egress().check_address(ipaddress.ip_address(text))


@pytest.mark.parametrize("host", DISGUISES)
def test_an_address_in_disguise_is_refused_at_registration(host: str) -> None:
    assert literal(host) is not None
    with pytest.raises(EgressError, match="is not public"):
        Egress().check_url(f"https://{host}/hook")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://example.org/", "is not HTTPS"),
        ("ftp://example.org/", "of the form https://"),
        ("file:///etc/passwd", "of the form https://"),
        ("gopher://127.0.0.1:6379/_x", "of the form https://"),
        ("//example.org/", "of the form https://"),
        ("https:///path", "of the form https://"),
        ("example.org", "of the form https://"),
        ("", "of the form https://"),
        ("https://user:secret@example.org/", "user name or password"),
        ("https://example.org@127.0.0.1/", "user name or password"),
        ("https://example.org/#part", "fragment"),
        ("https://example.org:0/", "port 0"),
        ("https://example.org:99999/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("https://exa mple.org/", "spaces"),
        ("https://example.org/\r\nHost: x", "control characters"),
        ("https://example.org\\@127.0.0.1/", "control characters"),
        ("https://example.org/" + "a" * 2100, "2048 characters"),
    ],
)
def test_a_url_that_a_webhook_cannot_have_is_refused_with_the_reason(url: str, says: str) -> None:
    with pytest.raises(EgressError, match=says) as refused:
        Egress().check_url(url)
    assert "secret" not in str(refused.value)


def test_an_operator_can_allow_networks_and_plain_http() -> None:
    egress = Egress.of(["127.0.0.0/8", "fd00::/8"], http=True)
    assert egress.check_url("http://127.0.0.1:8080/hook") == "127.0.0.1"
    assert egress.check_url("http://[fd00::7]/") == "fd00::7"
    assert egress.check_url("https://[::ffff:127.0.0.1]/") == "::ffff:127.0.0.1"
    with pytest.raises(EgressError, match="is not public"):
        egress.check_url("http://10.0.0.1/")
    with pytest.raises(EgressError, match=r"'10.0.0.1/8' is not a network"):
        Egress.of(["10.0.0.1/8"])


class Names(AbstractResolver):
    """A resolver that an attacker controls: each name has the answers listed, one after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=text,
                port=port,
                family=socket.AF_INET6 if ":" in text else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=0,
            )
            for text in found
        ]

    async def close(self) -> None: ...


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket that must not be connected to."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setblocking(False)
        yield made


def connected(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def fetch(egress: Egress, url: str, resolver: AbstractResolver) -> str:
    connector = egress.connector(connections=4, connections_per_host=4, resolver=resolver, use_dns_cache=False)
    timeout = aiohttp.ClientTimeout(total=0.5)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        try:
            async with session.get(url):
                return "answered"
        except aiohttp.ClientConnectorError as error:
            return str(error)
        except (aiohttp.ClientError, TimeoutError) as error:
            return type(error).__name__


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["::ffff:127.0.0.1"],
        ["127.0.0.1", "127.0.0.1"],
        ["::1", "127.0.0.1"],
        ["169.254.169.254"],
        ["0.0.0.0"],
    ],
)
def test_a_name_that_resolves_to_us_is_refused_before_a_byte_is_sent(
    answer: list[str], listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    told = asyncio.run(fetch(Egress(http=True), f"http://innocent.example:{port}/", Names(answer)))
    assert "is not public" in told
    assert not connected(listener)


def test_a_name_that_changes_its_address_after_the_check_gains_nothing(listener: socket.socket) -> None:
    """Rebinding: the first answer is public, the next is us. Each connection is checked by the address it connects to."""
    port = listener.getsockname()[1]
    egress = Egress(http=True)
    names = Names(["127.0.0.1"])
    assert egress.check_url(f"http://rebound.example:{port}/") == "rebound.example"
    assert "is not public" in asyncio.run(fetch(egress, f"http://rebound.example:{port}/", names))
    assert not connected(listener)


def test_what_is_allowed_is_connected_to(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    asyncio.run(fetch(Egress.of(["127.0.0.0/8"], http=True), f"http://inside.example:{port}/", Names(["127.0.0.1"])))
    assert connected(listener)


def test_the_socket_is_made_for_the_address_that_was_checked() -> None:
    """The check sees what `connect` gets, not what another lookup of the name would give."""
    seen: list[Any] = []

    class Watching(Egress):
        def socket(self, info: tuple[Any, ...]) -> socket.socket:
            seen.append(info[4][0])
            return super().socket(info)

    told = asyncio.run(fetch(Watching(http=True), "http://a.example:1/", Names(["10.9.8.7"], ["10.1.1.1"])))
    assert seen == ["10.9.8.7"]
    assert "10.9.8.7 is not public" in told
