"""Tables and prices of statements of SQL: from answers of the service to cells.

What history says is enough here; `qserver.service.statements` asks what it lacks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

from qserver.answering.workload import KnownNumber
from qserver.query.asking.after_looking import Ends
from qserver.query.sql.cells import (
    CellQuestions,
    CellValue,
    StatementQuestions,
    cell_value,
    has_steps,
)
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.cell_intervals import CellInterval
from qserver.records.answer import (
    Answer,
    Explanation,
    FactorPoint,
    Offer,
    Priced,
    WorkloadAnswer,
    WorkloadExplanation,
)
from qserver.records.statement import joined
from qserver.service.cells.answer_cells import (
    UNKNOWN,
    answered_cell,
    by_cell,
    consistent_of,
    consistent_workload,
    only_question,
    part_intervals,
    workload_of,
)
from qserver.service.cells.remarks import with_lengths, with_remark
from qserver.service.cells.stepwise_cells import SearchedCells
from qserver.service.service import Price, Service
from qserver.service.statement_answers import (
    AnsweredCell,
    StatementAnswer,
    StatementExplanation,
    looked,
    shaped,
)
from qserver.service.steps.quote_cap import CappedSteps, at_most_nano
from qserver.service.steps.statement import StatementSteps


class StatementTables:
    """Tables and prices of statements on a service; `clock` tells seconds, monotonic."""

    def __init__(self, questions: Service, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._questions = questions
        self._clock = clock

    def left_s(self, deadline: float) -> float:
        """The seconds until the deadline."""
        return max(deadline - self._clock(), 0.0)

    def asked(self, name: str, statement: Statement) -> StatementQuestions:
        """The questions that suffice in every case, by history."""
        steps = self._steps(name, statement)
        return steps.with_tables(steps.last_step())

    def explain(self, name: str, statement: Statement, *, by: str = "") -> StatementExplanation:
        """What a statement would cost; spends nothing. Raises as `run` does."""
        most = at_most_nano(statement)
        if not has_steps(statement):
            found = self._explained(name, self._steps(name, statement).last_step(), by)
            if most is None:
                return found
            # Past this bound nothing is bought for later questions.
            price = found.price_nano if found.price_nano <= most else found.measure.only_this_nano
            may_cost = min(found.most_nano, max(most, price))
            is_paid = found.affordable and price <= most
            return replace(found, price_nano=price, most_nano=may_cost, affordable=is_paid)
        steps = self._capped(name, statement, by)
        found = self._explained(name, steps.quoted, by)
        left = steps.left_nano
        price = steps.quote.nano if left is None else min(found.price_nano, left)
        if most is not None and left is None:
            found = replace(found, affordable=steps.quote.is_payable)
        return replace(found, price_nano=price, most_nano=price, is_most=steps.goes_on)

    def price(self, name: str, statement: Statement, *, by: str) -> Price:
        """The price of a statement at once, or of its first quote; 0 where history answers it."""
        if has_steps(statement):
            return self._capped(name, statement, by).quote
        return self._questions.price(name, workload_of(self.asked(name, statement)), by=by)

    def left_to_pay(self, name: str, statement: Statement, *, by: str) -> int | None:
        """The price from here on, in nano-epsilon; None where history answers the statement.

        That is found sooner than an explanation, which says it, too.
        """
        if not has_steps(statement):
            if self._is_free(name, statement):
                return None
            found = self.explain(name, statement, by=by)
            return None if found.kind in ("free", "exact") else found.price_nano
        steps = self._capped(name, statement, by)
        workload = workload_of(steps.quoted)
        if self._questions.insight.is_free(name, workload):
            return None
        if steps.left_nano is None:
            return steps.quote.nano
        return min(self._questions.price(name, workload, by=by).nano, steps.left_nano)

    def goes_on(self, name: str, statement: Statement) -> bool:
        """Whether another step would measure more, before all quotients are as exact as asked."""
        return has_steps(statement) and self._capped(name, statement, "").goes_on

    def table(
        self,
        name: str,
        questions: StatementQuestions,
        found: Answer | WorkloadAnswer,
        *,
        rest_nano: int | None = None,
    ) -> StatementAnswer:
        """The table from the answers of a statement's questions.

        Args:
            rest_nano: price of what is still to be measured, where the quote did not pay it.
        """
        answers = found.answers if isinstance(found, WorkloadAnswer) else (found,)
        estimates = [answer.estimate for answer in answers]
        ends = found.ends if isinstance(found, WorkloadAnswer) else ()
        nearest = self._nearest(name, questions, answers, ends)
        searched = SearchedCells(self._questions, name, questions)

        def cell_of(cell: CellQuestions) -> AnsweredCell:
            return searched.cell(cell, answered_cell(cell, answers, ends, nearest))

        plain = by_cell(questions, cell_of)
        cells = looked(questions, plain, estimates, ends)
        questions = with_remark(questions, plain, searched=searched, rest_nano=rest_nano)
        questions = with_lengths(questions, found)
        together = found.simultaneous if isinstance(found, WorkloadAnswer) else None
        paid = (found.charged_nano, found.remaining_nano)
        return shaped(StatementAnswer(questions, cells, *paid, together, found.version))

    def known_table(
        self,
        name: str,
        questions: StatementQuestions,
        known: Sequence[KnownNumber | None],
        *,
        remaining_nano: int,
        version: int,
        is_asked: bool = True,
    ) -> StatementAnswer:
        """The table from history at no cost; an unknown cell has no value.

        Args:
            known: per question what history says; consistent values need that of all.
            is_asked: whether its asker said how long intervals may be.
        """
        answers = [None if one is None else one.answer for one in known]
        all_ends = [None if one is None else one.ends for one in known]
        value_of = partial(_known_value, answers, all_ends)
        complete = [answer for answer in answers if answer is not None]
        is_complete = len(complete) == len(known)
        ends = [end for end in all_ends if end is not None]
        nearest = self._nearest(name, questions, complete, ends) if is_complete else None
        searched = SearchedCells(self._questions, name, questions)

        def cell_of(cell: CellQuestions) -> AnsweredCell:
            value = value_of(cell) or CellValue(None, UNKNOWN)
            parts = [a.statement for i in cell.parts if (a := answers[i]) is not None]
            law = joined(parts) if len(parts) == len(cell.parts) else None
            found = AnsweredCell(value, "history", consistent_of(cell, nearest), statement=law)
            return searched.cell(cell, found)

        plain = by_cell(questions, cell_of)
        cells = looked(
            questions,
            plain,
            [0.0 if answer is None else answer.estimate for answer in answers],
            all_ends,
        )
        if is_asked and is_complete:
            questions = with_remark(questions, plain, searched=searched)
        found = StatementAnswer(questions, cells, 0, remaining_nano, None, version)
        # Unknown numbers can be neither ordered nor chosen.
        return shaped(found, chooses=is_complete)

    def _is_free(self, name: str, statement: Statement) -> bool:
        """Whether history answers a statement without steps."""
        questions, clauses = self.asked(name, statement), statement.clauses
        if (only := only_question(questions)) is None:
            return self._questions.insight.is_free(name, workload_of(questions))
        alone = replace(only, looking=clauses.looking, reading=clauses.reading)
        return self._questions.insight.is_free(name, alone)

    def _capped(self, name: str, statement: Statement, by: str) -> CappedSteps:
        return CappedSteps(self._questions, name, self._steps(name, statement), by=by)

    def _steps(self, name: str, statement: Statement) -> StatementSteps:
        steps = StatementSteps(self._questions, name, statement)
        # Before anything is spent, since the answer may be refused.
        consistent_workload(steps.last_step())
        return steps

    def _nearest(
        self,
        name: str,
        questions: StatementQuestions,
        answers: Sequence[Answer | Offer],
        ends: Sequence[Ends] = (),
    ) -> Sequence[float] | None:
        """The consistent answers of all questions, where the statement asks for these."""
        consistent = consistent_workload(questions)
        if consistent is None:
            return None
        total = self._questions.insight.total(name)
        law = self._questions.smooth.law(name)
        return consistent.answers(answers, total=total, law=law, ends=ends).estimates

    def _explained(self, name: str, questions: StatementQuestions, by: str) -> StatementExplanation:
        found: Explanation | WorkloadExplanation
        searched = SearchedCells(self._questions, name, questions)
        if (only := only_question(questions)) is not None:
            looking = questions.statement.clauses.looking
            found = self._questions.explain(name, replace(only, looking=looking), by=by)
            free: Sequence[Answer | Offer | None] = (found.free,)
            apart, length = None, only.requirement.length
            curve = tuple(FactorPoint(p.length / length, p.price_nano) for p in found.curve)
        else:
            told = {
                i
                for row in questions.cells
                for cell in row
                if not searched.tells(cell)
                for i in cell.parts
            }
            workload = workload_of(questions)
            found = self._questions.explain_workload(name, workload, told=told, by=by)
            free, apart, curve = found.free, found.price_apart_nano, found.curve

        def known_of(cell: CellQuestions) -> CellInterval | None:
            if (value := _known_value(free, (), cell)) is None:
                return None
            known = AnsweredCell(value, "history")
            return searched.cell(cell, known).value.interval

        return StatementExplanation(
            **{item.name: getattr(found, item.name) for item in fields(Priced)},
            asked=questions,
            price_apart_nano=apart,
            known=by_cell(questions, known_of),
            curve=curve,
        )


def _known_value(
    free: Sequence[Answer | Offer | None], ends: Sequence[Ends | None], cell: CellQuestions
) -> CellValue | None:
    """The known value of a cell; of a function of sums only if all sums are known."""
    known = {i: one for i in cell.parts if (one := free[i]) is not None}
    if len(known) < len(set(cell.parts)):
        return None
    middles = {i: one.estimate for i, one in known.items()}
    return cell_value(cell, middles, part_intervals(cell, free, ends))
