"""Seal files: a count of records, then for each attribute its sorted codes.

A seal has its name only when it is whole. What it must hold is told by the fingerprint in the
registry: keyed, over the domain and the sorted codes.

*While records are read* they are packed rows in a file without a name, sorted in place. The file
has no name from the start, so whatever stops the program leaves nothing behind. Rows are read back
into memory where they take less than half of it, and mapped where they take more.
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
from qserver.query.labels import code_dtype
from worker.constants import WORKER
from worker.journal.append_only_files import sync_folder
from worker.private.record_tables import RecordTable

_WORD_BITS = 64


class PackedRows:
    """Records as rows of 64-bit words, which sort like records with the last attribute first.

    Args:
        folder: on the disk where the seal will be.
        sizes: number of values per attribute.
        memory_bytes: most that rows may take in memory.
    """

    def __init__(self, folder: Path, sizes: Sequence[int], *, memory_bytes: int) -> None:
        self._sizes, self._memory = tuple(sizes), memory_bytes
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with this object
        self._places, n_words = _layout(self._sizes)
        # Several words compare as bytes do, so the highest byte comes first.
        self._dtype = np.dtype(np.uint64 if n_words == 1 else ">u8")
        self._n_words = n_words
        self._rows: NDArray[Any] | None = None
        self.n = 0

    def close(self) -> None:
        """Give the disk back."""
        self._rows = None
        self._file.close()

    def add(self, codes: Sequence[NDArray[Any]]) -> None:
        """Add the records of a batch; PrivateDataError if the disk is full."""
        rows = np.zeros((len(codes[0]), self._n_words), dtype=np.uint64)
        for column, place in zip(codes, self._places, strict=True):
            rows[:, place.word] |= column.astype(np.uint64) << np.uint64(place.shift)
        try:
            self._file.write(rows.astype(self._dtype, copy=False).tobytes())
        except OSError as exc:
            raise PrivateDataError(f"The codes cannot be written: {exc.strerror}.") from None
        self.n += len(rows)

    def flag(self, kept: NDArray[np.bool_]) -> None:
        """Mark the records to keep; the mark only orders equal records."""
        rows = self._all()
        for part in _parts(self.n):
            rows[part, -1] |= kept[part].astype(rows.dtype)

    def is_flagged(self, part: slice) -> NDArray[np.bool_]:
        """Mask of the marked records of a part."""
        return np.asarray(self._all()[part, -1] & self._dtype.type(1), dtype=np.bool_)

    def sort(self) -> None:
        """Put the records in order."""
        rows = self._all()
        if self._n_words == 1:
            rows[:, 0].sort()
        elif self.n:
            rows.view(f"S{8 * self._n_words}")[:, 0].sort()

    def column(self, axis: int) -> NDArray[Any]:
        """The codes of an attribute, in their smallest type."""
        whole = [np.zeros(0, dtype=code_dtype(self._sizes[axis])), *self.pieces(axis)]
        return np.concatenate(whole)

    def at(self, places: NDArray[np.intp]) -> list[NDArray[Any]]:
        """The codes of some records, per attribute in their smallest type; not all in memory.

        Args:
            places: in ascending order.
        """
        self._file.flush()
        found = [np.zeros((0, self._n_words), dtype=self._dtype)]
        for part in _parts(self.n):
            first, stop = np.searchsorted(places, (part.start, part.stop))
            found.append(self._part(part)[places[first:stop] - part.start])
        rows = np.concatenate(found)
        return [self._codes(rows, axis) for axis in range(len(self._sizes))]

    def pieces(self, axis: int, *, flagged: bool = False) -> Iterator[NDArray[Any]]:
        """The codes of an attribute, piece by piece; of all records or of the marked ones."""
        rows = self._all()
        for part in _parts(self.n):
            codes = self._codes(rows[part], axis)
            yield codes[self.is_flagged(part)] if flagged else codes

    def _part(self, part: slice) -> NDArray[Any]:
        self._file.seek(part.start * self._n_words * self._dtype.itemsize)
        n = part.stop - part.start
        return np.fromfile(self._file, self._dtype, n * self._n_words).reshape(n, self._n_words)

    def _codes(self, rows: NDArray[Any], axis: int) -> NDArray[Any]:
        place = self._places[axis]
        words = rows[:, place.word].astype(np.uint64, copy=False)
        mask = np.uint64((1 << place.bits) - 1)
        return ((words >> np.uint64(place.shift)) & mask).astype(code_dtype(self._sizes[axis]))

    def _all(self) -> NDArray[Any]:
        if self._rows is None:
            self._file.flush()
            self._rows = self._read()
        return self._rows

    def _read(self) -> NDArray[Any]:
        shape, n_bytes = (self.n, self._n_words), os.fstat(self._file.fileno()).st_size
        if n_bytes == 0:
            return np.zeros(shape, dtype=self._dtype)
        if n_bytes > self._memory:
            return np.memmap(self._file, dtype=self._dtype, mode="r+", shape=shape)
        self._file.seek(0)
        return np.fromfile(self._file, dtype=self._dtype).reshape(shape)


class _Place:
    """Where the code of an attribute is in a row."""

    def __init__(self, word: int, shift: int, bits: int) -> None:
        self.word, self.shift, self.bits = word, shift, bits


def _layout(sizes: Sequence[int]) -> tuple[list[_Place], int]:
    """A place for each attribute, and the number of words; the last bit of all is for the flag.

    The last attribute has the highest bits of the first word. None lies across two words.
    """
    places: list[_Place] = []
    word, free = 0, _WORD_BITS
    for size in reversed(sizes):
        bits = max(1, (size - 1).bit_length())
        if bits > free:
            word, free = word + 1, _WORD_BITS
        free -= bits
        places.append(_Place(word, free, bits))
    if free == 0:
        word += 1
    return places[::-1], word + 1


def _parts(n: int) -> Iterator[slice]:
    for start in range(0, n, WORKER.batch_records):
        yield slice(start, min(n, start + WORKER.batch_records))


def half_of_memory() -> int:
    """Bytes that codes may take in memory; above, they are mapped."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


_MAGIC = b"qserver seal 1\n\0"
_HEAD_BYTES = 64
_ALIGNED = 64
SUFFIX = ".seal"


class NewSeal:
    """A seal without a name, which disappears with this object unless it gets one.

    Args:
        file: its file, whole.
        n: number of records.
    """

    def __init__(self, file: Any, sizes: Sequence[int], n: int) -> None:
        self._file, self._sizes, self._n = file, tuple(sizes), n
        weakref.finalize(self, file.close)

    def table(self) -> RecordTable:
        """Its records, mapped."""
        return _table(self._file, self._sizes, self._n, memory_bytes=0)

    def keep_as(self, path: Path) -> None:
        """Give the seal its name; durable, and at any moment whole or absent.

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
        """Copy the seal, on a disk that knows no files without a name."""
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
    """The end of the head, and each column with its padding."""
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
