"""What the service in memory answers: constants, on a small domain."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from qserver.query.class_grid import product_partition
from qserver.query.domain_file import domain_from_document
from qserver.records.answer import Answer, WorkloadAnswer
from qserver.records.history import HistoryRow, HistoryTable
from qserver.records.plan import PlannedTable
from qserver.records.statement import Simultaneous, Statement

DOMAIN = domain_from_document(
    {
        "attributes": [
            {"name": "age", "kind": "integer", "range": [0, 9], "outside": "clamp"},
            {"name": "sex", "labels": ["Female", "Male"], "outside": "other"},
            {"name": "income", "kind": "real", "edges": [0, "0.5", 10], "outside": "clamp"},
        ]
    }
)
WIDE_CELLS = 2**53 + 1
PLANNED = PlannedTable(
    product_partition(DOMAIN.sizes, {1: [0, 1, 1]}), 5_000_000, Fraction(1, 4), 3, 4_000_000
)
"""Whether `sex` is its first value, in place of a table that has them with more noise."""
FREE = Answer(
    estimate=120.5,
    low=70.25,
    high=170.75,
    confidence=0.95,
    confidence_attained=0.96,
    source="history",
    charged_nano=0,
    remaining_nano=1_234_567,
    evidence=(0, 3),
    weights="contour",
    version=7,
    statement=Statement("posterior", 0.0004, 2),
    rest_nano=40_000_001,
    remarks=("It is longer than asked.",),
)
MANY = WorkloadAnswer(
    answers=(FREE, replace(FREE, source="measured", charged_nano=60_000_001)),
    charged_nano=60_000_001,
    remaining_nano=1_234_567,
    simultaneous=Simultaneous(0.951, "sampled"),
    version=7,
)
MEASURED = replace(FREE, source="measured", charged_nano=60_000_001)


def released(number: int) -> HistoryRow | HistoryTable:
    """A released table for the last id, a row for any other."""
    if number == 4:
        return HistoryTable(
            id=4,
            axes=[[1, [1, 2], [0, 1]]],
            n_cells=2,
            key="table:k",
            scale=200.0,
            alpha_nano=5_000_000,
            step="1/4",
            values=None,
        )
    terms: list[list[object]] = [["2/3", [[0, [5, 10], [1, 0]]]]]
    return HistoryRow(
        id=number,
        terms=terms,
        key=f"k{number}",
        value=41.5,
        scale=16.6,
        alpha_nano=60_000_001,
        step="1/4",
    )
