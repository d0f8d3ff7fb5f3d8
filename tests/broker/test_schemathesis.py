"""Requests made from the OpenAPI document: no answer is off it, and none is a 5xx. Long: `pytest -m stress`.

Schemathesis runs as a command: its plugin for pytest would cost every run of the tests a second, and is switched off
(pyproject.toml).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.service import Service, service

pytestmark = pytest.mark.stress

APART = [
    "/v1/stream",  # does not end
    "/v1/consumers/{name}/pull",  # waits up to 30 s
    "/v1/snapshot",  # takes seconds
    "/v1/keys",  # these three would end our own key
    "/v1/keys/{id}",
    "/v1/keys/{id}/rotate",
    "/v1/tenants/{name}",  # each is a folder
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Service]:
    with service() as made:
        yield made


@pytest.mark.parametrize("phase", ["coverage", "fuzzing", "stateful"])
def test_every_answer_is_one_that_the_document_describes(phase: str, broker: Service) -> None:
    """But that a request which fits its schema is accepted: a schema does not say which expressions can be parsed."""
    command = [Path(sys.executable).parent / "st", "run", f"{broker.url}/openapi.json", "--phases", phase]
    command += ["-H", f"Authorization: Bearer {broker.key}", "--exclude-checks", "positive_data_acceptance"]
    command += ["--max-examples", "20", "--seed", "1", "--request-timeout", "60"]
    for path in APART:
        command += ["--exclude-path", path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280, cwd=broker.folder)
    assert done.returncode == 0, done.stdout[-8000:]


def test_the_broker_has_survived(broker: Service) -> None:
    with broker.client() as mw:
        assert mw.status().state == "ready"
    assert '"level": "error"' not in broker.logged()
