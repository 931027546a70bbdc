"""The person of each record: every person once, and a number for each record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from worker.constants import WORKER


@dataclass(frozen=True, repr=False)
class People:
    """The persons of some records.

    Args:
        texts: each person once, in no order; '' is nobody known. Some may have no record here.
        who: for each record, the index of its person.
    """

    texts: pa.Array
    who: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Iterable[pa.Array]) -> People:
        """From the person of each record, as text, in any number of pieces."""
        found = pa.chunked_array(list(texts), pa.string()).dictionary_encode().combine_chunks()
        if isinstance(found, pa.ChunkedArray):  # of no chunk at all
            return cls(pa.nulls(0, pa.string()), np.zeros(0, dtype=np.int32))
        return cls(found.dictionary, found.indices.to_numpy().astype(np.int32, copy=False))

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> People:
        """From the person of each record."""
        return cls.of([pa.array(list(texts), pa.string())])

    def text(self, person: int) -> str:
        """The person of an index."""
        return str(self.texts[person].as_py())

    def where(self, kept: NDArray[np.bool_]) -> People:
        """The persons of the records of a mask."""
        return People(self.texts, self.who[kept])

    def parts(self, most: int) -> Iterator[tuple[NDArray[np.intp], People]]:
        """Places of records, and their persons, split so that no person is in two parts.

        Args:
            most: most records of a part, unless one person has more.
        """
        ends, start = np.cumsum(self.n_records()), 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
            places = np.flatnonzero((self.who >= start) & (self.who < stop))
            own = self.texts.slice(start, stop - start)
            yield places, People(own, self.who[places] - np.int32(start))
            start = stop

    def n_records(self) -> NDArray[np.int64]:
        """How many records each person has."""
        return np.bincount(self.who, minlength=len(self.texts))

    def is_named(self) -> NDArray[np.bool_]:
        """Mask of the records with a named person."""
        named = pc.not_equal(self.texts, "").to_numpy(zero_copy_only=False)
        return np.asarray(named[self.who], dtype=np.bool_)

    def counts(self) -> Iterable[tuple[str, int]]:
        """Every person with a record, in the order of their texts, and the number of records."""
        n_records, order = self.n_records(), pc.sort_indices(self.texts)
        for start in range(0, len(order), WORKER.batch_records):
            part = order.slice(start, WORKER.batch_records)
            texts = self.texts.take(part).to_pylist()
            yield from (one for one in zip(texts, n_records[part].tolist(), strict=True) if one[1])


def other_type(sealed: str, now: str) -> Iterator[str]:
    """A warning for the owner, if the column of persons has another type than the sealed one.

    Args:
        sealed, now: what it holds, in words; '' where nobody knows.
    """
    if sealed and now and sealed != now:
        yield (
            f"WARNING: the column of persons holds {now} here, and {sealed} in what is sealed. The "
            "whole numbers of every type have one name, but 007 in texts is not 7, and binary "
            "numbers have 15 digits: look whether a person has one name in both."
        )


class GrowingPeople:
    """The persons of records that come in pieces: texts once in memory, numbers in a file.

    The file has no name from the start, so whatever stops the program leaves nothing behind.

    Args:
        folder: where the file is.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with this object
        self._known = pa.nulls(0, pa.string())  # `pa.array` would load pandas
        self._waiting: list[pa.Array] = []
        self._n_waiting = 0

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()

    def add(self, texts: pa.Array) -> None:
        """Add the persons of further records; PrivateDataError if the disk is full."""
        self._waiting.append(texts)
        self._n_waiting += len(texts)
        # Each merge goes through all known persons, so merges become rarer as they grow.
        if self._n_waiting >= max(WORKER.people_records, len(self._known) // 2):
            self._merge()

    def people(self) -> People:
        """All persons."""
        self._merge()
        self._file.flush()
        self._file.seek(0)
        return People(self._known, np.fromfile(self._file, dtype=np.int32))

    def _merge(self) -> None:
        """Number the waiting persons: known ones keep their numbers, new ones follow."""
        if not self._n_waiting:
            return
        found = People.of(self._waiting)
        self._waiting, self._n_waiting = [], 0
        places = pc.index_in(found.texts, value_set=self._known)
        is_new = places.is_null().to_numpy(zero_copy_only=False)
        numbers = places.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
        numbers[is_new] = len(self._known) + np.arange(is_new.sum(), dtype=np.int32)
        self._known = pa.concat_arrays([self._known, found.texts.filter(pa.array(is_new))])
        try:
            self._file.write(numbers[found.who].tobytes())
        except OSError as exc:
            raise PrivateDataError(f"The persons cannot be written: {exc.strerror}.") from None
