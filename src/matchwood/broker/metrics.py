"""What the broker counts, for Prometheus. Labels are few and bounded: never a subscription, a consumer or an event."""

from __future__ import annotations

from collections.abc import Callable

from matchwood import __version__
from matchwood.errors import MissingExtraError

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
    from prometheus_client.exposition import choose_encoder
except ImportError as error:
    raise MissingExtraError(
        f"the metrics of the broker need prometheus-client, which cannot be imported ({error}); "
        "install it with: pip install 'matchwood[broker]'"
    ) from None

TRANSPORTS = ("sse", "websocket", "pull", "webhook", "kafka", "link")
OUTCOMES = ("delivered", "acknowledged", "repeated", "failed", "dead", "shed")
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class Metrics:
    """The metrics of one broker, in a registry of their own. Counting is thread safe; a count costs about a microsecond.

    >>> metrics = Metrics()
    >>> metrics.events.labels("accepted").inc(3)
    >>> metrics.deliveries.labels("webhook", "failed").inc()
    >>> content_type, text = metrics.text()
    >>> [line for line in text.decode().splitlines() if line.startswith("matchwood_events_total")][0]
    'matchwood_events_total{outcome="accepted"} 3.0'
    """

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._refreshing: list[Callable[[], None]] = []

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace="matchwood", registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace="matchwood", registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, namespace="matchwood", registry=registry, buckets=buckets)

        Info("build", "Version of the broker.", namespace="matchwood", registry=registry).info({"version": __version__})
        self.requests = counter("requests", "HTTP requests by route and status.", "route", "status")
        self.events = counter("events", "Events by outcome: accepted, duplicate, rejected.", "outcome")
        self.matches = counter("matches", "Subscriptions that events have matched.")
        self.changes = counter("changes", "Changes of subscriptions that were acknowledged.")
        self.commits = histogram("commit_seconds", "Time of one durable commit of a group of records.", _SECONDS)
        self.commit_records = histogram("commit_records", "Records in one commit.", _COUNTS)
        self.match_seconds = histogram("match_seconds", "Time to match one group of events.", _SECONDS)
        self.deliveries = counter("deliveries", "Deliveries by transport and outcome.", "transport", "outcome")
        self.shed = counter("shed_matches", "Matches left out for lack of capacity, by place.", "place")
        self.refused = counter("refused", "Requests refused by a limit or quota, by limit.", "limit")
        self.subscriptions = gauge("subscriptions", "Subscriptions, paused ones included.")
        self.live_events = gauge("live_events", "Events that later subscriptions are matched with.")
        self.streams = gauge("streams", "Open streams by transport.", "transport")
        self.waiting = gauge("waiting_deliveries", "Deliveries that wait in the outbox, by transport.", "transport")
        self.dead_letters = gauge("dead_letters", "Dead letters that nobody has replayed or discarded.")
        self.lag = gauge("consumer_lag_seconds", "Age of the oldest delivery that waits, by transport.", "transport")
        self.open_circuits = gauge("open_circuits", "Hosts of webhooks that attempts pause for.")
        self.covered_ratio = gauge("covered_ratio", "Share of subscriptions not forwarded to a link.", "link")
        self.journal_bytes = gauge("journal_bytes", "Size of the journal on disk.")
        self.snapshot_seq = gauge("snapshot_seq", "Last record of the newest snapshot.")
        self.ready = gauge("ready", "1 if the broker takes writes.")

    def before_scrape(self, refresh: Callable[[], None]) -> None:
        """Call this before each scrape: it sets the gauges that nobody keeps up to date."""
        self._refreshing.append(refresh)

    def text(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and body of the exposition: in the format that the `Accept` header prefers, else in plain text."""
        for refresh in self._refreshing:
            refresh()
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)
