"""Is the write-ahead log of an SQLite file damaged in the middle?

SQLite takes the first frame with a wrong checksum for the end of the log: that is how it drops a transaction that was
cut off by a crash. A flipped bit in the middle looks the same, and everything after it would be lost in silence. The two
can be told apart. Each commit is flushed before the next one is written, so a crash leaves at most one commit after the
last valid frame. If there are more, acknowledged changes are damaged, and opening the file would destroy what is left of them.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy as np

from matchwood.errors import StorageError

HEADER = 32
FRAME = 24
_BIG_ENDIAN = 0x377F0683
_MAGICS = (0x377F0682, _BIG_ENDIAN)
_PAGES = tuple(1 << bits for bits in range(9, 17))


def check_wal(database: Path) -> None:
    """Raise `StorageError` if the log of this file has lost acknowledged transactions. O(bytes of the log)."""
    path = database.with_name(database.name + "-wal")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    lost = commits_after_damage(data)
    if lost > 1:
        raise StorageError(
            f"{path} is damaged: {lost} transactions follow the first damaged one, and SQLite would drop them; "
            "restore a backup, or move the file away to go back to the state before it"
        )


def commits_after_damage(data: bytes) -> int:
    """Commits of the current log, by their salts, at or after its first frame that is not valid."""
    if len(data) < HEADER:
        return 0
    magic, _, page, _, salt1, salt2, sum1, sum2 = struct.unpack(">8I", data[:HEADER])
    words = ">u4" if magic == _BIG_ENDIAN else "<u4"
    running = _checksum(data[: HEADER - 8], words, (0, 0))
    if magic not in _MAGICS or running != (sum1, sum2):
        return _commits(data, HEADER, page if page in _PAGES else 4096, None) if any(data) else 0
    at = HEADER
    while at + FRAME + page <= len(data):
        frame = data[at : at + FRAME]
        number, _, s1, s2, c1, c2 = struct.unpack(">6I", frame)
        running = _checksum(data[at + FRAME : at + FRAME + page], words, _checksum(frame[:8], words, running))
        if number == 0 or (s1, s2, c1, c2) != (salt1, salt2, *running):
            break
        at += FRAME + page
    return _commits(data, at, page, (salt1, salt2))


def _commits(data: bytes, at: int, page: int, salts: tuple[int, int] | None) -> int:
    """Frames from `at` on that end a transaction, among those with these salts (None: with those of the first frame)."""
    count = 0
    while at + FRAME <= len(data):
        _, size, s1, s2 = struct.unpack(">4I", data[at : at + 16])
        salts = salts or (s1, s2)
        count += size > 0 and (s1, s2) == salts
        at += FRAME + page
    return count


def _checksum(data: bytes, words: str, start: tuple[int, int]) -> tuple[int, int]:
    """SQLite's two sums: for each two words a and b, s0 += a + s1 and then s1 += b + s0, modulo 2^32.

    So a word that n others follow is in s0 F(n) times and in s1 F(n + 1) times, where F are the Fibonacci numbers. Of the sums at
    the start, s0 counts with the first word, and s1 as a word before it.
    """
    terms = np.concatenate([start[::-1], np.frombuffer(data, words)[1:]]).astype(np.uint32)
    terms[1:2] += np.frombuffer(data, words, 1)
    weights = _fibonacci_down_from(len(terms))
    return int(terms.dot(weights[1:])), int(terms.dot(weights[:-1]))


@cache
def _fibonacci_down_from(last: int) -> np.ndarray:
    """F(last), ..., F(1), F(0), modulo 2^32."""
    numbers = [0, 1]
    while len(numbers) <= last:
        numbers.append((numbers[-1] + numbers[-2]) & 0xFFFFFFFF)
    return np.array(numbers[::-1], np.uint32)
