"""Requests made from the OpenAPI document: no answer is off it, and none is a 5xx. Long: `pytest -m stress`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from matchwood.broker.openapi import openapi
from tests.broker.service import Service, service

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")
pytestmark = [pytest.mark.stress, pytest.mark.filterwarnings("default")]

APART = ["/v1/stream", "/v1/snapshot", "/v1/keys", "/v1/keys/{id}", "/v1/keys/{id}/rotate", "/v1/tenants/{name}"]
"""Streams do not end, a snapshot takes seconds, and the others would revoke our key or fill the disk with tenants."""
SETTINGS = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    """Text as it is."""
    return str(value).encode("utf-8", "replace")


schema = schemathesis.openapi.from_dict(openapi()).exclude(path=APART)


@pytest.fixture(scope="module")
def broker() -> Iterator[Service]:
    with service() as made:
        yield made


def sent(case: Any, broker: Service) -> Any:
    """The answer to a request; a pull does not wait."""
    wait = case.body.get("wait") if case.path.endswith("/pull") and isinstance(case.body, dict) else None
    if type(wait) in (int, float) and 0 <= wait <= 30:
        case.body["wait"] = 0
    return case.call(base_url=broker.url, headers={"Authorization": f"Bearer {broker.key}"}, timeout=60)


def judge(case: Any, response: Any) -> None:
    """Compare the answer with the document. It does not say which expressions can be parsed, nor what lines of NDJSON are."""
    unknown = [checks.positive_data_acceptance]
    if case.media_type == "application/x-ndjson":
        unknown.append(checks.negative_data_rejection)
    case.validate_response(response, excluded_checks=unknown)


@schema.parametrize()
@SETTINGS
def test_every_answer_is_one_that_the_document_describes(case: Any, broker: Service) -> None:
    judge(case, sent(case, broker))


def test_chains_of_requests_by_the_links_of_the_document(broker: Service) -> None:
    """By its command: it copes with a broker that remembers what earlier chains have done."""
    command = [Path(sys.executable).parent / "st", "run", f"{broker.url}/openapi.json", "--phases", "stateful"]
    command += ["-H", f"Authorization: Bearer {broker.key}", "--exclude-checks", "positive_data_acceptance"]
    command += ["--max-examples", "20", "--seed", "1", "--request-timeout", "60", "--workers", "1"]
    for path in [*APART, "/v1/consumers/{name}/pull"]:
        command += ["--exclude-path", path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280, cwd=broker.folder)
    assert done.returncode == 0, done.stdout[-5000:]


def test_the_broker_has_survived_and_verifies(broker: Service) -> None:
    with broker.client() as mw:
        assert mw.status().state == "ready"
    assert '"level": "error"' not in broker.logged()
