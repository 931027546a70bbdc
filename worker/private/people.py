"""Whose each record is: every person once, and for each record a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


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
        chunks = pa.chunked_array(list(texts), pa.string())
        found = chunks.dictionary_encode().combine_chunks()
        if isinstance(found, pa.ChunkedArray):  # of no chunk at all
            return cls(pa.array([], pa.string()), np.zeros(0, dtype=np.int32))
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

    def n_records(self) -> NDArray[np.int64]:
        """How many records each person has."""
        return np.bincount(self.who, minlength=len(self.texts))

    def is_named(self) -> NDArray[np.bool_]:
        """Mask of the records that name a person."""
        named = pc.not_equal(self.texts, "").to_numpy(zero_copy_only=False)
        return np.asarray(named[self.who], dtype=np.bool_)

    def counts(self) -> Iterable[tuple[str, int]]:
        """Every person with a record here, in the order of their texts, and how many."""
        n_records = self.n_records()
        for person in pc.sort_indices(self.texts).to_numpy():
            if n_records[person]:
                yield self.text(int(person)), int(n_records[person])
