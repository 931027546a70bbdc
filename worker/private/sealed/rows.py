"""Coded records while they are read: packed rows in a file without a name, sorted in place.

The file has no name from the start, so whatever stops the program leaves nothing behind. Rows are
read back into memory where they take less than half of it, and mapped where they take more.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from worker.coding.width import code_dtype
from worker.constants import WORKER

_WORD_BITS = 64


class PackedRows:
    """Records as rows of 64-bit words, which sort as the records do with the last attribute first.

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
        """Take in the records of a batch; PrivateDataError if the disk is full."""
        rows = np.zeros((len(codes[0]), self._n_words), dtype=np.uint64)
        for column, place in zip(codes, self._places, strict=True):
            rows[:, place.word] |= column.astype(np.uint64) << np.uint64(place.shift)
        try:
            self._file.write(rows.astype(self._dtype, copy=False).tobytes())
        except OSError as exc:
            raise PrivateDataError(f"The codes cannot be written: {exc.strerror}.") from None
        self.n += len(rows)

    def flag(self, kept: NDArray[np.bool_]) -> None:
        """Mark the records that stay; it does not change how they sort but among equals."""
        rows = self._all()
        for part in _parts(self.n):
            rows[part, -1] |= kept[part].astype(rows.dtype)

    def is_flagged(self, part: slice) -> NDArray[np.bool_]:
        """Mask of the records of a part that stay."""
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
        """The codes of some records, per attribute in their smallest type; not all rows in memory.

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
        """The codes of an attribute, piece by piece; of all records or of those that stay."""
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
    """Bytes that codes may take in memory; beyond, they are mapped."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
