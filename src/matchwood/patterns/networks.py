"""Networks of IPv4 and IPv6, and the addresses in them.

An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is the IPv4 address: the same host is written both ways. A network of such
addresses is the IPv4 network. A text that is no address, or has a zone (`fe80::1%eth0`), is in no network.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import NamedTuple

from matchwood.errors import ExpressionError

_BITS = {4: 32, 6: 128}
_LONGEST = 45
"""Characters of an address, at most."""


class Net(NamedTuple):
    """A network: the version, the length of the prefix and its bits."""

    version: int
    length: int
    prefix: int


@lru_cache(4096)
def read_network(text: str) -> Net:
    """The network in CIDR notation; an address alone is the network of that one address. `ExpressionError` if it is none."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        remedy = "write it as 10.0.0.0/8 or 2001:db8::/32"
        raise ExpressionError(f"expected a network in CIDR notation, got {text[:80]!r}: {error}; {remedy}") from None
    bits, length = int(network.network_address), network.prefixlen
    if network.version == 6 and length >= 96 and bits >> 32 == 0xFFFF:
        return Net(4, length - 96, (bits & 0xFFFFFFFF) >> (128 - length))
    return Net(network.version, length, bits >> (_BITS[network.version] - length))


def written_network(net: Net) -> str:
    """The network in CIDR notation."""
    bits = net.prefix << (_BITS[net.version] - net.length)
    address = ipaddress.IPv4Address(bits) if net.version == 4 else ipaddress.IPv6Address(bits)
    return f"{address}/{net.length}"


def read_address(text: str) -> tuple[int, int] | None:
    """The version and the bits of an address; None if the text is none."""
    if not 2 <= len(text) <= _LONGEST or not text.isascii() or "%" in text:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    bits = int(address)
    if address.version == 6 and bits >> 32 == 0xFFFF:
        return 4, bits & 0xFFFFFFFF
    return address.version, bits


def is_in(net: Net, text: str) -> bool:
    """Is the text an address of the network?"""
    address = read_address(text)
    return (
        address is not None
        and address[0] == net.version
        and address[1] >> (_BITS[net.version] - net.length) == net.prefix
    )


def prefix_of(version: int, bits: int, length: int) -> int:
    """The first bits of an address."""
    return bits >> (_BITS[version] - length)
