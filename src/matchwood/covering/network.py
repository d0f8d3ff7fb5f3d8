"""Network: routers linked to a tree in one process, for tests, measurements and small installations.

>>> from matchwood.lang.event import Event
>>> from matchwood.lang.parser import parse
>>> network = Network(line(3))
>>> _ = network.subscribe("r0", "ann", parse("age >= 18"))
>>> _ = network.subscribe("r0", "ben", parse("age >= 21"))
>>> network.publish("r2", Event({"age": 30}))
['ann', 'ben']
>>> network.sent["Subscribe"], network.routers["r2"].table_size
(2, 1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from matchwood.covering.graphs import RelationGraph
from matchwood.covering.router import ForwardAll, Forwarding, Router
from matchwood.covering.transport import InProcess, Key, RoutingError
from matchwood.lang.event import Event
from matchwood.lang.expression import Expression

Links = list[tuple[str, str]]


class Network:
    """Routers over an `InProcess` transport. Every call delivers all messages before it returns.

    `covering=False` forwards every subscription: the baseline.
    """

    def __init__(self, links: Links, *, covering: bool = True, names: Iterable[str] = ()) -> None:
        self.transport = InProcess()
        self._notified: list[tuple[str, Key]] = []
        make: Callable[[], Forwarding] = RelationGraph if covering else ForwardAll
        found = dict.fromkeys([*names, *(name for link in links for name in link)])
        self.routers = {name: Router(name, self.transport, notify=self._notify, forwarding=make) for name in found}
        _refuse_cycles(links)
        for a, b in links:
            self.routers[a].connect(b)
            self.routers[b].connect(a)

    def subscribe(self, router: str, client: str, expression: Expression) -> Key:
        """Register a client's subscription at a router."""
        key = self.routers[router].subscribe(client, expression)
        self.transport.run()
        return key

    def unsubscribe(self, key: Key) -> None:
        """Remove a subscription."""
        self.routers[key.router].unsubscribe(key)
        self.transport.run()

    def publish(self, router: str, event: Event) -> list[str]:
        """Publish at a router; return the clients that were notified, once for each of their subscriptions, sorted."""
        return sorted(client for client, _ in self.notifications(router, event))

    def notifications(self, router: str, event: Event) -> list[tuple[str, Key]]:
        """Publish at a router; return (client, subscription) of every notification, sorted."""
        self._notified = []
        self.routers[router].publish(event)
        self.transport.run()
        return sorted(self._notified)

    def stop(self, router: str) -> None:
        """Stop a router; messages to it are lost."""
        self.transport.cut(router)

    def restart(self, router: str) -> None:
        """Restart a router, which requests from its neighbours what it has forgotten."""
        self.transport.restore(router)
        self.routers[router].restart()
        self.transport.run()

    @property
    def sent(self) -> Counter[str]:
        """The number of messages so far, by class name."""
        return self.transport.sent

    @property
    def table_sizes(self) -> list[int]:
        """The size of every router's table."""
        return [router.table_size for router in self.routers.values()]

    def _notify(self, client: str, key: Key, event: Event) -> None:
        self._notified.append((client, key))


def line(size: int) -> Links:
    """r0 - r1 - r2 - ..."""
    return [(f"r{i}", f"r{i + 1}") for i in range(size - 1)]


def star(size: int) -> Links:
    """r0 in the middle."""
    return [("r0", f"r{i}") for i in range(1, size)]


def tree(size: int, *, fan_out: int = 3) -> Links:
    """A full tree below r0."""
    return [(f"r{(i - 1) // fan_out}", f"r{i}") for i in range(1, size)]


def random_tree(size: int, *, seed: int) -> Links:
    """Each router is linked to a random earlier one."""
    rng = np.random.default_rng(seed)
    return [(f"r{rng.integers(i)}", f"r{i}") for i in range(1, size)]


def _refuse_cycles(links: Links) -> None:
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while name in above:
            name = above[name]
        return name

    for a, b in links:
        if top(a) == top(b):
            raise RoutingError(f"the link between {a!r} and {b!r} closes a cycle; routers must form a tree")
        above[top(a)] = top(b)
