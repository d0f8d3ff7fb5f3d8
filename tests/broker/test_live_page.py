"""`GET /live`: the page is served to browsers without a key, runs nothing but its own script, and shows what matches."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect

from tests.broker.service import Service, memory_folder

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with memory_folder() as folder:
        served = Service(folder / "data")
        yield served
        served.stop()


def test_a_browser_may_run_the_page_and_nothing_else(service: Service) -> None:
    with urlopen(f"{service.url}/live") as answer:
        page, policy = answer.read(), answer.headers["content-security-policy"]
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("connect-src") == "'self'"
    for tag in ("script", "style"):
        (inline,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline).digest()).decode()
        assert rules.pop(f"{tag}-src") == f"'sha256-{digest}'"
    assert set(rules.values()) == {"'none'"}
    assert b"://" not in page


def test_the_page_takes_no_parameters_so_no_key_gets_into_a_log(service: Service) -> None:
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{service.url}/live?key={service.key}")
    with refused.value as answer:
        assert answer.code == 400
    assert service.key is not None
    assert service.key not in service.logged()


def test_the_first_start_names_the_page(service: Service) -> None:
    assert f"open {service.url}/live" in service.printed


@contextmanager
def shown(url: str) -> Iterator[Callable[[], str]]:
    """The page as Chromium has it at the moment of the call; driven without a window, by its debugging protocol."""
    assert BROWSER is not None
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        options += [f"--user-data-dir={profile}", "--remote-debugging-port=0", url]
        process = subprocess.Popen([BROWSER, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = within(30, lambda: Path(profile, "DevToolsActivePort").read_text().split("\n")[0])
            with urlopen(f"http://127.0.0.1:{port}/json") as listed:
                (found,) = (target for target in json.load(listed) if target["type"] == "page")
            with connect(found["webSocketDebuggerUrl"], max_size=None) as socket:

                def page() -> str:
                    expression = {"expression": "document.documentElement.outerHTML"}
                    socket.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": expression}))
                    return str(json.loads(socket.recv())["result"]["result"]["value"])

                yield page
        finally:
            process.kill()
            process.wait()


def within(seconds: float, attempt: Callable[[], str]) -> str:
    """What the attempt returns once it returns something."""
    until = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            if found := attempt():
                return found
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium, to look at the page")
def test_a_match_appears_on_the_page(service: Service) -> None:
    with service.client() as client:
        client.put("price < 300 AND name != '<b>'", id="<i>me</i>", place=(10.75, 59.91), radius=1000)
        with shown(f"{service.url}/live#key={service.key}") as page_now:
            within(30, lambda: page_now() if 'role="status">connected<' in page_now() else "")
            client.publish({"price": 250, "name": "<script>", "place": [10.751, 59.911]})
            page = within(30, lambda: page_now() if "&lt;i&gt;me" in page_now() else "")
    assert "<b>&lt;i&gt;me&lt;/i&gt;</b>" in page
    assert '{"price":250,"name":"&lt;script&gt;","place":[10.751,59.911]}' in page
    assert service.key is not None
    assert service.key not in page
