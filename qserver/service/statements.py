"""Statements of SQL asked and explained: from questions of the service to cells of a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

from qserver.answering.workload import KnownNumber
from qserver.query.asking.looking import Ends
from qserver.query.requirement import Measure
from qserver.query.sql.cells import (
    CellQuestions,
    CellValue,
    StatementQuestions,
    at_any_length,
    cell_value,
    has_steps,
)
from qserver.query.sql.clauses import UNSAID, Exactness
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.intervals import CellInterval
from qserver.query.sql.tables.unconfirmed import by_owner, says_none, stated, with_default
from qserver.records.answer import (
    Answer,
    Explanation,
    FactorPoint,
    JobStatus,
    Offer,
    Priced,
    WorkloadAnswer,
    WorkloadExplanation,
)
from qserver.records.statement import joined
from qserver.service.ask import Idempotency
from qserver.service.cache.statements import StatementKey
from qserver.service.cells.answer_cells import (
    UNKNOWN,
    answered_cell,
    by_cell,
    consistent_of,
    consistent_workload,
    only_question,
    part_intervals,
    step_of,
    workload_of,
)
from qserver.service.cells.longer import with_remark
from qserver.service.cells.remarks import with_lengths
from qserver.service.cells.searched import SearchedCells
from qserver.service.inner.parts import Parts
from qserver.service.inner.statements import InnerSelects
from qserver.service.service import Price, Service
from qserver.service.statement_answers import (
    AnsweredCell,
    AnyStatement,
    StatementAnswer,
    StatementExplanation,
    facts_table,
    looked,
    probability_table,
    shaped,
)
from qserver.service.steps.quote_cap import CappedSteps, at_most_nano
from qserver.service.steps.statement import StatementSteps
from qserver.service.steps.taken import TakenSteps, with_earlier
from qserver.service.visits import hold_thread, present_visit, read_once, visiting
from qserver.service.without_spending import WithoutSpending


class Statements:
    """Statements on the use cases of a service; `clock` tells seconds, monotonic."""

    def __init__(self, questions: Service, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._questions = questions
        self._clock = clock

    def run(
        self,
        name: str,
        text: str,
        *,
        wait_s: float,
        explain: bool = False,
        measure: Measure | None = None,
        at: str = "",
        default: Exactness = UNSAID,
        spends: bool = True,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> AnyStatement | JobStatus:
        """The table that a text asks for, its price, or a job after `wait_s`.

        Args:
            explain: asks for the price, as EXPLAIN before the text does.
            measure: what may be measured where the text does not say; None is the owner's choice.
            at: the last period to count, as for `Service.domain`.
            default: how exact the answers shall be where the text does not say it.
            spends: whether it may; else what is not free is refused with its price.

        Raises:
            UnconfirmedError: history does not answer, and neither says it or it may not spend.
            SqlError: the text cannot be answered; points at the place.
            NotFoundError, BudgetExhaustedError and others: as of `ask` and `ask_workload`.
        """
        service = self._questions
        state = service.state(name)
        key = StatementKey(name, state, text, at, measure, default, explain, spends, by)
        known = service.kept_statements.find(key)
        if known is not None and (idempotency is None or service.is_new(name, idempotency)):
            return known
        found = self._run(key, wait_s=wait_s, idempotency=idempotency)
        if not isinstance(found, JobStatus) and key.keeps(found):
            service.kept_statements.keep(key, found)
        return found

    def kept(
        self, name: str, text: str, *, default: Exactness, spends: bool, by: str
    ) -> AnyStatement | None:
        """What was answered for nothing before and is the same now; None for nothing."""
        service = self._questions
        state = service.state(name)
        key = StatementKey(name, state, text, "", None, default, False, spends, by)
        return service.kept_statements.find(key)

    def _run(
        self,
        asked: StatementKey,
        *,
        wait_s: float,
        idempotency: Idempotency | None,
    ) -> AnyStatement | JobStatus:
        """As `run`, computed anew."""
        name, text = asked.name, asked.text
        domain = self._questions.domain(name, at=asked.at)

        read = partial(self._questions.read_statements.of, name, domain, text)
        statement = read_once("statement", Statement, read).measuring(asked.measure)
        if statement.inner:
            parts = Parts(self, self._questions, asked, statement, domain)
            return InnerSelects(parts, self._clock() + wait_s, idempotency).run()
        return self.answered(asked, statement, wait_s=wait_s, idempotency=idempotency)

    def answered(
        self,
        asked: StatementKey,
        statement: Statement,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
    ) -> AnyStatement | JobStatus:
        """The table of a statement, or its price, as `run` gives it; raises as `run` does."""
        name, spends, by = asked.name, asked.spends, asked.by
        if not statement.columns or not statement.rows:
            return facts_table(statement, self._questions.dataset(name), explains=asked.explain)
        if statement.bounds:
            if asked.explain:
                raise statement.without_price()
            reading = statement.clauses.reading
            probability = partial(self._questions.insight.probability, name, reading=reading)
            return probability_table(statement, probability, self._questions.dataset(name))
        said = with_default(statement, asked.default)
        statement = by_owner(said, self._questions.within(name))
        is_explained = asked.explain or statement.explains
        begun = self._clock()
        if job := self.look(asked, statement, wait_s=wait_s):
            return job
        wait_s = max(wait_s - (self._clock() - begun), 0.0)
        # The owner's lengths are as if typed, but what may not spend need not be as exact.
        may_spend, free = spends or is_explained, WithoutSpending(self, self._questions, name, by)
        if not statement.has_lengths or (not may_spend and says_none(said)):
            return free.answer(said, is_priced=is_explained, wait_s=wait_s)
        if is_explained:
            return self.explain(name, statement, by=by)
        if not spends:
            free.refuse_unless_free(statement)
        return self.answer(name, statement, wait_s=wait_s, idempotency=idempotency, by=by)

    def answer(
        self,
        name: str,
        statement: Statement,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> StatementAnswer | JobStatus:
        """The table of a statement, whether or not it explains; raises as `run` does.

        Quotients are asked in steps, which never cost more than `explain` says. A job may
        be that of any of them: when it is done, the statement sent again goes on. Sent again under
        its key it also says what the steps before were charged.
        """
        # What the steps of a quotient are depends on the answers so far, so they run only once.
        visit = None if has_steps(statement) else present_visit()
        if visit is None:
            hold_thread()
        with visiting(visit):
            return self._answer(name, statement, wait_s=wait_s, idempotency=idempotency, by=by)

    def _answer(
        self,
        name: str,
        statement: Statement,
        *,
        wait_s: float,
        idempotency: Idempotency | None,
        by: str,
    ) -> StatementAnswer | JobStatus:
        """As `answer`."""
        deadline, taken = self._clock() + wait_s, TakenSteps(self._questions, name, idempotency)
        if not has_steps(statement):
            last = self._steps(name, statement).last_step()
            most = at_most_nano(statement)
            found = self._answered(
                name, last, wait_s=wait_s, idempotency=idempotency, by=by, most_nano=most
            )
            return found if isinstance(found, JobStatus) else self.table(name, last, found)
        if job := taken.recall(wait_s=wait_s):
            return job
        steps = self._capped(name, statement, by)
        steps.take(len(taken.answers))
        while (step := steps.next_step(waits=wait_s > 0)) is not None:
            left = self.left_s(deadline)
            job = taken.take(step_of(step), wait_s=left, by=by, most_nano=steps.may_cost_nano)
            steps.taken(None if job else taken.answers[-1].charged_nano)
            if job:
                return job
            steps.look()
        last = steps.last()
        left = self.left_s(deadline)
        most = steps.may_cost_nano
        answers = self._answered(
            name, last, wait_s=left, idempotency=idempotency, by=by, most_nano=most
        )
        if isinstance(answers, JobStatus):
            steps.asked_at_once()
            return answers
        steps.answered(last)
        rest = steps.rest_nano()
        return self.table(name, last, with_earlier(answers, taken.answers), rest_nano=rest)

    def left_s(self, deadline: float) -> float:
        """The seconds until then."""
        return max(deadline - self._clock(), 0.0)

    def charged_nano(self, name: str, idempotency: Idempotency) -> int:
        """What the steps of a statement that was asked under a key were charged so far."""
        (taken := TakenSteps(self._questions, name, idempotency)).recall()
        return taken.charged_nano

    def goes_on(self, name: str, statement: Statement) -> bool:
        """Whether asking would measure more before all quotients are as exact as asked."""
        return has_steps(statement) and self._capped(name, statement, "").goes_on

    def table(
        self,
        name: str,
        questions: StatementQuestions,
        found: Answer | WorkloadAnswer,
        *,
        rest_nano: int | None = None,
    ) -> StatementAnswer:
        """The table that the answers of a statement's questions fill.

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
        """The table that history fills at no cost; a cell it knows nothing of has no value.

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
        # What is not known yet can be neither ordered nor chosen.
        return shaped(found, chooses=is_complete)

    def explain(self, name: str, statement: Statement, *, by: str = "") -> StatementExplanation:
        """What a statement would cost; spends nothing. Raises as `run` does."""
        most = at_most_nano(statement)
        if not has_steps(statement):
            found = self._explained(name, self._steps(name, statement).last_step(), by)
            if most is None:
                return found
            # What passes it buys nothing for later questions.
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
        """What a statement costs at once, or by its first quote; 0 where history answers it."""
        if has_steps(statement):
            return self._capped(name, statement, by).quote
        return self._questions.price(name, workload_of(self.asked(name, statement)), by=by)

    def left_to_pay(self, name: str, statement: Statement, *, by: str) -> int | None:
        """What it costs from here on, in nano-epsilon; None where history answers it.

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

    def _is_free(self, name: str, statement: Statement) -> bool:
        """Whether history gives all that is asked of a statement without steps."""
        questions, clauses = self.asked(name, statement), statement.clauses
        if (only := only_question(questions)) is None:
            return self._questions.insight.is_free(name, workload_of(questions))
        alone = replace(only, looking=clauses.looking, reading=clauses.reading)
        return self._questions.insight.is_free(name, alone)

    def asked(self, name: str, statement: Statement) -> StatementQuestions:
        """The questions of a statement that suffice in every case, by what history says."""
        steps = self._steps(name, statement)
        return steps.with_tables(steps.last_step())

    def look(self, key: StatementKey, statement: Statement, *, wait_s: float) -> JobStatus | None:
        """Find out what is known of numbers that are no sums; after `wait_s` the job that does.

        Raises nothing: whoever needs what it finds raises what is wrong.
        """
        if not has_steps(statement):
            return None
        full = stated(statement, self._questions.within(key.name))
        return self._questions.looks.job(
            key,
            partial(self._look, key.name, full),
            lambda: workload_of(at_any_length(full)),
            wait_s=wait_s,
        )

    def _look(self, name: str, statement: Statement) -> None:
        """Compute what `answer` and `explain` will read of searched numbers."""
        questions = self._steps(name, statement).last_step()
        searched = SearchedCells(self._questions, name, questions)
        nothing = AnsweredCell(CellValue(None, UNKNOWN), "history")
        by_cell(questions, lambda cell: searched.cell(cell, nothing))

    def _capped(self, name: str, statement: Statement, by: str) -> CappedSteps:
        return CappedSteps(self._questions, name, self._steps(name, statement), by=by)

    def _steps(self, name: str, statement: Statement) -> StatementSteps:
        steps = StatementSteps(self._questions, name, statement)
        # Before anything is spent: it may be refused.
        consistent_workload(steps.last_step())
        return steps

    def _nearest(
        self,
        name: str,
        questions: StatementQuestions,
        answers: Sequence[Answer | Offer],
        ends: Sequence[Ends] = (),
    ) -> Sequence[float] | None:
        """The consistent answers of all questions, where the statement asks for them."""
        consistent = consistent_workload(questions)
        if consistent is None:
            return None
        total = self._questions.insight.total(name)
        law = self._questions.smooth.law(name)
        return consistent.answers(answers, total=total, law=law, ends=ends).estimates

    def _answered(
        self,
        name: str,
        questions: StatementQuestions,
        *,
        wait_s: float,
        idempotency: Idempotency | None,
        by: str,
        most_nano: int | None,
    ) -> Answer | WorkloadAnswer | JobStatus:
        if (only := only_question(questions)) is not None:
            clauses = questions.statement.clauses
            return self._questions.ask(
                name,
                replace(only, looking=clauses.looking, reading=clauses.reading),
                wait_s=wait_s,
                idempotency=idempotency,
                by=by,
                most_nano=most_nano,
            )
        return self._questions.ask_workload(
            name,
            workload_of(questions),
            wait_s=wait_s,
            idempotency=idempotency,
            by=by,
            most_nano=most_nano,
        )

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
    """What is known of a cell: of a function of sums only where all of them are known."""
    known = {i: one for i in cell.parts if (one := free[i]) is not None}
    if len(known) < len(set(cell.parts)):
        return None
    middles = {i: one.estimate for i, one in known.items()}
    return cell_value(cell, middles, part_intervals(cell, free, ends))
