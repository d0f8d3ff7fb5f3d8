"""Where webhooks may go. Subscribers name their addresses, so they must not reach the network of the broker.

- The URL is checked when a webhook is registered and before each request: HTTPS, no credentials, no fragment.
- The address is checked when the socket for it is made, after the name was resolved and before anything is sent. The socket is
  connected to the very address that was checked, so a name that resolves to something else a moment later gains nothing.
- Redirects are not followed, proxies of the environment are not used, and cookies are not kept.

Only addresses that are public are allowed, and what `Egress.allow` adds.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from matchwood.errors import EgressError

if TYPE_CHECKING:
    import aiohttp

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL = 2048
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers; some clouds have their metadata here
        "168.63.129.16/32",  # Azure's host, the one such address outside the reserved ranges
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "::/16",  # unspecified, loopback, mapped and compatible IPv4
        "64:ff9b:1::/48",  # local translation
        "100::/64",
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class RefusedAddressError(OSError):
    """An address is not allowed. It is an `OSError` because a connector expects one of a socket that cannot be used."""


def is_public(address: Address) -> bool:
    """Is this an address of the public internet, also after every translation to IPv4 that a router might do?

    >>> is_public(ipaddress.ip_address("93.184.216.34")), is_public(ipaddress.ip_address("::ffff:10.0.0.1"))
    (True, False)
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if not all(is_public(inner) for inner in _embedded(address)):
            return False
    outside = any(address.version == network.version and address in network for network in _NOT_PUBLIC)
    return address.is_global and not address.is_multicast and not outside


def _embedded(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses that routers may take this one for."""
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def literal(host: str) -> Address | None:
    """The address that a host is, in any notation that the resolver takes for one; None if it is a name.

    >>> literal("0x7f.1"), literal("2130706433"), literal("example.org")
    (IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'), None)
    """
    bare = host.strip("[]").partition("%")[0]
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(bare.rstrip(".")))
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Egress:
    """What webhooks may reach: public addresses over HTTPS, and the exceptions that the operator makes.

    `allow` lists networks that are reached although they are not public; `http` allows plain HTTP.

    >>> Egress().check_url("https://example.org/hook")
    'example.org'
    """

    allow: tuple[Network, ...] = ()
    http: bool = False

    @classmethod
    def of(cls, allow: Iterable[str] = (), *, http: bool = False) -> Egress:
        """The rules that flags describe: `allow` is a list of networks such as 10.1.0.0/16."""
        networks = []
        for text in allow:
            try:
                networks.append(ipaddress.ip_network(text))
            except ValueError as error:
                raise EgressError(f"{text!r} is not a network ({error}); write it as 10.1.0.0/16 or fd00::/8") from None
        return cls(tuple(networks), http)

    def check_url(self, url: str) -> str:
        """The host of the URL; `EgressError` if a webhook cannot have it. Names are resolved later, when a socket is made."""
        shown = url[:100]
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise EgressError(f"webhook {shown!r} is not a URL ({error})") from None
        if any(ord(char) <= 32 or char == "\\" or ord(char) == 127 for char in url) or len(url) > MAX_URL:
            raise EgressError(f"webhook {shown!r} has spaces, control characters or more than {MAX_URL} characters")
        if parts.scheme not in ("https", "http") or not host:
            raise EgressError(f"webhook {shown!r} is not a URL of the form https://host/path")
        if parts.scheme == "http" and not self.http:
            raise EgressError(f"webhook {shown!r} is not HTTPS; use https://")
        if parts.username is not None or parts.password is not None:
            raise EgressError(
                f"the webhook on {host!r} has a user name or password in its URL; messages are signed instead"
            )
        if parts.fragment or port == 0:
            raise EgressError(f"webhook {shown!r} has a fragment, or port 0; leave it out")
        address = literal(host)
        if address is not None:
            self.check_address(address)
        return host

    def check_address(self, address: Address) -> None:
        """Raise `EgressError` unless webhooks may reach this address."""
        plain = (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
        if any(plain.version == network.version and plain in network for network in self.allow):
            return
        if not is_public(address):
            raise EgressError(
                f"address {address} is not public; webhooks may not reach it unless the broker allows its network"
            )

    def socket(self, info: tuple[Any, ...]) -> socket.socket:
        """A socket for one address of `getaddrinfo`, checked; `RefusedAddressError` if webhooks may not reach it."""
        family, kind, protocol, _, address = info
        try:
            self.check_address(ipaddress.ip_address(str(address[0]).partition("%")[0]))
        except EgressError as error:
            raise RefusedAddressError(errno.EACCES, str(error)) from None
        return socket.socket(family, kind, protocol)

    def connector(self, *, connections: int, connections_per_host: int, **options: Any) -> aiohttp.TCPConnector:
        """A connector of aiohttp whose every socket is made by `socket`."""
        import aiohttp

        return aiohttp.TCPConnector(
            socket_factory=self.socket,
            limit=connections,
            limit_per_host=connections_per_host,
            happy_eyeballs_delay=None,  # one address after the other: errors stay whole
            **options,
        )
