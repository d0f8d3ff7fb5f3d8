"""The result of a benchmark: figures, the parameters of its workloads and the environment, printed and stored as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `ratio` is baseline / ours: above 1 is better. `verified` means that answers were compared in the same run.

    `part` names the part of the experiment that measured it. Parts are measured as a whole.
    """

    workload: str
    system: str
    n: int
    metric: str
    value: float
    baseline: str | None = None
    ratio: float | None = None
    verified: bool = False
    spread: float | None = None
    part: str | None = None


@dataclass
class Report:
    """Collects rows and prints each at once.

    `path` is the file that stores it after each part: an interrupted run continues with the first part that is missing.
    """

    preset: str
    path: Path | None = None
    rows: list[Row] = field(default_factory=list)
    workloads: dict[str, dict[str, Any]] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _part: str | None = None

    @classmethod
    def resume(cls, preset: str, path: Path) -> Report:
        """The report that a run of this preset has stored in the file; empty if there is none."""
        if not path.exists():
            return cls(preset, path)
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["preset"] != preset:
            raise SystemExit(
                f"{path} contains the preset {saved['preset']!r}, not {preset!r}; use another file or --fresh"
            )
        rows = [Row(**row) for row in saved["rows"] if row["part"] in saved["parts"]]
        return cls(preset, path, rows, saved["workloads"], saved["parts"])

    def part(self, name: str, call: Callable[[], object]) -> None:
        """Measure a part of the experiment and store it, unless it is stored already."""
        if name in self.parts:
            print(f"... {name}: measured at {self.parts[name]['time']}", file=sys.stderr, flush=True)
            return
        self._part, start = name, time.perf_counter()
        with self.step(name):
            call()
        self._part = None
        self.parts[name] = {"commit": _commit(), "time": _now(), "seconds": round(time.perf_counter() - start, 1)}
        self.save()

    def workload(self, name: str, **parameters: Any) -> None:
        """Record the parameters and the seed of a workload."""
        self.workloads[name] = parameters

    def row(
        self,
        *,
        workload: str,
        system: str,
        n: int,
        metric: str,
        value: float,
        baseline: str | None = None,
        ratio: float | None = None,
        verified: bool = False,
        spread: float | None = None,
    ) -> None:
        """Add a figure and print it."""
        row = Row(workload, system, n, metric, float(value), baseline, ratio, verified, spread, self._part)
        self.rows.append(row)
        against = f"  {row.ratio:8.2f} x {row.baseline}" if row.ratio is not None else ""
        mark = "verified" if row.verified else ""
        print(
            f"{row.workload:<28} {row.system:<24} {row.n:>9,} {row.metric:<22} {row.value:>14,.3f}{against}  {mark}",
            flush=True,
        )

    def value(self, *, workload: str, system: str, metric: str) -> float | None:
        """The latest figure of this name, or None."""
        for row in reversed(self.rows):
            if (row.workload, row.system, row.metric) == (workload, system, metric):
                return row.value
        return None

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print the name and the duration of a step to the error stream."""
        start = time.perf_counter()
        print(f"... {text}", file=sys.stderr, flush=True)
        yield
        print(f"    {text}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)

    def save(self) -> None:
        """Write everything as JSON, atomically, if the report has a path."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "environment": environment(),
            "preset": self.preset,
            "parts": self.parts,
            "workloads": self.workloads,
            "rows": [asdict(row) for row in self.rows],
        }
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(content, indent=1, default=str), encoding="utf-8")
        draft.replace(self.path)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: the median of the repeats and their spread (max - min)."""

    median: float
    spread: float


def timed(call: Callable[[], object], *, repeats: int = 5) -> Timing:
    """Time a call, which the caller has warmed up."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return Timing(statistics.median(seconds), max(seconds) - min(seconds))


def median_time(call: Callable[[], object], repeats: int = 5) -> float:
    """The median of the repeats, in seconds."""
    return timed(call, repeats=repeats).median


def side_by_side(calls: dict[str, Callable[[], object]], *, repeats: int = 7) -> dict[str, Timing]:
    """Time several calls alternately, so that noise affects all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: Timing(statistics.median(s), max(s) - min(s)) for name, s in seconds.items()}


def environment() -> dict[str, Any]:
    """The machine and the versions of packages."""
    packages = {}
    for package in ("matchwood", "numba", "llvmlite", "numpy", "pyarrow", "pyspark", "pyroaring", "duckdb"):
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "packages": packages,
        "commit": _commit(),
        "time": _now(),
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _commit() -> str | None:
    try:
        done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
