"""The journal of one population: a file that is append-only, fsynced and chained by digests.

It outlives the store. A charge in it was made. An answer in it is published again, and never drawn
again. One file serves every worker process of a host: each takes an exclusive lock for a section,
reads the lines that the others appended, and may then append.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from qserver.errors import JournalError
from worker.constants import WORKER
from worker.journal.append_only_files import NO_ROOM, is_torn, read_lines, sync_folder, write_all
from worker.journal.records import (
    GENESIS,
    SCHEMA_VERSION,
    Burnt,
    Group,
    JournalLine,
    Opened,
    Record,
    Released,
    Reserved,
    read_line,
    write_line,
)
from worker.journal.state import JournalState
from worker.journal.witness import Testimony, Witness, WitnessAwayError

CLOSED = (
    "The population is closed: its journal comes from a backup, and nobody knows what was drawn "
    "since. History is answered, and nothing is drawn any more."
)


class JournalFullError(JournalError):
    """The journal's disk has no room. That may pass; then open the journal again."""


class Journal:
    """One population's journal; make it with `Journal.open`.

    `state` is as of the end of the last section, or of the current moment within one.
    Several threads may use one object, also after a fork: no descriptor outlives a section.
    """

    witness: Witness | None = None
    """Tells whether the journal is an older copy; None if there is nothing to tell."""

    def __init__(self, path: Path, *, fsync: Callable[[int], None]) -> None:
        self._path = path
        self._fsync = fsync
        self._state = JournalState()
        self._digest = GENESIS
        self._heads: list[bytes] = []
        self._n_bytes = 0
        self._identity: tuple[int, int] | None = None
        self._section = threading.RLock()
        self._descriptor: int | None = None
        self._failed = False

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        population: str,
        create: bool,
        fsync: Callable[[int], None] = os.fsync,
    ) -> Journal:
        """The journal at `path`, read and checked to its end.

        Args:
            path: the file; its folder must exist.
            population: the population that it must belong to.
            create: begin one (mode 0600) if there is none. False refuses a missing or empty file,
                so that a lost journal is noticed.
            fsync: makes the writes of a descriptor durable before it returns.

        Raises:
            JournalError: the file is missing, damaged, another population's, of a newer version,
                or readable by others.
        """
        journal = cls(path, fsync=fsync)
        if create:
            journal._touch()
        with journal.exclusive():
            if journal._state.population is None:
                if not create:
                    raise JournalError("The journal is empty. Restore it, or attach anew.")
                # The folder first, so that a file with a first line is found again for certain.
                journal._sync_folder()
                journal.append(Opened(population=population, schema_version=SCHEMA_VERSION))
            if journal._state.population != population:
                raise JournalError("The journal belongs to another population.")
        return journal

    @contextmanager
    def exclusive(self, *, wait: bool = True) -> Iterator[Journal]:
        """A section in which only this thread holds the journal.

        On entry it reads the lines of others, makes them durable, and cuts off a torn tail.

        Args:
            wait: wait for another holder; if False, refuse at once.

        Raises:
            JournalError: it is held elsewhere (without `wait`), nested in itself, damaged,
                replaced or shortened, or an earlier append of this object failed.
        """
        if not self._section.acquire(blocking=wait):
            raise _locked()
        try:
            self._refuse_unusable()
            descriptor = self._open_file()
            try:
                self._lock(descriptor, wait=wait)
                self._catch_up(descriptor)
                self._descriptor = descriptor
                yield self
            finally:
                self._descriptor = None
                os.close(descriptor)  # also gives the lock back
        finally:
            self._section.release()

    def append(self, record: Record) -> None:
        """Write `record`; it is durable when this returns.

        Raises:
            JournalError: there is no section, or a rule of `JournalState` forbids the record;
                nothing is written then. Or the write failed. Then this object refuses all further
                work, since nobody knows how much of a failed fsync reached the disk.
        """
        descriptor = self._held_descriptor()
        self._state.check(record)
        line = write_line(record, sequence=len(self._heads), previous=self._digest)
        with self._writing():
            write_all(descriptor, line.text)
            self._fsync(descriptor)
        self._take(line)

    def append_all(
        self, records: Sequence[Reserved] | Sequence[Released] | Sequence[Burnt]
    ) -> None:
        """Write records of one kind in one line; otherwise as `append`."""
        if records:
            self.append(records[0] if len(records) == 1 else Group(tuple(records)))

    def records(self) -> Iterator[Record]:
        """Every record, oldest first, read again from the file; within a section."""
        return (record for line in self.lines() for record in line.records)

    def lines(self) -> Iterator[JournalLine]:
        """Every line, oldest first, read again from the file; within a section."""
        descriptor = self._held_descriptor()
        digest = GENESIS
        texts = read_lines(descriptor, start=0, end=self._n_bytes)
        for sequence, text in enumerate(texts):
            line = read_line(text, sequence=sequence, previous=digest)
            digest = line.digest
            yield line

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def n_records(self) -> int:
        """Number of lines; the records of a group share one."""
        return len(self._heads)

    @property
    def state(self) -> JournalState:
        """The sum of its records, to read only."""
        return self._state

    @property
    def testimony(self) -> Testimony:
        """A witness's testimony of the present journal."""
        return Testimony(len(self._heads), self._digest, self._state.spent_nano)

    @property
    def heads(self) -> Sequence[bytes]:
        """The digest of each line, to read only."""
        return self._heads

    def check_witness(self) -> bool:
        """Whether the witness agrees with this journal; within a section.

        Returns:
            False if the witness is away, and is only wished for. True also without a witness.

        Raises:
            JournalError: an older copy was put back, or a witness that is required is away.
        """
        return self._ask(lambda witness: witness.check(self._heads))

    def check_room(self) -> None:
        """Return if there is room for the lines of a charge; within a section.

        Raises:
            JournalFullError: there is not.
        """
        disk = os.fstatvfs(self._held_descriptor())
        if disk.f_bavail * disk.f_frsize < WORKER.journal_free_bytes:
            raise JournalFullError(f"The disk of {self._path.parent} is full.")

    def attest(self) -> bool:
        """Show the witness the present journal; otherwise as `check_witness`."""
        return self._ask(lambda witness: witness.attest(self.testimony, self._heads))

    def _ask(self, question: Callable[[Witness], None]) -> bool:
        self._held_descriptor()
        if self.witness is None:
            return True
        try:
            question(self.witness)
        except WitnessAwayError:
            if self.witness.required:
                raise
            return False
        return True

    def _touch(self) -> None:
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as exc:
            raise JournalError("The journal cannot be created.") from exc

    def _open_file(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as exc:
            raise JournalError("The journal is missing or cannot be opened.") from exc

    def _lock(self, descriptor: int, *, wait: bool) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as exc:
            raise _locked() from exc
        except OSError as exc:
            raise JournalError("The journal's file system cannot lock files.") from exc

    def _refuse_unusable(self) -> None:
        if self._descriptor is not None:
            raise JournalError("A section of the journal must not be nested in another.")
        if self._failed:
            raise JournalError("An earlier append failed; open the journal anew.")

    def _held_descriptor(self) -> int:
        with self._section:  # so that this is not another thread's section
            if self._descriptor is None:
                raise JournalError("A record must be appended within an exclusive section.")
            if self._failed:
                raise JournalError("An earlier append failed; open the journal anew.")
            return self._descriptor

    def _catch_up(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise JournalError("The journal must be accessible to its owner only (mode 0600).")
        if self._identity not in (None, identity) or status.st_size < self._n_bytes:
            raise JournalError("The journal was replaced or shortened while in use.")
        self._identity = identity
        if status.st_size == self._n_bytes:
            return
        self._read_new(descriptor, n_bytes=status.st_size)
        with self._writing():
            if status.st_size > self._n_bytes:
                os.ftruncate(descriptor, self._n_bytes)
            # A holder that died before its fsync left lines in the page cache alone.
            self._fsync(descriptor)

    def _read_new(self, descriptor: int, *, n_bytes: int) -> None:
        """Read the whole lines up to `n_bytes`; a crash's torn rest is left.

        Any other fault is damage, in the last line too: that line may have been acknowledged.
        """
        for text in read_lines(descriptor, start=self._n_bytes, end=n_bytes):
            place = len(self._heads)
            is_last = self._n_bytes + len(text) == n_bytes
            if is_last and is_torn(text, sequence=place, previous=self._digest):
                return
            self._take(read_line(text, sequence=place, previous=self._digest))

    def _take(self, line: JournalLine) -> None:
        self._state.apply(line.record)
        self._digest = line.digest
        self._heads.append(line.digest)
        self._n_bytes += len(line.text)

    def _sync_folder(self) -> None:
        with self._writing():
            sync_folder(self._path.parent, fsync=self._fsync)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Make this object unusable if the block fails or is interrupted."""
        self._failed = True
        try:
            yield
        except OSError as exc:
            if exc.errno in NO_ROOM:
                raise JournalFullError(f"The disk of {self._path.parent} is full.") from exc
            raise JournalError("The journal could not be written.") from exc
        self._failed = False


def _locked() -> JournalError:
    return JournalError("The journal is held by another worker.")
