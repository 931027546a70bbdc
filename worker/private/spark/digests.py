"""The digests of codes on Spark, read back in their order: those of one machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from worker.coding.width import code_dtype
from worker.private.spark.place import column_names, schema_of
from worker.sources.source import no_values_in_errors
from worker.sources.spark.rows import one_row
from worker.sources.spark.session import NAME, words


class SortedCodes:
    """Codes that were written in sorted order, with the last attribute first.

    Args:
        session: of Spark.
        path: their folder.
    """

    def __init__(self, session: Any, path: str, sizes: Sequence[int]) -> None:
        self._session, self._sizes = session, tuple(sizes)
        with no_values_in_errors(NAME, words):
            self.frame = session.read.schema(schema_of(sizes)).parquet(path)

    def files(self) -> list[str]:
        """The files, in the order in which they were written."""
        with no_values_in_errors(NAME, words):
            return sorted(self.frame.inputFiles(), key=lambda file: file.rpartition("/")[2])

    def pieces(self, axis: int) -> Iterator[NDArray[Any]]:
        """The codes of an attribute, in their smallest type, a file at a time."""
        name, kind = column_names(self._sizes)[axis], code_dtype(self._sizes[axis])
        for file in self.files():
            with no_values_in_errors(NAME, words):
                frame = self._session.read.schema(schema_of(self._sizes)).parquet(file)
                found = frame.select(name).toArrow().column(name)
            yield found.to_numpy().astype(kind)

    def check(self, salt: str) -> str:
        """Number and sum of two hashes of every row, under a salt; one scan, in any order.

        Other rows have another sum but by chance of 2^-64 or so, for whoever does not know the
        salt.
        """
        names = ", ".join(column_names(self._sizes))
        sums = [f"sum(CAST(xxhash64('{salt}{i}', {names}) AS DECIMAL(38, 0)))" for i in range(2)]
        with no_values_in_errors(NAME, words):
            frame = self.frame.selectExpr("count(*) AS n", *sums)
        return " ".join(str(value or 0) for value in one_row(frame))

    def n_records(self, check: str) -> int:
        """The number of records that a check tells."""
        return int(check.split()[0])
