"""Seal files: a count of records, then for each attribute its sorted codes.

A seal has its name only when it is whole. What it must hold is told by the fingerprint in the
registry: keyed, over the domain and the sorted codes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import MeasurementError, PrivateDataError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_to_document
from worker.coding.width import code_dtype
from worker.constants import WORKER
from worker.journal.files import sync_folder
from worker.private.sealed.rows import PackedRows, half_of_memory
from worker.private.tables import RecordTable

_MAGIC = b"qserver seal 1\n\0"
_HEAD_BYTES = 64
_ALIGNED = 64
SUFFIX = ".seal"


class NewSeal:
    """A seal that has no name yet, and that is gone with this object unless it is given one.

    Args:
        file: its file, whole.
        n: number of records.
    """

    def __init__(self, file: Any, sizes: Sequence[int], n: int) -> None:
        self._file, self._sizes, self._n = file, tuple(sizes), n
        weakref.finalize(self, file.close)

    def table(self) -> RecordTable:
        """The records in it, mapped."""
        return _table(self._file, self._sizes, self._n, memory_bytes=0)

    def keep_as(self, path: Path) -> None:
        """Give it its name; durable, and whole or not there at any moment.

        Raises:
            PrivateDataError: the disk does not take it.
        """
        try:
            os.fsync(self._file.fileno())
            self._link(path)
            sync_folder(path.parent, fsync=os.fsync)
        except OSError as exc:
            raise PrivateDataError(f"The seal cannot be written: {exc.strerror}.") from None

    def _link(self, path: Path) -> None:
        # By the folder of open files: only so does Python follow the link to a file without a name.
        files = os.open("/proc/self/fd", os.O_RDONLY)
        try:
            os.link(str(self._file.fileno()), path, src_dir_fd=files, follow_symlinks=True)
        except FileNotFoundError:
            self._copy(path)
        finally:
            os.close(files)

    def _copy(self, path: Path) -> None:
        """For a disk that knows no files without a name."""
        new = path.with_suffix(".new")
        self._file.seek(0)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            shutil.copyfileobj(self._file, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def seal_rows(
    rows: PackedRows, sizes: Sequence[int], n: int, *, folder: Path, flagged: bool
) -> NewSeal:
    """The seal of sorted records.

    Args:
        n: how many of them it holds.
        flagged: whether those that are flagged alone.
    """
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the seal
    try:
        file.write((_MAGIC + n.to_bytes(8, "little")).ljust(_HEAD_BYTES, b"\0"))
        for axis in range(len(sizes)):
            for piece in rows.pieces(axis, flagged=flagged):
                file.write(piece.tobytes())
            file.write(bytes(-file.tell() % _ALIGNED))
        file.flush()
    except OSError as exc:
        file.close()
        raise PrivateDataError(f"The seal cannot be written: {exc.strerror}.") from None
    return NewSeal(file, sizes, n)


def open_seal(path: Path, domain: Domain, *, memory_bytes: int | None = None) -> RecordTable:
    """The records of a seal.

    Args:
        memory_bytes: most that they may take in memory; more is mapped. The default is half of
            what the machine has.

    Raises:
        PrivateDataError: it is missing, or is no seal of such a domain.
    """
    most = half_of_memory() if memory_bytes is None else memory_bytes
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            n = int.from_bytes(head[len(_MAGIC) : len(_MAGIC) + 8], "little")
            if (
                not head.startswith(_MAGIC)
                or os.fstat(file.fileno()).st_size != _ends(domain.sizes, n)[-1]
            ):
                raise PrivateDataError(f"{path.name} is no seal of this domain.")
            return _table(file, domain.sizes, n, memory_bytes=most)
    except MeasurementError:  # a code is none of its attribute's
        raise PrivateDataError(f"The seal {path.name} is not what was attached.") from None
    except OSError as exc:
        raise PrivateDataError(f"The seal {path.name} cannot be read: {exc.strerror}.") from None


def fingerprint_of(
    columns: Iterable[Iterable[NDArray[Any]]], n: int, domain: Domain, key: bytes
) -> str:
    """Keyed hash of a domain and of codes in their order, in hexadecimal.

    Args:
        columns: per attribute, the codes in their smallest type, in pieces.
        n: number of records.
    """
    digest = hashlib.blake2b(key=key, digest_size=32)
    digest.update(json.dumps(domain_to_document(domain), sort_keys=True).encode())
    for pieces in columns:
        digest.update(n.to_bytes(8, "big"))
        for piece in pieces:
            digest.update(piece.tobytes())
    return digest.hexdigest()


def fingerprint_of_table(table: RecordTable, domain: Domain, key: bytes) -> str:
    """The fingerprint of a table."""
    columns = (_pieces(codes) for codes in table.codes)
    return fingerprint_of(columns, len(table.codes[0]), domain, key)


def _pieces(codes: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(codes), WORKER.batch_records):
        yield codes[start : start + WORKER.batch_records]


def _ends(sizes: Sequence[int], n: int) -> list[int]:
    """Where the head ends, and each column with what fills it up."""
    ends = [_HEAD_BYTES]
    for size in sizes:
        end = ends[-1] + n * np.dtype(code_dtype(size)).itemsize
        ends.append(end + -end % _ALIGNED)
    return ends


def _table(file: Any, sizes: Sequence[int], n: int, *, memory_bytes: int) -> RecordTable:
    ends = _ends(sizes, n)
    codes: list[Any] = []
    for start, size in zip(ends, sizes, strict=False):
        kind = code_dtype(size)
        if n == 0:
            codes.append(np.zeros(0, dtype=kind))
        elif ends[-1] > memory_bytes:
            codes.append(np.memmap(file, dtype=kind, mode="r", offset=start, shape=(n,)))
        else:
            file.seek(start)
            codes.append(np.fromfile(file, dtype=kind, count=n))
    return RecordTable(tuple(codes), tuple(sizes))
