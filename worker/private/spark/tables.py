"""Counts on codes on Spark: full scans there, exact integers to the worker alone.

The digests of the codes are read back in their order: those of one machine.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qserver
from qserver.errors import MeasurementError, PrivateDataError, QServerError, UnanswerableError
from qserver.query.class_grid import ProductPartition
from qserver.query.labels import code_dtype
from qserver.query.linear_query import LinearQuery
from worker.constants import WORKER
from worker.private.spark.executors import OnBatches, answering, axes_of, counting, telling_version
from worker.private.spark_place import SparkCodes, column_names, schema_of
from worker.sources.source import no_values_in_errors
from worker.sources.spark import NAME, close_session, one_row, open_session, rows_of, within, words


class SortedCodes:
    """Codes written in sorted order, with the last attribute first.

    Args:
        session: of Spark.
        path: their folder.
    """

    def __init__(self, session: Any, path: str, sizes: Sequence[int]) -> None:
        self._session, self._sizes = session, tuple(sizes)
        with no_values_in_errors(NAME, words):
            self.frame = session.read.schema(schema_of(sizes)).parquet(path)

    def files(self) -> list[str]:
        """The files, in the order of their writing."""
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
        """The number of records in a check."""
        return int(check.split()[0])


_log = logging.getLogger("qserver.worker")


class SparkTable:
    """The sealed codes of one snapshot on Spark; for one thread.

    The session is opened by the first count, and anew after Spark was lost. Before codes are
    counted in a session their content is compared with what was attached.

    Args:
        codes: where they are.
        sizes: number of values per attribute.
        clock: seconds, monotonic.
        pause: sleeps for a number of seconds.
    """

    def __init__(
        self,
        codes: SparkCodes,
        sizes: Sequence[int],
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._codes, self._sizes = codes, tuple(sizes)
        self._clock, self._pause = clock, pause
        self._session: Any = None
        self._sorted: SortedCodes | None = None
        self._lost_at: float | None = None

    @property
    def slot_s(self) -> float:
        """Seconds for the count of one row or table; public."""
        return self._codes.place.slot_s

    def ready(self) -> None:
        """Return if Spark runs a job now; call it before any charge.

        Its time does not follow from the number of records: that of a look at the codes is rounded
        up to whole slots.

        Raises:
            UnanswerableError: it does not. The public text is constant; the worker's log says why.
        """
        now = self._clock()
        if self._lost_at is not None and now - self._lost_at < WORKER.spark_again_s:
            raise UnanswerableError
        try:
            if self._sorted is None:
                self.open()
            else:
                check_machines(self._session, most_s=WORKER.spark_probe_s)
        except QServerError as exc:
            self._lost_at = self._clock()
            self.close()
            _log.warning("codes on Spark cannot be counted, and nothing is charged: %s", exc)
            raise UnanswerableError from None
        self._lost_at = None

    def open(self) -> SortedCodes:
        """Open the codes in a session, and compare them with the attached ones.

        Raises:
            PrivateDataError: Spark cannot be reached, or the codes are not what was attached.
        """
        if self._sorted is None:
            self._session = open_session(self._codes.address)
            check_machines(self._session)
            begun = self._clock()
            try:
                found = SortedCodes(self._session, self._codes.path, self._sizes)
                check = within(WORKER.spark_job_s, lambda: found.check(self._codes.salt))
            finally:
                self._pause(rest_of_slot(self._clock() - begun, slot_s=self.slot_s))
            if check != self._codes.check:
                raise PrivateDataError(
                    f"The codes in {self._codes.path} are not what was attached."
                )
            self._sorted = found
        return self._sorted

    def close(self) -> None:
        """Give the session back."""
        session, self._session, self._sorted = self._session, None, None
        if session is not None:
            close_session(session)

    def answer(self, query: LinearQuery) -> Fraction:
        """The exact true answer of `query`, by one full scan of its codes.

        Raises:
            MeasurementError: it is of another domain.
            PrivateDataError: Spark is lost.
        """
        if query.sizes != self._sizes:
            raise MeasurementError
        found = self._scan(axes_of(query), answering(query), "answer string")
        return sum((Fraction(str(row[0])) for row in found), Fraction(0))

    def counts(self, partition: ProductPartition) -> list[int]:
        """The exact number of records in each cell, row-major, by one full scan.

        Raises:
            MeasurementError: the partition is of another domain.
            PrivateDataError: Spark is lost.
        """
        if partition.sizes != self._sizes:
            raise MeasurementError
        total = np.zeros(partition.n_cells, dtype=np.int64)
        for row in self._scan(axes_of(partition), counting(partition), "counts binary"):
            total += np.frombuffer(bytes(row[0]), dtype="<i8")
        return [int(n) for n in total]

    def frame(self, axes: Sequence[int], step: OnBatches, schema: str) -> Any:
        """The scan of some attributes' codes, of all records: it has no condition."""
        names = [column_names(self._sizes)[axis] for axis in axes]
        frame = self.open().frame
        with no_values_in_errors(NAME, words):
            return frame.select(*names).mapInArrow(step, schema)

    def _scan(self, axes: Sequence[int], step: OnBatches, schema: str) -> list[Any]:
        frame = self.frame(axes, step, schema)
        try:
            return within(WORKER.spark_job_s, lambda: rows_of(frame))
        except QServerError:
            self.close()  # The rest of the session may be in any state.
            raise


def rest_of_slot(taken_s: float, *, slot_s: float) -> float:
    """Seconds until a whole number of slots has passed; at least one."""
    return max(1, math.ceil(taken_s / slot_s)) * slot_s - taken_s


def check_machines(session: Any, *, most_s: float = WORKER.spark_ready_s) -> None:
    """Return if a machine of Spark's runs a job with this version of the product.

    Args:
        most_s: seconds that it may take.

    Raises:
        PrivateDataError: none does, or it has another version or none.
    """
    with no_values_in_errors(NAME, words):
        frame = session.range(1).mapInArrow(telling_version(), "version string")
    try:
        found = within(most_s, lambda: rows_of(frame))
    except PrivateDataError as exc:
        raise PrivateDataError(
            f"{exc} Its machines need qserver {qserver.__version__} in their Python."
        ) from None
    if [row[0] for row in found] != [qserver.__version__]:
        raise PrivateDataError(
            f"Spark's machines must have qserver {qserver.__version__}, as this one has."
        )
