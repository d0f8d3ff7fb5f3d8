"""A tenant against the oracle: whatever happens, restarts included, its matches and deliveries are what the definition says.

Webhooks are sent by the code of the broker, from the outbox to retries and circuit breakers; what replaces signatures and the
network is a receiver that answers as it is told.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from matchwood import ManualClock, Schema, parse
from matchwood.broker.commands import Conditions, Taken
from matchwood.broker.egress import Egress
from matchwood.broker.hooks import Hooks
from matchwood.broker.hub import Hub
from matchwood.broker.metrics import Metrics
from matchwood.broker.retries import Schedule
from matchwood.broker.types import DeliveryOptions, NewHook, TenantLimits
from matchwood.broker.webhooks import Message, Sender
from matchwood.errors import ConflictError, DuplicateSubscriptionError, UnknownSubscriptionError
from matchwood.lang.evaluate import judge
from matchwood.lang.event import event_keys
from matchwood.lang.rows import normalise
from tests.broker.tenants import Direct, incoming

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {"age": "number", "plan": "string", "place": "point"}
EXPRESSIONS = [
    "age > 3",
    "age BETWEEN 2 AND 6 ^0.5",
    "plan IN ('a', 'b') OR age = 1",
    "NOT plan = 'c'",
    "TRUE",
    "age > 8 AND plan = 'a' ^2",
]
NOTHING = Conditions()
RETRIES = {"ordered": 2, "unordered": 1}
"""The hooks, and how often each repeats a delivery."""
TARGETS = [None, "c", *RETRIES]
"""Where the matches of a subscription go: to streams alone, to a durable consumer, or to a hook."""


def micro(clock: ManualClock, seconds: float = 0.0) -> int:
    return int((clock() + timedelta(seconds=seconds)).timestamp() * 1e6)


def score_of(expression: str, priority: float, event: dict[str, Any]) -> float | None:
    """The oracle."""
    schema = Schema(SCHEMA)
    return judge(normalise(parse(expression), schema), event_keys(event, schema), priority=priority).score


def options_of(target: str | None) -> DeliveryOptions:
    if target in RETRIES:
        return DeliveryOptions(type="webhook", hook=target)
    return DeliveryOptions(consumer=target)


def consumer_of(target: str) -> str:
    return f"webhook:{target}" if target in RETRIES else f"stream:{target}"


class Model:
    """What a tenant should hold: in plain dictionaries, judged by the oracle."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, dict[str, Any]] = {}  # in the order of subscription
        self.live: dict[int, tuple[dict[str, Any], datetime]] = {}
        self.events: dict[int, dict[str, Any]] = {}
        self.outbox: list[tuple[str, str, int, float]] = []  # consumer, subscription, seq, score
        self.dead: list[tuple[str, str, int, float]] = []
        self.failures: Counter[tuple[str, str, int]] = Counter()  # of deliveries to hooks that wait
        self.arrived: dict[tuple[str, str], list[int]] = {}  # at hooks, by subscription: in the order of first arrival
        self.disabled: set[str] = set()  # hooks
        self.silent: set[str] = set()  # hooks that get nothing now
        self.ids: dict[str, int] = {}

    def expire(self, now: datetime) -> None:
        self.subscriptions = {i: s for i, s in self.subscriptions.items() if s["until"] is None or now < s["until"]}
        self.live = {seq: (e, until) for seq, (e, until) in self.live.items() if now < until}

    def matches(self, event: dict[str, Any]) -> list[tuple[str, float]]:
        found = []
        for order, (id_, one) in enumerate(self.subscriptions.items()):
            score = None if one["paused"] else score_of(one["expression"], one["priority"], event)
            if score is not None:
                found.append((-score, order, id_))
        return [(id_, -negative) for negative, _, id_ in sorted(found)]

    def attempted(self, hook: str, delivery: dict[str, Any], status: int) -> None:
        """A hook was sent a delivery, and has answered."""
        assert hook not in self.silent
        consumer, subscription, seq = f"webhook:{hook}", delivery["subscription"], delivery["seq"]
        key = consumer, subscription, seq
        one = consumer, subscription, seq, delivery["score"]
        assert one in self.outbox, f"{one} was sent and does not wait"
        assert delivery["event"] == self.events[seq]
        assert delivery.get("attempt", 1) == self.failures[key] + 1
        arrived = self.arrived.setdefault((hook, subscription), [])
        if seq not in arrived:
            arrived.append(seq)
        if 200 <= status < 300:
            self.outbox.remove(one)
            del self.failures[key]
            return
        self.failures[key] += 1
        if status == 410:
            self.disabled.add(hook)
        if status == 410 or self.failures[key] > RETRIES[hook]:
            self.outbox.remove(one)
            self.dead.append(one)
            del self.failures[key]


