"""Part files: the kept records of periods sealed together, and their persons.

A part never changes. Its fingerprint is keyed, covers its records in any order, and is chained with
the part before, so that a part that was changed, moved or left out is noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import BusyError, PrivateDataError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_to_document
from worker.journal.append_only_files import sync_folder, write_all
from worker.journal.records import Retired, Sealed

if TYPE_CHECKING:
    from worker.private.people import People

_WHO_BYTES = 16
_SUFFIX, _NEW = ".part", ".new"


@dataclass(frozen=True, repr=False)
class Part:
    """The kept records of the periods from `start` up to, but not including, `stop`.

    Args:
        codes: per attribute, the code of each record, in sorted order.
        kept: keyed digest of a person -> records of that person in this part.
    """

    start: int
    stop: int
    codes: tuple[NDArray[np.int64], ...]
    kept: Mapping[bytes, int]

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.start:07}-{self.stop:07}{_SUFFIX}"

    def fingerprint(self, domain: Domain, *, key: bytes, previous: str) -> str:
        """Keyed hash of the records, in hexadecimal, chained to the previous part.

        Args:
            previous: the fingerprint of the part before; '' for the first one.
        """
        digest = hashlib.blake2b(key=key, digest_size=32, person=b"qserver part")
        head = [domain_to_document(domain), self.start, self.stop, previous]
        digest.update(json.dumps(head, sort_keys=True).encode())
        for column in self.codes:
            digest.update(len(column).to_bytes(8, "big"))
            digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
        for who, n in sorted(self.kept.items()):
            digest.update(who + n.to_bytes(8, "big"))
        return digest.hexdigest()

    def per_period(self, axis: int) -> NDArray[np.int64]:
        """Number of records of each of its periods; private."""
        n_periods = self.stop - self.start
        return np.bincount(self.codes[axis] - self.start, minlength=n_periods)


def part_of(
    start: int,
    stop: int,
    codes: Sequence[NDArray[Any]],
    *,
    people: People | None,
    key: bytes,
) -> Part:
    """The part of these records; their order does not matter.

    Args:
        people: the person of each record; None without a column.
    """
    order = np.lexsort(tuple(codes))
    kept = dict[bytes, int]()
    if people is not None:
        kept = {who(name, key): n for name, n in people.counts()}
    return Part(start, stop, tuple(np.asarray(c, dtype=np.int64)[order] for c in codes), kept)


def rest_of(parts: Sequence[Part], *, axis: int, before: int, keep_people: bool) -> Part:
    """One part for neighbouring ones whose records before a period are erased.

    Args:
        axis: the attribute of periods.
        before: the first period whose records stay, at most the end of the last part.
        keep_people: keep how many records each person had in all of these parts. A rule with k in
            all needs it; of which periods they were is forgotten.
    """
    kept = dict[bytes, int]()
    for part in parts:
        for digest, n in part.kept.items():
            kept[digest] = kept.get(digest, 0) + n
    codes = [np.concatenate(columns) for columns in zip(*(p.codes for p in parts), strict=True)]
    stays = codes[axis] >= before
    order = np.lexsort(tuple(codes))
    order = order[stays[order]]
    return Part(before, parts[-1].stop, tuple(c[order] for c in codes), kept if keep_people else {})


def who(person: str, key: bytes) -> bytes:
    """The keyed digest of a person in later parts."""
    text = person.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=key, digest_size=_WHO_BYTES, person=b"qserver who").digest()


def kept_so_far(
    parts: Iterable[Part], people: People | None, *, key: bytes, of_earlier_version: bool = False
) -> dict[str, int]:
    """How many records each of these people has in earlier parts; only people with any.

    Args:
        of_earlier_version: whether parts may be of a version that called person 17 by another
            name, such as 17.0, where the column was of another type.
    """
    if people is None:
        return {}
    # Only appends come here: a waiting worker needs no readers of columns.
    from worker.coding.names import earlier_names

    sums = dict[bytes, int]()
    for part in parts:
        for one, n in part.kept.items():
            sums[one] = sums.get(one, 0) + n
    found = dict[str, int]()
    for name, _ in people.counts():
        names = [name, *(earlier_names(name) if of_earlier_version else ())]
        if n := sum(sums.get(who(one, key), 0) for one in names):
            found[name] = n
    return found


class PartFolder:
    """The part files of one snapshot.

    Args:
        folder: mode 0700; made on first use.
    """

    def __init__(self, folder: Path, domain: Domain, *, key: bytes) -> None:
        self._folder = folder
        self._domain = domain
        self._key = key

    def appending(self) -> AbstractContextManager[None]:
        """A section in which no other command writes or deletes part files.

        Raises:
            BusyError: another one does.
        """
        return _held(self._folder)

    def write(self, part: Part) -> None:
        """Write a part; durable, whole and under its name when this returns.

        Raises:
            PrivateDataError: it cannot be written, for example because the disk is full.
        """
        new = self._folder / (part.file + _NEW)
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                write_all(descriptor, _bytes_of(part))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            new.replace(self._folder / part.file)
            sync_folder(self._folder, fsync=os.fsync)
        except OSError as exc:
            raise PrivateDataError(f"The part cannot be written: {exc.strerror}.") from exc

    def sweep(self, sealed: Sequence[Sealed], retired: Retired | None = None) -> list[str]:
        """Delete files that no line of the journal needs; within `appending`.

        These are the parts of appends that died before they were decided, and those that a
        retirement stands for.
        """
        named = {record.file for record in _kept(sealed, retired)} | {"lock"}
        gone = [path for path in sorted(self._folder.iterdir()) if path.name not in named]
        for path in gone:
            path.unlink()
        return [path.name for path in gone]

    def remove(self) -> None:
        """Delete all parts; BusyError while a command appends."""
        with self.appending():
            self.delete()

    def delete(self) -> None:
        """Delete all parts; within `appending`."""
        shutil.rmtree(self._folder)

    def read(self, sealed: Sequence[Sealed], retired: Retired | None = None) -> list[Part]:
        """The sealed parts in order; one part stands for those with erased records.

        Raises:
            PrivateDataError: one is missing, or is not what was sealed.
        """
        before = {record.stop: record.fingerprint_hex for record in sealed}
        found = list[Part]()
        for record in _kept(sealed, retired):
            part = self._read(record)
            start = record.start if isinstance(record, Sealed) else record.before
            # The rest after a retirement is chained with the last part that it stands for.
            previous = before.get(start if isinstance(record, Sealed) else record.stop, "")
            fingerprint = part.fingerprint(self._domain, key=self._key, previous=previous)
            if fingerprint != record.fingerprint_hex or (part.start, part.stop) != (
                start,
                record.stop,
            ):
                raise PrivateDataError(f"Part {record.file} is not what was sealed.")
            found.append(part)
        return found

    def _read(self, record: Sealed | Retired) -> Part:
        try:
            return _part_of_bytes((self._folder / record.file).read_bytes())
        except Exception as exc:  # the errors of a damaged archive are not documented
            raise PrivateDataError(f"Part {record.file} is missing or cannot be read.") from exc


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """A section that holds the folder alone, made on first use."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as exc:
        raise BusyError("Another command appends to the dataset. Try again later.") from exc
    finally:
        os.close(descriptor)


