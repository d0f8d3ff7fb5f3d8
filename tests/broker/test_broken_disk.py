"""The service on a disk that is full, or whose fsync fails: changes are refused, and what was acknowledged is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.broker.service import Service, memory_folder
from tests.broker.test_service import send


def published(broker: Service, number: int, size: int = 10) -> int:
    """The status of an event with the id `number`."""
    return send(broker, "POST", f"/v1/events?id=e{number}", {"price": 1, "text": "x" * size})[0]


def stored(broker: Service) -> list[Any]:
    """The ids of all events."""
    with broker.client() as mw:
        return [event.id for event in mw.events()]


def test_a_failed_fsync_is_not_repeated_and_nothing_is_acknowledged_after_it(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("making fsync fail needs a C compiler")
    library, flag = tmp_path / "failing.so", tmp_path / "fails"
    source = Path(__file__).with_name("failing_fsync.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    with memory_folder() as folder:
        broker = Service(folder / "data", environment={"LD_PRELOAD": str(library), "FSYNC_FAILS": str(flag)})
        with broker.client() as mw:
            mw.put("price < 300", id="s", delivery={"consumer": "c"})
        assert [published(broker, number) for number in range(5)] == [202] * 5
        flag.touch()
        assert published(broker, 5) == 507
        flag.unlink()  # the disk seems well, but nobody knows what of the last write is on it
        assert published(broker, 6) == 507
        assert send(broker, "POST", "/v1/subscriptions", {"expression": "TRUE"})[0] == 507
        assert send(broker, "GET", "/readyz", key="")[0] == 503
        assert send(broker, "GET", "/v1/status")[1]["state"] == "failed"
        assert stored(broker)[:5] == [f"e{number}" for number in range(5)]  # reading goes on
        broker.kill()
        again = broker.again()
        assert set(stored(again)) - {"e5"} == {f"e{number}" for number in range(5)}
        assert published(again, 7) == 202
        again.stop()
        assert again.verify() == ""


def test_a_full_disk_is_told_and_the_service_goes_on_when_there_is_room() -> None:
    with memory_folder() as folder:
        data = folder / "data"
        data.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(data)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("mounting a small tmpfs needs privileges")
        try:
            broker = Service(data)
            with broker.client() as mw:
                mw.put("price < 300", id="s", delivery={"consumer": "c"})
            acknowledged = 0
            while (status := published(broker, acknowledged, 20_000)) == 202:
                acknowledged += 1
            assert status == 507
            assert acknowledged > 5
            assert stored(broker) == [f"e{number}" for number in range(acknowledged)]
            subprocess.run(["mount", "-o", "remount,size=16m", str(data)], check=True)
            assert published(broker, acknowledged) == 202
            with broker.client() as mw:
                [consumer] = mw.consumers()
                assert consumer.waiting == acknowledged + 1
            broker.kill()
            again = broker.again()
            assert stored(again) == [f"e{number}" for number in range(acknowledged + 1)]
            again.stop()
            assert again.verify() == ""
        finally:
            subprocess.run(["umount", "-l", str(data)], check=True)
