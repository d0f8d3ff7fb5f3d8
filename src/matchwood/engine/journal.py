"""The journal of a durable engine: one SQLite file, through `apsw`.

    journal        (seq, last, time, version, changes, checksum, body)
                   a chunk: the records seq..last of one transaction, see `records`; how many of them change the engine: `Changes`
    subscriptions  (position, id, body, revision, until)        what is subscribed now: a `Subscribed` record, by order
    live           (number, until, body)                        what is alive now: a `Kept` record
    meta           (key, value)                                 kind of ids, types of attributes, next numbers

The two tables of what is there now change in the transaction of the record. So old chunks can be removed at any time, and an
engine can be rebuilt from text alone if no snapshot fits. The write-ahead log is flushed at each commit
(`synchronous=FULL`), by the one connection that writes; readers, of other processes too, see whole transactions.

A commit that fails is not acknowledged and not repeated. After a failed fsync nobody knows what is on disk, so the journal
refuses all further writes; after a full disk it can go on.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from matchwood.engine.records import RECORDS_VERSION, Record, changing, decode_chunk, encode_chunk
from matchwood.engine.wal import check_wal
from matchwood.errors import JournalError, MissingExtraError, StorageError

try:
    import apsw
except ImportError as error:  # pragma: no cover
    raise MissingExtraError(
        f"Engine.open needs apsw, which cannot be imported ({error}); install it with: pip install 'matchwood[durable]'"
    ) from None

JOURNAL = "journal.db"
FORMAT = 1
_MAGIC = 0x4D57_4A31  # "MWJ1"
CHECKPOINT_PAGES = 4000
_TABLES = """
CREATE TABLE journal(
    seq INTEGER PRIMARY KEY, last INTEGER NOT NULL, time INTEGER NOT NULL, version INTEGER NOT NULL,
    changes INTEGER NOT NULL, checksum INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE subscriptions(
    position INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL, revision INTEGER NOT NULL,
    until INTEGER);
CREATE INDEX subscriptions_until ON subscriptions(until) WHERE until IS NOT NULL;
CREATE TABLE live(number INTEGER PRIMARY KEY, until INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX live_until ON live(until);
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""

Also = Callable[[Any, int], None]
"""What a transaction writes beside the chunk: called with the connection and the number of the first record."""


class Changes(IntEnum):
    """How many records of a chunk change the engine. Older journals have SOME in place of ALL."""

    NONE = 0
    SOME = 1
    ALL = 2


Chunked = tuple[Sequence[Record], int]
"""The records of a new chunk and their time."""


class Chunk(NamedTuple):
    """The records of one transaction, from `first` on; `time` is in microseconds since 1970."""

    first: int
    last: int
    time: int
    records: list[Record]


class Journal:
    """See the module's text. Thread safety: one thread at a time; a reader has a journal of its own."""

    def __init__(self, folder: Path, *, read_only: bool = False, tables: str = "") -> None:
        self.path = folder / JOURNAL
        self.failure: str | None = None
        is_new = not self.path.exists()
        if is_new and read_only:
            raise StorageError(f"{folder} has no journal; create one with Engine.open({str(folder)!r})")
        if not is_new and not read_only:  # nobody else writes
            check_wal(self.path)
        flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
        try:
            self.connection = apsw.Connection(str(self.path), flags=flags)
            self.connection.set_busy_timeout(10_000)
            if read_only:
                self.connection.pragma("query_only", True)
            else:
                self._prepare(is_new, tables)
            self._check_format()
            self._last = self._read_last()
        except apsw.Error as error:
            raise StorageError(f"{self.path} cannot be opened: {error}") from None

    def _prepare(self, is_new: bool, tables: str) -> None:
        connection = self.connection
        if is_new:
            connection.pragma("auto_vacuum", 2)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", 2)
        connection.pragma("cache_size", -16_000)
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        connection.pragma("journal_size_limit", 64 << 20)
        if connection.pragma("application_id") == 0 and not list(connection.execute("SELECT 1 FROM sqlite_master")):
            with connection:
                connection.execute(_TABLES + tables)
                connection.pragma("application_id", _MAGIC)
                connection.pragma("user_version", FORMAT)
            _flush_folder(self.path.parent)

    def _check_format(self) -> None:
        if self.connection.pragma("application_id") != _MAGIC:
            raise StorageError(f"{self.path} is not a journal of Matchwood; choose another folder")
        version = self.connection.pragma("user_version")
        if version > FORMAT:
            raise StorageError(f"{self.path} has format {version}, this Matchwood reads {FORMAT}; use a newer one")

    def _read_last(self) -> int:
        last = self.connection.execute("SELECT max(last) FROM journal").get
        return max(int(last or 0), int(self.meta("last") or 0))

    @property
    def last(self) -> int:
        """The number of the last record, 0 if there is none yet. Numbers start at 1."""
        return self._last

    def refresh(self) -> int:
        """Read `last` again: for a reader, while another process writes."""
        self._last = self._read_last()
        return self._last

    # writing

    def write(self, records: Sequence[Record], time: int, also: Also | None = None) -> int:
        """Make records of one time durable, in one transaction; return the number of the first. See `write_chunks`."""
        return self.write_chunks([(records, time)] if records else [], also)

    def write_chunks(self, chunks: Sequence[Chunked], also: Also | None = None) -> int:
        """Make records durable, each chunk with its time, in one transaction; return the number of the first. See `transact`."""

        def work(connection: Any, first: int) -> Sequence[Chunked]:
            if also is not None:
                also(connection, first)
            return chunks

        return self.transact(work)

    def transact(self, work: Callable[[Any, int], Sequence[Chunked]]) -> int:
        """Call `work` with the connection and the number of the next record, and make what it writes and returns durable.

        When this returns, the records survive a power cut. `JournalError` if that is impossible: then nothing is changed.
        Returns the number of the first record.
        """
        if self.failure is not None:
            raise JournalError(f"the journal refuses changes: {self.failure}; open it again when the disk is well")
        first = following = self._last + 1
        execute = self.connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for records, time in work(self.connection, first):
                body = encode_chunk(records)
                last = following + len(records) - 1
                chunk = (following, last, time, RECORDS_VERSION, _changes(records), zlib.crc32(body), body)
                execute("INSERT INTO journal VALUES(?, ?, ?, ?, ?, ?, ?)", chunk)
                following = last + 1
            execute("COMMIT")
        except apsw.Error as error:
            raise self._failed(error) from None
        except BaseException:
            self._roll_back()
            raise
        self._last = following - 1
        return first

    def _roll_back(self) -> None:
        with suppress(apsw.Error):
            if not self.connection.get_autocommit():
                self.connection.execute("ROLLBACK")

    def _failed(self, error: apsw.Error) -> JournalError:
        """The error to raise; what is not a lack of space ends all writing."""
        self._roll_back()
        if isinstance(error, apsw.FullError):
            return JournalError(f"{self.path}: the disk is full; nothing was changed: make room and try again")
        if isinstance(error, apsw.BusyError):
            return JournalError(f"{self.path}: another process writes to the journal; nothing was changed")
        self.failure = f"{self.path} could not be written ({error})"
        return JournalError(f"{self.failure}; the change is not acknowledged and the journal refuses further ones")

    def set_meta(self, key: str, value: str | int) -> None:
        """Set a value, in a transaction of its own unless one is open."""
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))

    def meta(self, key: str) -> Any:
        """The value of a key; None if it has none."""
        return self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get

    # reading

    def chunks(self, after: int, *, changes_only: bool = False, limit: int = -1) -> Iterator[Chunk]:
        """The chunks with records after this number, in order; with `changes_only` those that change no engine come empty."""
        wanted = "CASE WHEN changes THEN body END" if changes_only else "body"
        sql = (
            f"SELECT seq, last, time, version, checksum, {wanted} FROM journal "
            "WHERE seq >= (SELECT coalesce(max(seq), 0) FROM journal WHERE seq <= ?) AND last > ? ORDER BY seq LIMIT ?"
        )
        try:
            for first, last, time, version, checksum, body in self.connection.execute(sql, (after + 1, after, limit)):
                records = [] if body is None else decode_chunk(body, version, checksum, first)
                yield Chunk(first, last, time, records)
        except apsw.Error as error:
            raise StorageError(f"{self.path} cannot be read: {error}") from None

    def data_version(self) -> int:
        """A number that changes when another connection has committed."""
        return int(self.connection.pragma("data_version"))

    # care

    def trim(self, upto: int, before: int, *, keep: int = 2**62) -> int:
        """Remove chunks that are older than an instant, or more than `keep` records old; return how many. Writer only.

        Chunks that change the engine are removed only up to the record `upto`, which a snapshot has.
        """
        with self.connection:
            old = "(time < ? OR last <= ?) AND (changes = 0 OR last <= ?)"
            given = (before, self._last - keep, upto)
            sql = f"SELECT max(last), max(last) FILTER (WHERE changes) FROM journal WHERE {old}"
            found = self.connection.execute(sql, given).get
            if found is None or found[0] is None:
                return 0
            self.set_meta("last", self._last)
            self.set_meta("trimmed", max(found[0], self.trimmed))
            self.set_meta("trimmed_changes", max(found[1] or 0, self.trimmed_changes))
            self.connection.execute(f"DELETE FROM journal WHERE {old}", given)
            removed = self.connection.changes()
        self.connection.pragma("incremental_vacuum", 10_000)
        return removed

    @property
    def trimmed(self) -> int:
        """The number of the last record that was removed; 0 if none was."""
        return int(self.meta("trimmed") or 0)

    @property
    def trimmed_changes(self) -> int:
        """The number of the last removed record of a chunk that changed the engine; 0 if none was."""
        return int(self.meta("trimmed_changes") or 0)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file."""
        with suppress(apsw.BusyError):
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def check(self) -> list[str]:
        """What is wrong with the file: SQLite's own checks, checksums and gaps. O(bytes)."""
        problems = []
        try:
            answers = [row[0] for row in self.connection.execute("PRAGMA integrity_check(10)")]
            problems += [f"SQLite: {answer}" for answer in answers if answer != "ok"]
            expected = None
            for chunk in self.chunks(0):
                if expected is not None and chunk.first != expected and expected > self.trimmed:
                    problems.append(f"records {expected} to {chunk.first - 1} are missing")
                if chunk.last - chunk.first + 1 != len(chunk.records):
                    problems.append(f"record {chunk.first}: the chunk has {len(chunk.records)} records")
                expected = chunk.last + 1
        except (apsw.Error, StorageError) as error:
            problems.append(str(error))
        return problems

    def copy_to(self, path: Path) -> None:
        """Write the state of this moment to a new file, while the journal is written by others. O(bytes)."""
        try:
            reader = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                reader.set_busy_timeout(10_000)
                reader.execute("VACUUM INTO ?", (str(path),))
            finally:
                reader.close()
            with path.open("rb") as file:
                os.fsync(file.fileno())
            _flush_folder(path.parent)
        except (apsw.Error, OSError) as error:
            raise StorageError(f"{path} could not be written: {error}") from None

    def close(self) -> None:
        """Close the file. May be repeated."""
        self.connection.close()


def _changes(records: Sequence[Record]) -> Changes:
    count = changing(records)
    if count == len(records):
        return Changes.ALL
    return Changes.SOME if count else Changes.NONE


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:  # some file systems cannot
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
