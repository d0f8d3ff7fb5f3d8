"""Networks of routers against flooding: every client hears exactly what it would if every event went everywhere."""

from __future__ import annotations

import pytest

from matchwood.covering import Key, Network, RoutingError
from matchwood.covering.network import Links, line, random_tree, star, tree
from matchwood.errors import MatchwoodError, ParseError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import Event, event_keys
from matchwood.lang.expression import Expression
from matchwood.lang.parser import parse
from matchwood.lang.rows import normalise
from matchwood.schema import Schema
from tests.worlds import TYPES, Dice, an_event, an_expression, seeded_dice

LAYOUTS = {"line": line, "star": star, "tree": tree, "random tree": lambda size: random_tree(size, seed=size)}


class Flooding:
    """Every event is judged against every subscription: what a network must deliver."""

    def __init__(self) -> None:
        self.schema = Schema(TYPES)
        self.held: dict[Key, tuple[str, Expression]] = {}

    def notifications(self, event: Event) -> list[tuple[str, Key]]:
        rows = {key: normalise(expression, self.schema) for key, (_, expression) in self.held.items()}
        keys = event_keys(event, self.schema)  # strings that no subscription names have no key
        return sorted((self.held[key][0], key) for key in rows if judge(rows[key], keys).matched)


def a_simple_expression(dice: Dice) -> Expression:
    """Ranges that often cover one another."""
    parts = []
    for name in dict.fromkeys(dice.some(["age", "price", "rare"], 2)):
        lo = dice.below(8)
        parts.append(f"{name} BETWEEN {lo} AND {lo + dice.below(8)}")
    return parse(" AND ".join(parts))


def churn(network: Network, flooding: Flooding, dice: Dice, steps: int, *, simple: bool, restarts: bool) -> int:
    """Random subscribes, unsubscribes, events and restarts; return how many notifications were compared."""
    names = sorted(network.routers)
    heard = 0
    for step in range(steps):
        action = dice.below(10)
        router = dice.one(names)
        if action < 5 or not flooding.held:
            try:
                expression = a_simple_expression(dice) if simple else an_expression(dice, 2)
                key = network.subscribe(router, f"client {step}", expression)
            except MatchwoodError:
                continue  # never matches
            flooding.held[key] = f"client {step}", expression
        elif action < 7:
            key = dice.one(sorted(flooding.held))
            network.unsubscribe(key)
            del flooding.held[key]
        elif action == 7 and restarts:
            network.stop(router)
            for other in names:
                if other != router and dice.chance(4) and (mine := [k for k in flooding.held if k.router == other]):
                    network.unsubscribe(mine[0])  # the stopped router is not told
                    del flooding.held[mine[0]]
            network.restart(router)
        else:
            event = Event({n: dice.below(10) for n in ("age", "price", "rare")}) if simple else an_event(dice)
            expected = flooding.notifications(event)
            assert network.notifications(router, event) == expected
            heard += len(expected)
    return heard


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [2, 5, 12])
def test_clients_hear_exactly_what_flooding_would_tell_them(layout: str, size: int) -> None:
    network = Network(LAYOUTS[layout](size))
    assert churn(network, Flooding(), seeded_dice(size), 150, simple=True, restarts=False) > 50


@pytest.mark.parametrize("seed", range(3))
def test_expressions_of_every_kind_are_routed(seed: int) -> None:
    network = Network(random_tree(6, seed=seed))
    for router in network.routers.values():
        router.schema = Schema(TYPES)
    assert churn(network, Flooding(), seeded_dice(seed), 120, simple=False, restarts=False) > 20


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_router_that_restarts_is_told_what_it_has_forgotten_and_missed(layout: str) -> None:
    network = Network(LAYOUTS[layout](7))
    assert churn(network, Flooding(), seeded_dice(5), 200, simple=True, restarts=True) > 50
    assert network.sent["RequestAll"] > 5


def test_two_neighbours_that_restart_at_once_find_together() -> None:
    network, flooding = Network(line(5)), Flooding()
    for i in range(40):
        dice = seeded_dice(i)
        expression = a_simple_expression(dice)
        flooding.held[network.subscribe(f"r{i % 5}", f"client {i}", expression)] = f"client {i}", expression
    network.stop("r2")
    network.stop("r3")
    network.transport.restore("r2")
    network.transport.restore("r3")
    network.routers["r2"].restart()
    network.routers["r3"].restart()
    network.transport.run()
    for i in range(60):
        event = Event({name: (i * 7 + n) % 10 for n, name in enumerate(("age", "price", "rare"))})
        assert network.notifications(f"r{i % 5}", event) == flooding.notifications(event)


@pytest.mark.stress
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [40, 100])
def test_large_networks_under_long_churn(layout: str, size: int) -> None:
    network = Network(LAYOUTS[layout](size))
    assert churn(network, Flooding(), seeded_dice(size), 600, simple=True, restarts=True) > 300


def test_a_hundred_routers_deliver_what_flooding_would() -> None:
    network = Network(random_tree(100, seed=1))
    assert churn(network, Flooding(), seeded_dice(1), 60, simple=True, restarts=False) > 20


@pytest.mark.parametrize("layout", LAYOUTS)
def test_covering_sends_fewer_subscriptions_and_keeps_smaller_tables(layout: str) -> None:
    links: Links = LAYOUTS[layout](10)
    with_covering, without = Network(links), Network(links, covering=False)
    dice = seeded_dice(3)
    for i in range(150):
        expression = a_simple_expression(dice)
        for network in (with_covering, without):
            network.subscribe(f"r{i % 10}", "client", expression)
    assert with_covering.sent["Subscribe"] < without.sent["Subscribe"] / 2
    assert sum(with_covering.table_sizes) < sum(without.table_sizes) / 2
    for n in range(30):
        event = Event({"age": n % 9, "price": n % 7, "rare": n % 5})
        assert with_covering.notifications(f"r{n % 10}", event) == without.notifications(f"r{n % 10}", event)


def test_links_that_close_a_cycle_are_refused() -> None:
    with pytest.raises(RoutingError, match="cycle"):
        Network([*line(4), ("r3", "r0")])


def test_an_expression_that_is_refused_leaves_no_trace() -> None:
    network = Network(line(2))
    with pytest.raises(MatchwoodError):
        network.subscribe("r0", "ann", parse("age > 3 AND age < 2"))
    with pytest.raises(ParseError):
        network.subscribe("r0", "ann", parse("age >"))
    key = network.subscribe("r0", "ann", parse("age > 3"))
    assert network.sent["Subscribe"] == 1
    network.unsubscribe(key)
    with pytest.raises(RoutingError, match="no client"):
        network.unsubscribe(key)
    assert network.table_sizes == [0, 0]


def test_seeded_runs_repeat_to_the_message() -> None:
    sent = []
    for _ in range(2):
        network = Network(random_tree(8, seed=2))
        churn(network, Flooding(), seeded_dice(9), 80, simple=True, restarts=True)
        sent.append(dict(network.sent))
    assert sent[0] == sent[1]