def sweep_folders(folder: Path, *, named: Callable[[], Container[str]]) -> None:
    """Delete the part folders of detached snapshots.

    A rotation that died half-way leaves the one that it wrote, or the one that it replaced. A
    folder that a command holds stays.

    Args:
        folder: where the folders are.
        named: the attached snapshots, asked once the folders are known.
    """
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    attached = named()
    for one in found:
        if one.name not in attached:
            with suppress(BusyError), _held(one):
                shutil.rmtree(one)


def _kept(sealed: Sequence[Sealed], retired: Retired | None) -> list[Sealed | Retired]:
    """The lines whose files are needed: the rest after a retirement, and later parts."""
    if retired is None:
        return list(sealed)
    return [retired, *(record for record in sealed if record.start >= retired.stop)]


def _bytes_of(part: Part) -> bytes:
    file = io.BytesIO()
    digests = b"".join(part.kept)
    np.savez(
        file,
        ends=np.array([part.start, part.stop], dtype=np.int64),
        codes=np.stack(part.codes),
        people=np.frombuffer(digests, dtype=np.uint8),
        kept=np.array(list(part.kept.values()), dtype=np.int64),
    )
    return file.getvalue()


def _part_of_bytes(text: bytes) -> Part:
    with np.load(io.BytesIO(text), allow_pickle=False) as found:
        start, stop = map(int, found["ends"])
        digests, kept = found["people"].tobytes(), found["kept"].tolist()
        whose = [digests[i : i + _WHO_BYTES] for i in range(0, len(digests), _WHO_BYTES)]
        return Part(start, stop, tuple(found["codes"]), dict(zip(whose, kept, strict=True)))
