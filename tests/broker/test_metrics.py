"""Metrics: what Prometheus reads is what was counted, and no label grows with the data."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from matchwood.broker.metrics import OUTCOMES, TRANSPORTS, Metrics

BOUNDED = {"route", "status", "outcome", "transport", "place", "limit", "link", "version", "le"}


def filled() -> Metrics:
    metrics = Metrics()
    metrics.requests.labels("/v1/events", "202").inc()
    metrics.events.labels("accepted").inc(5)
    metrics.commits.observe(0.003)
    metrics.commit_records.observe(64)
    metrics.match_seconds.observe(0.0004)
    for transport in TRANSPORTS:
        for outcome in OUTCOMES:
            metrics.deliveries.labels(transport, outcome).inc(2)
        metrics.lag.labels(transport).set(1.5)
    metrics.covered_ratio.labels("north").set(0.8)
    metrics.shed.labels("stream").inc(3)
    metrics.refused.labels("body").inc()
    return metrics


@pytest.mark.parametrize(
    ("accept", "parse"), [("", plain), ("application/openmetrics-text; version=1.0.0", openmetrics)]
)
def test_the_exposition_is_valid_and_holds_what_was_counted(accept: str, parse: object) -> None:
    content_type, body = filled().text(accept)
    assert content_type.startswith("application/openmetrics-text" if accept else "text/plain")
    families = {family.name: family for family in parse(body.decode())}  # type: ignore[operator]
    values = {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for f in families.values()
        for sample in f.samples
    }
    assert values["matchwood_events_total", ("accepted",)] == 5
    assert values["matchwood_deliveries_total", ("dead", "webhook")] == 2
    assert values["matchwood_commit_seconds_count", ()] == 1
    assert values["matchwood_consumer_lag_seconds", ("pull",)] == 1.5
    assert values["matchwood_covered_ratio", ("north",)] == 0.8
    assert all(family.documentation for family in families.values())


def test_no_metric_is_labelled_by_subscription_consumer_or_event() -> None:
    labels = {name for family in filled().registry.collect() for sample in family.samples for name in sample.labels}
    assert labels == BOUNDED


def test_gauges_are_refreshed_before_a_scrape() -> None:
    metrics = Metrics()
    metrics.before_scrape(lambda: metrics.subscriptions.set(7))
    assert b"matchwood_subscriptions 7.0" in metrics.text()[1]


def test_two_brokers_in_a_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.matches.inc()
    assert b"matchwood_matches_total 1.0" in one.text()[1]
    assert b"matchwood_matches_total 0.0" in other.text()[1]
