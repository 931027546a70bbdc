"""Labels of private files into codes, by hashes, in the same time for every text.

To cast a text that is no label takes DuckDB thirty times as long as to cast one, so the time of
reading a file told how many there are. A hash takes as long for either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from qserver.query.domain import Attribute
from worker.coding.names import number_names, whole_name

_HASH: Final = "hash"


def hash_sql(text: str, *, fold: bool = False) -> str:
    """SQL for the hash of a text, which may be null; it cannot fail.

    Args:
        text: SQL for the text.
        fold: whether capitals make no difference.
    """
    return f"{_HASH}(coalesce({f'lower({text})' if fold else text}, ''))"


class LabelCodes:
    """The codes of an attribute's labels, and of what stands for a missing value.

    Args:
        connection: the one that hashes the column, since another may hash otherwise.
        missing: the code of missing values.
        outside: the code of all other texts.
        of_numbers: whether the column holds numbers. Then a label, code or marker that is a number
            stands for that number, however it is written.

    Raises:
        PrivateDataError: two of the attribute's labels have the same hash, or are one number where
            the column holds numbers.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        attribute: Attribute,
        *,
        missing: int,
        outside: int,
        of_numbers: bool = False,
    ) -> None:
        markers = dict.fromkeys(attribute.missing_markers, missing)
        known = {"": missing, **attribute.recorded, **markers}
        self._outside = outside
        whole = None
        if of_numbers:
            codes = _merged((n, code) for t, code in known.items() for n in number_names(t) or (t,))
            if codes is None:
                raise PrivateDataError(
                    f"Two labels of {attribute.name} are one number, and its column holds numbers. "
                    "Keep one of them."
                )
        else:
            if _means_numbers(attribute):
                whole = _merged((whole_name(text), code) for text, code in known.items())
            # Markers are numbers in any column of texts, but for one that is a label.
            codes = whole or {f"{m}.0": missing for m in markers if number_names(m) == (m,)} | known
        self.are_whole = whole is not None
        """Whether whole numbers are meant in a column of texts, however they are written."""
        self._hashes, self._codes = _sorted(connection, codes, fold=attribute.cells.fold)
        is_same = self._hashes[1:] == self._hashes[:-1]
        if np.any(is_same & (self._codes[1:] != self._codes[:-1])):
            raise PrivateDataError(
                f"Two labels of {attribute.name} have the same hash. Rename one of them."
            )

    def of(self, hashes: NDArray[Any]) -> NDArray[np.int64]:
        """The code of each text by its hash."""
        wanted = np.asarray(hashes, dtype=np.uint64)
        at = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        return np.where(self._hashes[at] == wanted, self._codes[at], self._outside)


def _means_numbers(attribute: Attribute) -> bool:
    """Whether its labels are codes or years; labels that are texts stay as they are."""
    is_year = attribute.periods is not None and attribute.periods.every == "year"
    return bool(attribute.codes) or is_year


def _merged(pairs: Iterable[tuple[str, int]]) -> dict[str, int] | None:
    """The code of each name; None if two codes have one name."""
    found: dict[str, int] = {}
    for name, code in pairs:
        if found.setdefault(name, code) != code:
            return None
    return found


def _sorted(
    connection: duckdb.DuckDBPyConnection, codes: Mapping[str, int], *, fold: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hashes of texts in order, and the code of each."""
    sql = f"SELECT {hash_sql('t', fold=fold)} AS h FROM (SELECT unnest($texts::VARCHAR[]) AS t)"  # noqa: S608
    found = connection.execute(sql, {"texts": list(codes)}).fetchnumpy()["h"]
    hashes = np.asarray(found, dtype=np.uint64)
    order = np.argsort(hashes)
    return hashes[order], np.fromiter(codes.values(), np.int64, len(codes))[order]
