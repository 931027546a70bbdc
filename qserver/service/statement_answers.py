"""Answers and prices of statements of SQL, by group and column."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.query.sql.cells import CellInterval, CellValue, StatementQuestions
from qserver.records.answer import (
    BothChoices,
    FactorPoint,
    OwnPrice,
    PlanKind,
    Simultaneous,
    Source,
)


@dataclass(frozen=True)
class AnsweredCell:
    """A cell with where it comes from: the dearest source of its parts.

    Args:
        consistent: its value by the consistent answers of all questions, where they were asked
            for and give one.
    """

    value: CellValue
    source: Source
    consistent: float | None = None


@dataclass(frozen=True)
class StatementAnswer:
    """The table that a statement asked for.

    Args:
        cells: per group and column.
        simultaneous: None where that was not asked for.
    """

    asked: StatementQuestions
    cells: tuple[tuple[AnsweredCell, ...], ...]
    charged_nano: int
    remaining_nano: int
    simultaneous: Simultaneous | None
    version: int


@dataclass(frozen=True)
class StatementExplanation:
    """What a statement would cost; nothing was spent.

    Args:
        is_most: whether the price is only the most that the answer costs: averages and quotients
            are measured as exactly as what is found out on the way lets them need be.
        price_apart_nano: sum of the prices of its questions asked one by one; None where there is
            one question, or was no time.
        known: per group and column what is known at no cost, or None.
        curve: prices of shorter and longer intervals, all by one factor.
        measure: the prices of both choices of what may be measured.
        own: the same for the asker's own ledger; None where only the budget bounds it.
    """

    asked: StatementQuestions
    kind: PlanKind
    price_nano: int
    price_apart_nano: int | None
    remaining_nano: int
    affordable: bool
    known: tuple[tuple[CellInterval | None, ...], ...]
    version: int
    measure: BothChoices
    curve: tuple[FactorPoint, ...] = ()
    own: OwnPrice | None = None
    is_most: bool = False


AnyStatement = StatementAnswer | StatementExplanation
