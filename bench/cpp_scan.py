"""The C++ scan of bench/scan.cpp, compiled on the fly where a compiler is there, called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from matchwood.encode.arrays import INTERVAL, JOINED, Events, Rows
from matchwood.structures import Scan

DIMENSIONS = 0x10000


class CppScan:
    """Single-key events against plain rows (one interval a dimension). Takes its column order from a Scan of the same rows."""

    def __init__(self, rows: Rows, scan: Scan) -> None:
        if not np.isin(rows.kinds, (INTERVAL, JOINED)).all():
            raise ValueError("the C++ scan knows plain intervals only")
        self._function = _library().scan_event
        self._function.restype = ctypes.c_int64
        self._rows = rows
        self._columns = scan.columns_by_row()
        self._out = np.empty(rows.size, np.int64), np.empty(rows.size)
        self._keys = np.full((2, DIMENSIONS), np.nan, np.float32)
        self._exact = np.full(DIMENSIONS, np.nan), np.ones(DIMENSIONS)

    @staticmethod
    def available() -> bool:
        """Is there a C++ compiler?"""
        return shutil.which("g++") is not None

    def match(self, events: Events) -> list[tuple[np.ndarray, np.ndarray]]:
        """(ids, scores) of each event."""
        answers = []
        dims, lo, hi = self._columns
        rows = self._rows
        fixed = [
            len(rows.ids),
            len(dims),
            dims,
            lo,
            hi,
            rows.offsets,
            rows.dims,
            rows.lo,
            rows.hi,
            rows.weight,
            rows.priority,
        ]
        arguments = [_argument(a) for a in (*fixed, self._keys[0], self._keys[1], *self._exact, *self._out)]
        for e in range(events.size):
            span = slice(int(events.offsets[e]), int(events.offsets[e + 1]))
            self._load(events.dims[span], events.lo[span], events.weight[span])
            found = self._function(*arguments)
            answers.append((rows.ids[self._out[0][:found]], self._out[1][:found].copy()))
            self._load(events.dims[span], np.nan, 1.0)
        return answers

    def _load(self, dims: np.ndarray, keys: object, weights: object) -> None:
        self._exact[0][dims] = keys
        self._exact[1][dims] = weights
        single = self._exact[0][dims].astype(np.float32)
        self._keys[0][dims] = np.nextafter(single, np.float32(-np.inf))
        self._keys[1][dims] = np.nextafter(single, np.float32(np.inf))
        self._keys[:, -1] = 0.0  # the padding always holds


def _argument(value: object) -> object:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    assert isinstance(value, int)
    return ctypes.c_int64(value)


def _library() -> ctypes.CDLL:
    source = Path(__file__).with_name("scan.cpp")
    folder = Path(tempfile.mkdtemp(prefix="matchwood-bench-"))
    target = folder / "scan.so"
    subprocess.run(
        ["g++", "-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(target)], check=True
    )
    library = ctypes.CDLL(str(target))
    shutil.rmtree(folder)
    return library
