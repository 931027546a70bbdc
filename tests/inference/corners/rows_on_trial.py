"""Rows in play with their measurements at hand."""

from __future__ import annotations

from collections.abc import Iterable

from qserver.inference.limits import MAX_ROWS
from qserver.inference.rows.blue import Combinations
from qserver.inference.rows.factors import Polished
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.query.linear_query import LinearQuery
from qserver.records.dataset import MOST_RECORDS
from qserver.records.history import Measurement


class Trial:
    """Rows in play, and what they say of queries."""

    def __init__(
        self,
        *,
        max_rows: int = MAX_ROWS,
        most_records: int = MOST_RECORDS,
        may_wait: bool = True,
    ) -> None:
        self.rows = RowsInPlay(max_rows=max_rows, most_records=most_records, may_wait=may_wait)

    def extend(self, measurements: Iterable[Measurement]) -> None:
        """Take in rows and refinements."""
        for measurement in measurements:
            self.rows.note(measurement)
        self.rows.catch_up()

    def combinations(self, query: LinearQuery) -> Combinations | None:
        """All unbiased weights of a query."""
        return self.rows.combinations(query)

    def polished(self, query: LinearQuery, weights: Weights) -> Polished:
        """Corrected weights."""
        return self.rows.polished(query, weights)


def trial(measurements: Iterable[Measurement], *, max_rows: int = MAX_ROWS) -> Trial:
    """These rows, taken in at once."""
    found = Trial(max_rows=max_rows)
    found.extend(measurements)
    return found
