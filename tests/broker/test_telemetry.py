"""Traces: a `traceparent` goes with the event, with and without OpenTelemetry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from matchwood import ManualClock
from matchwood.broker import telemetry
from matchwood.broker.hub import encode_match
from matchwood.broker.types import DeliveryOptions
from tests.broker.service import memory_folder
from tests.broker.tenants import Direct, incoming
from tests.broker.test_tenant import START

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_traceparent_reaches_consumers_and_streams_and_nonsense_does_not() -> None:
    with memory_folder() as folder:
        direct = Direct(folder, ManualClock(START))
        direct.call(direct.tenant.subscribe, {"expression": "age > 0", "id": "s"}, DeliveryOptions(consumer="c"))
        direct.publish([msgspec.structs.replace(incoming({"age": 1}), trace=PARENT)])
        [entry], _ = direct.call(direct.tenant.pull, "stream:c", 9, 9.0)
        assert entry.delivery().traceparent == PARENT
        [happening] = direct.streamed
        assert json.loads(encode_match(happening, "s", 1.0, None))["traceparent"] == PARENT
        direct.close()
    assert telemetry.checked("x\r\nEvil: 1") is None


def test_a_span_is_made_below_the_parent_where_opentelemetry_is_set_up() -> None:
    pytest.importorskip("opentelemetry.sdk")
    script = f"""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
seen = InMemorySpanExporter()
provider = TracerProvider(); provider.add_span_processor(SimpleSpanProcessor(seen)); trace.set_tracer_provider(provider)
from matchwood.broker import telemetry
with telemetry.span("publish", {PARENT!r}) as passed_on:
    pass
[span] = seen.get_finished_spans()
assert span.name == "publish" and f"{{span.parent.span_id:x}}" == "b7ad6b7169203331"
assert passed_on.split("-")[1] == "0af7651916cd43dd8448eb211c80319c" and passed_on != {PARENT!r}
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
