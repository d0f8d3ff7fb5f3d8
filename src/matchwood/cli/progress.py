"""A progress bar: on a terminal it is redrawn in place, elsewhere it is printed once at the end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

_WIDTH = 30
_REDRAW_S = 0.1


class Progress:
    """`with Progress("matching", 5000) as bar: ... bar.at(done)`. The total may be told later: `bar.at(done, total)`."""

    def __init__(self, label: str, total: int = 0, *, stream: TextIO | None = None) -> None:
        self._label = label
        self._total = max(total, 1)
        self._stream = sys.stderr if stream is None else stream
        self._start = self._drawn = time.perf_counter()
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._done = self._total
            self._draw(end="\n")

    def at(self, done: int, total: int | None = None) -> None:
        """Set how much is done. Cheap enough to be called often."""
        self._done = done
        self._total = self._total if total is None else max(total, 1)
        now = time.perf_counter()
        if self._stream.isatty() and now - self._drawn >= _REDRAW_S:
            self._drawn = now
            self._draw(end="")

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._start

    def _draw(self, end: str) -> None:
        share = min(self._done / self._total, 1.0)
        bar = "#" * round(share * _WIDTH)
        rate = self._done / max(self.seconds, 1e-9)
        start = "\r" if self._stream.isatty() else ""
        text = f"{self._label:<34} [{bar:<{_WIDTH}}] {self._done:>9,} / {self._total:,}  {rate:,.0f}/s  {self.seconds:.1f} s"
        print(start + text, end=end, file=self._stream, flush=True)
