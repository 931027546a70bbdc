"""Codes of a column's values: each value is coded once, however often it comes.

Real columns repeat themselves: a thousand days, a hundred ages, twenty towns. Arrow numbers the
values of a batch, DuckDB codes those that did not come before, and the records take their codes by
number. So what a value is follows from one piece of SQL, whether it comes once or a million times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from worker.constants import WORKER

Coded = Callable[[pa.Array], Sequence[NDArray[np.int64]]]
"""From values of a column to the code of each, for every attribute that reads the column."""


@dataclass(frozen=True, repr=False)
class Codes:
    """The codes of one attribute for the records of a batch.

    Args:
        values: a code for each value.
        at: the value of each record; None where each record has a value of its own.
    """

    values: NDArray[np.int64]
    at: NDArray[Any] | None

    def rows(self, of_values: NDArray[Any]) -> NDArray[Any]:
        """What each record has, from what each value has."""
        return of_values if self.at is None else of_values[self.at]

    def n(self, of_values: NDArray[np.bool_]) -> int:
        """How many records have any of the values of a mask."""
        return int(sum(mask.sum() for mask in self.masks(of_values)))

    def masks(self, of_values: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """Mask of the records that have any of the values of a mask; none where there is no such
        value.
        """
        return [self.rows(of_values)] if of_values.any() else []

    def where(self, kept: NDArray[np.bool_]) -> Codes:
        """The codes of the records of a mask."""
        if self.at is None:
            return Codes(self.values[kept], None)
        return Codes(self.values, self.at[kept])


class ColumnCodes:
    """The codes of the batches of one column, all of one type.

    Args:
        coded: codes values, at most one batch of them at a time.
    """

    def __init__(self, coded: Coded) -> None:
        self._coded = coded
        self._known: pa.Array | None = None
        self._codes: Sequence[NDArray[np.int64]] = ()
        self._is_varied = False

    def of(self, column: pa.Array) -> list[Codes]:
        """The codes of a batch, for every attribute that reads the column."""
        numbered = None if self._is_varied else _numbered(column)
        if numbered is None or len(numbered.dictionary) > WORKER.varied_values:
            # To number values of which hardly any comes twice takes time, and spares none.
            self._is_varied = True
            return [Codes(codes, None) for codes in self._coded(column)]
        values, at = numbered.dictionary, numbered.indices
        if at.null_count:  # a missing one comes after the others
            at = at.fill_null(len(values))
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        return [Codes(codes, np.from_dlpack(at)) for codes in self._of_values(values)]

    def _of_values(self, values: pa.Array) -> list[NDArray[np.int64]]:
        """The codes of values; those that did not come before are coded now."""
        new = values
        if self._known is not None:
            new = values.filter(pc.is_null(pc.index_in(values, value_set=self._known)))
        if self._known is None or len(self._known) + len(new) > WORKER.varied_values:
            self._known, self._codes = values, self._coded(values)
        elif len(new):
            found = zip(self._codes, self._coded(new), strict=True)
            self._known = pa.concat_arrays([self._known, new])
            self._codes = [np.concatenate(pair) for pair in found]
        at = np.from_dlpack(pc.index_in(values, value_set=self._known))
        return [codes[at] for codes in self._codes]


def _numbered(column: pa.Array) -> pa.DictionaryArray | None:
    """A column by the numbers of its values; None for a type whose values have none."""
    try:
        return column.dictionary_encode()  # as it is, if it is so already
    except pa.ArrowNotImplementedError:
        return None
