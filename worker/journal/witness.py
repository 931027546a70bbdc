"""A witness of rollback: a file on another disk or host that notes the journal's length.

Journal and store of one folder can be put back together from an old copy, and neither notices. The
witness does, if it was not put back as well. Each line has the number of the journal's lines, the
digest of the last, what was spent, and a MAC over these and over the line before.

A line is written, durable, after a charge is journalled and before its answer is drawn, and once
more before an answer is published. So whatever was drawn has its charge, and whatever was shown is
itself, in every journal that the witness accepts; and the witness is never ahead of a journal that
lost nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from qserver.errors import JournalError
from worker.constants import WORKER
from worker.journal.append_only_files import has_unwritten_block, read_lines, sync_folder, write_all
from worker.journal.records import canonical

_PURPOSE = b"qserver witness 1"
_FIRST = bytes(32)
"""In place of the MAC before the first line."""


class WitnessAwayError(JournalError):
    """The witness cannot be read or written: it tells nothing."""


@dataclass(frozen=True)
class WitnessSettings:
    """The places of the witnesses, and whether draws need them.

    Args:
        folder: it has a file for each population; on another disk or host.
        required: draw nothing while the witness is away. Otherwise the worker goes on.
    """

    folder: Path
    required: bool


@dataclass(frozen=True)
class Testimony:
    """The content of a line: the journal had `number` lines, the last with the digest `head`."""

    number: int
    head: bytes
    spent_nano: int


class Witness:
    """The witness of one population; use it within a section of its journal.

    Args:
        key: the worker's secret.
        fsync: makes the writes of a descriptor durable before it returns.
    """

    def __init__(
        self,
        settings: WitnessSettings,
        *,
        population: str,
        key: bytes,
        fsync: Callable[[int], None] = os.fsync,
    ) -> None:
        self.path = settings.folder / f"{population}.witness"
        self.required = settings.required
        self._population = population
        self._key = hmac.digest(key, _PURPOSE, "sha256")
        self._fsync = fsync
        self._identity: tuple[int, int] | None = None
        self._n_bytes = 0
        self._mac = _FIRST
        self._last: Testimony | None = None

    def begin(self, said: Testimony) -> bool:
        """Make the file with its first line; False if it has one.

        Raises:
            WitnessAwayError: it cannot be made.
            JournalError: there is another file in its place.
        """
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            sync_folder(self.path.parent, fsync=self._fsync)
        except FileExistsError:
            self._read()
            if self._last is not None:
                return False
        except OSError as exc:
            raise self._away() from exc
        self.write(said)
        return True

    def check(self, heads: Sequence[bytes]) -> None:
        """Return if the journal has everything that the witness saw; changes nothing.

        Args:
            heads: the digest of each line of the journal.

        Raises:
            WitnessAwayError: the witness cannot be read, or has no room.
            JournalError: the journal is an older copy, or another one.
        """
        self._read()
        last = self._last
        if last is None:
            raise JournalError(
                f"The witness {self.path} is empty. Put it back; if there never was one, begin it "
                "with `qserver-worker witness`."
            )
        if last.number > len(heads):
            raise self._refused(
                f"has seen {last.number} lines of the journal of population {self._population}, "
                f"which has {len(heads)} now: an older copy was put back."
            )
        if not hmac.compare_digest(last.head, heads[last.number - 1]):
            raise self._refused(
                f"has seen another journal of population {self._population}: this one was "
                "replaced, or went on from an older copy."
            )

    def attest(self, said: Testimony, heads: Sequence[bytes]) -> None:
        """Check, then write down the present journal; durable when this returns.

        Raises:
            WitnessAwayError, JournalError: as `check`, or the line cannot be written.
        """
        self.check(heads)
        if self._last is None or self._last.number < said.number:
            self.write(said)

    def write(self, said: Testimony) -> None:
        """Append a line, whatever came before; durable when this returns.

        Raises:
            WitnessAwayError: it cannot be written.
        """
        self._read()
        text, mac = self._line(said, previous=self._mac)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.ftruncate(descriptor, self._n_bytes)  # A crash may have left a torn line.
                write_all(descriptor, text)
                self._fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as exc:
            self._forget()
            raise self._away() from exc
        self._last, self._mac, self._n_bytes = said, mac, self._n_bytes + len(text)

    def _read(self) -> None:
        """Read the new whole lines; a torn last one is left."""
        try:
            # Opened for writing too: a read-only witness is noticed before any charge.
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                status, room = os.fstat(descriptor), os.fstatvfs(descriptor)
                identity = (status.st_dev, status.st_ino)
                if identity != self._identity or status.st_size < self._n_bytes:
                    self._forget()
                self._identity = identity
                lines = list(read_lines(descriptor, start=self._n_bytes, end=status.st_size))
            finally:
                os.close(descriptor)
        except OSError as exc:
            raise self._away() from exc
        if room.f_bavail * room.f_frsize < WORKER.witness_free_bytes:
            raise WitnessAwayError(f"The disk of the witness {self.path} is full: make room there.")
        if lines and (not lines[-1].endswith(b"\n") or has_unwritten_block(lines[-1])):
            lines.pop()  # The line was never durable, so nothing was drawn after it.
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            plain = json.loads(line)
            said = Testimony(
                int(plain["number"]), bytes.fromhex(plain["head"]), int(plain["spent_nano"])
            )
            text, mac = self._line(said, previous=self._mac)
        except (ValueError, TypeError, KeyError, RecursionError) as exc:
            raise self._foreign() from exc
        if said.number < 1 or not hmac.compare_digest(text, line):
            raise self._foreign()
        self._last, self._mac, self._n_bytes = said, mac, self._n_bytes + len(line)

    def _line(self, said: Testimony, *, previous: bytes) -> tuple[bytes, bytes]:
        """A line and its MAC."""
        body: dict[str, str | int] = {
            "population": self._population,
            "number": said.number,
            "head": said.head.hex(),
            "spent_nano": said.spent_nano,
        }
        mac = hmac.digest(self._key, previous + canonical(body), hashlib.sha256)
        return canonical({**body, "mac": mac.hex()}) + b"\n", mac

    def _forget(self) -> None:
        self._identity, self._n_bytes, self._mac, self._last = None, 0, _FIRST, None

    def _away(self) -> WitnessAwayError:
        return WitnessAwayError(
            f"The witness {self.path} is missing, read-only or no file. Mount its disk. If "
            "there never was one, begin it with `qserver-worker witness`."
        )

    def _foreign(self) -> JournalError:
        self._forget()
        return JournalError(
            f"The witness {self.path} was changed, or is another worker's or population's. Put "
            "the right one back. If it is lost, move this file away and begin another one with "
            "`qserver-worker witness`."
        )

    def _refused(self, why: str) -> JournalError:
        return JournalError(
            f"The witness {self.path} {why} Nothing is drawn. Put the newest journal back and run "
            "`qserver-worker restore`. If the newest is lost for ever and you know that nothing "
            "was asked since this copy was made, say so with `qserver-worker witness --accept "
            f"{self._population}`."
        )