class InProcess(Sender):
    """The sender of the broker with a receiver in place of the network; `answers` are the next ones, 204 after them."""

    def __init__(self, clock: ManualClock, received: Callable[[str, dict[str, Any], int], None]) -> None:
        seconds = lambda: clock().timestamp()  # noqa: E731
        super().__init__(egress=Egress.of(["127.0.0.0/8"], http=True), schedule=Schedule(jitter=0.0), clock=seconds)
        self.answers: deque[int] = deque()
        self.wrong: list[
            Exception
        ] = []  # what the model objected to: the sender takes an exception for a failed connection
        self._received = received

    async def _post(self, message: Message) -> tuple[int, str | None, str]:
        await asyncio.sleep(0)  # others are sent meanwhile
        status = self.answers.popleft() if self.answers else 204
        try:
            self._received(message.url.rpartition("/")[2], msgspec.json.decode(message.body), status)
        except Exception as error:
            self.wrong.append(error)
        return status, None, ""


events = st.fixed_dictionaries({}, optional={"age": st.integers(0, 9), "plan": st.sampled_from("abc")})
names = st.sampled_from([f"s{n}" for n in range(6)])


class TenantMachine(RuleBasedStateMachine):
    """Subscribe, update, pause, expire, publish, live, consume, acknowledge, send, restart, in any order."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(START)
        self.model = Model()
        self.leased: list[str] = []
        self._open()
        self.direct.call(self.direct.tenant.declare, SCHEMA, True)
        for name in RETRIES:
            self._put_hook(name, enabled=True)
            self.subscribe(
                id_=f"to {name}", expression="TRUE", priority=1, seconds=None, to=name
            )  # so that there is always one

    def teardown(self) -> None:
        if hasattr(self, "direct"):
            self.direct.close()
            self.loop.close()
            shutil.rmtree(self.folder)

    def _open(self) -> None:
        """Open the tenant, with its hooks."""
        self.direct = Direct(self.folder, self.clock, TenantLimits(retention=1e9))
        tenant, metrics = self.direct.tenant, Metrics()
        hub = Hub(tenant, metrics)

        def committed(happenings: list[Any], woken: set[str], last: int) -> None:
            self.direct.streamed.extend(happenings)
            hub.committed(happenings, woken, last)

        async def call(run: Callable[..., Any], *given: Any) -> Any:
            return self.direct.call(run, *given)

        tenant.on_commit = committed
        tenant.call = call  # type: ignore[method-assign]
        self.hooks = Hooks(tenant, hub, Egress.of(["127.0.0.0/8"], http=True), metrics)
        self.sender = self.hooks._sender = InProcess(self.clock, self.model.attempted)

    def _put_hook(self, name: str, *, enabled: bool) -> None:
        url = f"http://127.0.0.1/{name}"
        new = NewHook(url=url, enabled=enabled, ordered=name == "ordered", retries=RETRIES[name])
        self.direct.call(self.hooks.put, name, new)
        (self.model.disabled.discard if enabled else self.model.disabled.add)(name)

    def _given(self, expression: str, priority: int, seconds: int | None) -> dict[str, Any]:
        until = None if seconds is None else self.clock() + timedelta(seconds=seconds)
        return {"expression": expression, "priority": float(priority), "until": until}

    @rule(
        id_=names,
        expression=st.sampled_from(EXPRESSIONS),
        priority=st.integers(0, 2),
        seconds=st.none() | st.integers(1, 90),
        to=st.sampled_from(TARGETS),
    )
    def subscribe(self, id_: str, expression: str, priority: int, seconds: int | None, to: str | None) -> None:
        given = self._given(expression, priority, seconds)
        tenant = self.direct.tenant
        try:
            made, _, live = self.direct.call(tenant.subscribe, {**given, "id": id_}, options_of(to))
        except DuplicateSubscriptionError:
            assert id_ in self.model.subscriptions
            return
        assert made == id_
        assert id_ not in self.model.subscriptions
        self.model.subscriptions[id_] = {**given, "paused": False, "target": to}
        expected = [
            (-s, seq)
            for seq, (event, _) in self.model.live.items()
            if (s := score_of(expression, priority, event)) is not None
        ]
        assert live == [(seq, -negative) for negative, seq in sorted(expected)]

    @rule(id_=names, expression=st.sampled_from(EXPRESSIONS), stale=st.booleans())
    def update(self, id_: str, expression: str, stale: bool) -> None:
        tenant = self.direct.tenant
        known = tenant.stored(id_)
        revision = None if known is None or not stale else known[1] - 1
        try:
            self.direct.call(tenant.change, id_, {"expression": expression}, Conditions(revision))
        except UnknownSubscriptionError:
            assert id_ not in self.model.subscriptions
            return
        except ConflictError:
            assert revision is not None
            return
        assert revision is None
        self.model.subscriptions[id_]["expression"] = expression

    @rule(id_=names, to=st.sampled_from(TARGETS))
    def deliver_elsewhere(self, id_: str, to: str | None) -> None:
        try:
            self.direct.call(self.direct.tenant.change, id_, {"delivery": options_of(to)}, NOTHING)
        except UnknownSubscriptionError:
            assert id_ not in self.model.subscriptions
            return
        self.model.subscriptions[id_]["target"] = to

    @rule(id_=names, paused=st.booleans())
    def pause(self, id_: str, paused: bool) -> None:
        try:
            self.direct.call(self.direct.tenant.change, id_, {"paused": paused}, NOTHING)
        except UnknownSubscriptionError:
            assert id_ not in self.model.subscriptions
            return
        self.model.subscriptions[id_]["paused"] = paused

    @rule(id_=names)
    def unsubscribe(self, id_: str) -> None:
        try:
            self.direct.call(self.direct.tenant.unsubscribe, id_, NOTHING)
        except UnknownSubscriptionError:
            assert id_ not in self.model.subscriptions
            return
        del self.model.subscriptions[id_]

    @rule(
        batch=st.lists(
            st.tuples(events, st.sampled_from([None, None, "e1", "e2"]), st.none() | st.integers(1, 60)),
            min_size=1,
            max_size=4,
        ),
        k=st.none() | st.integers(1, 4),
    )
    def publish(self, batch: list[Any], k: int | None) -> None:
        sent = [incoming(e, id_, None if s is None else micro(self.clock, s)) for e, id_, s in batch]
        self.direct.streamed.clear()
        results = self.direct.publish(sent, k)
        streamed = []
        for (event, id_, seconds), taken in zip(batch, results, strict=True):
            assert isinstance(taken, Taken)
            if id_ in self.model.ids:
                assert (taken.duplicate, taken.seq) == (True, self.model.ids[id_])
                continue
            expected = self.model.matches(event)[:k]
            assert (taken.duplicate, taken.hits) == (False, expected)
            self.model.events[taken.seq] = event
            if id_ is not None:
                self.model.ids[id_] = taken.seq
            if seconds is not None:
                self.model.live[taken.seq] = event, self.clock() + timedelta(seconds=seconds)
            for subscription, score in expected:
                target = self.model.subscriptions[subscription]["target"]
                if target is not None:
                    self.model.outbox.append((consumer_of(target), subscription, taken.seq, score))
            if expected:
                streamed.append((taken.seq, expected))
        assert [(h.seq, h.hits) for h in self.direct.streamed] == streamed

    @rule(limit=st.integers(1, 3))
    def consume(self, limit: int) -> None:
        entries, shed = self.direct.call(self.direct.tenant.pull, "stream:c", limit, 10.0)
        assert shed is None
        for entry in entries:
            assert ("stream:c", entry.subscription, entry.seq, entry.score) in self.model.outbox
            self.leased.append(f"{entry.subscription}@{entry.seq}")

    @rule()
    def acknowledge(self) -> None:
        if self.leased:
            id_ = self.leased.pop(0)
            waited = [one for one in self.model.outbox if f"{one[1]}@{one[2]}" == id_ and one[0] == "stream:c"]
            assert self.direct.call(self.direct.tenant.acknowledge, "stream:c", [id_]) == len(waited)
            self.model.outbox = [one for one in self.model.outbox if one not in waited]

    # webhooks

    @rule(answers=st.lists(st.sampled_from([500, 204, 204, 500, 410]), min_size=1, max_size=6))
    def send(self, answers: list[int]) -> None:
        """Send what is due; the receiver answers so, then 204."""
        self.model.silent = {*self.model.disabled}
        self.sender.answers.extend(answers)
        self.loop.run_until_complete(self._send_all())
        self.sender.answers.clear()
        if self.sender.wrong:
            raise self.sender.wrong[0]

    async def _send_all(self) -> None:
        hooks = self.hooks
        while True:
            busy = await hooks._look()
            while hooks._in_flight:
                busy = True
                await asyncio.gather(*hooks._in_flight)
                await asyncio.sleep(0)  # lets go of them
            if not busy:
                return

    @rule(rounds=st.integers(1, 4))
    def fail(self, rounds: int) -> None:
        """The receiver is ill for a while: some deliveries are given up."""
        for _ in range(rounds):
            self.send([500] * 50)
            self.wait(40)

    @rule(name=st.sampled_from(sorted(RETRIES)), enabled=st.booleans())
    def switch(self, name: str, enabled: bool) -> None:
        self._put_hook(name, enabled=enabled)

    @rule(name=st.sampled_from(sorted(RETRIES)))
    def revive(self, name: str) -> None:
        """Deliver the dead letters of a hook again: out of order, since what came after them has arrived."""
        consumer = f"webhook:{name}"
        back = [one for one in self.model.dead if one[0] == consumer]
        assert self.direct.call(self.direct.tenant.revive, None, name) == len(back)
        self.model.dead = [one for one in self.model.dead if one[0] != consumer]
        self.model.outbox.extend(back)
        for _, subscription, _, _ in back:
            self.model.arrived[name, subscription] = []

    @rule()
    def settle(self) -> None:
        """With a receiver that is well everything arrives within hours."""
        for name in RETRIES:
            self._put_hook(name, enabled=True)
        for _ in range(3):  # a circuit that is open lets one through at first
            self.wait(7200)
            self.send([])
        assert not [one for one in self.model.outbox if one[0].startswith("webhook:")]

    # time

    @rule(seconds=st.integers(1, 40))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)
        self.model.expire(self.clock())

    @rule()
    def restart(self) -> None:
        self.direct.close()
        self._open()

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        if not hasattr(self, "direct"):
            return
        tenant = self.direct.tenant
        assert set(tenant.engine.ids().tolist()) == set(self.model.subscriptions)
        rows = tenant._connection.execute("SELECT consumer, subscription, seq, score FROM outbox ORDER BY number")
        waiting = list(rows)
        assert sorted(waiting) == sorted(self.model.outbox)
        assert len(waiting) == tenant._waiting
        dead = list(tenant._connection.execute("SELECT consumer, subscription, seq, score FROM dead"))
        assert sorted(dead) == sorted(self.model.dead)
        assert len(dead) == tenant._dead
        disabled = tenant._connection.execute("SELECT name FROM hooks WHERE NOT enabled")
        assert {name for (name,) in disabled} == self.model.disabled

    @invariant()
    def an_ordered_hook_gets_the_matches_of_a_subscription_by_seq(self) -> None:
        if hasattr(self, "direct"):
            for (hook, _), seqs in self.model.arrived.items():
                assert hook != "ordered" or seqs == sorted(seqs)


TestTenant = TenantMachine.TestCase
TestTenant.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
