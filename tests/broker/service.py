"""The service for real: `matchwood serve` in a child process, on a free port, with its data in a folder."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from matchwood.client import SyncClient, connect_sync

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: these tests are about the service, not about the disk."""
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


class Service:
    """A broker in a child process. `key` is the admin key that its first start printed."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        key: str | None = None,
        port: int | None = None,
        through: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.options, self.key = folder, options, key
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = (folder.parent / f"{folder.name}.log").open("ab")
        command = [sys.executable, "-m", *(through or ("matchwood.cli.main",))]
        command += ["serve", "--data", str(folder), "--port", str(self.port)]
        command += ["--index", "scan", "--allow-webhooks-to", "127.0.0.0/8", "--allow-http-webhooks", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, cwd=ROOT, env={**os.environ, **(environment or {})}
        )
        self.printed = self._wait()
        found = re.search(r"mw_[a-z0-9]+_[A-Za-z0-9]+", self.printed)
        if found is not None:
            self.key = found[0]

    def _wait(self) -> str:
        assert self.process.stdout is not None
        printed, end = b"", time.monotonic() + 60
        while b"matchwood serves" not in printed:
            ready, _, _ = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not piece:
                self.kill()
                raise AssertionError(f"the broker did not start: {printed!r}")
            printed += piece
        return printed.decode()

    def client(self, key: str | None = None) -> SyncClient:
        return connect_sync(self.url, key=key or self.key)

    def logged(self) -> str:
        return (self.folder.parent / f"{self.folder.name}.log").read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self._end()

    def _end(self) -> None:
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()

    def verify(self) -> str:
        """What `matchwood verify` says of the folder of a service that has ended; empty if all is well."""
        command = [sys.executable, "-m", "matchwood.cli.main", "verify", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def again(self) -> Service:
        """A new process on the same folder and port."""
        return Service(self.folder, *self.options, key=self.key, port=self.port)


@contextmanager
def service(*options: str) -> Iterator[Service]:
    with memory_folder() as folder:
        made = Service(folder / "data", *options)
        try:
            yield made
        finally:
            if made.process.poll() is None:
                made.stop()
