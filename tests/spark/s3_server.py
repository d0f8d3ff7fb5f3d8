"""An S3 server for tests: moto's, in a process of its own, one request at a time, so that conditional puts are atomic."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BUCKET = "lakes"
SERVER = """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """The storage options of a running server that has an empty bucket."""
    command = [sys.executable, "-W", "ignore", "-c", SERVER]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        _make_bucket(endpoint)
        yield {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": endpoint, "region_name": "us-east-1"}}
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def _make_bucket(endpoint: str) -> None:
    request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT", headers={"Authorization": "AWS test:test"})
    for _ in range(50):
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError("moto's server did not make a bucket")
