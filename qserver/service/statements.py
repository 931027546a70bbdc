"""Statements of SQL asked: answered from history, priced, refused, or queued in steps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from qserver.query.requirement import Measure
from qserver.query.sql.cells import (
    CellValue,
    StatementQuestions,
    at_any_length,
    has_steps,
)
from qserver.query.sql.exactness import UNSAID, Exactness
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.unconfirmed import by_owner, says_none, stated, with_default
from qserver.records.answer import (
    Answer,
    JobStatus,
    WorkloadAnswer,
)
from qserver.service.ask import Idempotency
from qserver.service.cache.statements import StatementKey
from qserver.service.cells.answer_cells import (
    UNKNOWN,
    by_cell,
    only_question,
    step_of,
    workload_of,
)
from qserver.service.cells.stepwise_cells import SearchedCells
from qserver.service.inner.parts import Parts
from qserver.service.inner.statements import InnerSelects
from qserver.service.parking import hold_thread, present_visit, read_once, visiting
from qserver.service.statement_answers import (
    AnsweredCell,
    AnyStatement,
    StatementAnswer,
    facts_table,
    probability_table,
)
from qserver.service.statement_tables import StatementTables
from qserver.service.steps.earlier_steps import TakenSteps, with_earlier
from qserver.service.steps.quote_cap import at_most_nano
from qserver.service.without_spending import WithoutSpending


class Statements(StatementTables):
    """Asks statements through the use cases of a service."""

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
        """The table or price kept from an earlier free answer, if still valid; or None."""
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
            until = self._clock() + wait_s
            return InnerSelects(parts, self.answered, until, idempotency).run()
        return self.answered(asked, statement, wait_s, idempotency)

    def answered(
        self,
        asked: StatementKey,
        statement: Statement,
        wait_s: float,
        idempotency: Idempotency | None,
    ) -> AnyStatement | JobStatus:
        """The table of a statement, or its price as `run` gives it; raises as `run`."""
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
        # The owner's lengths count as typed, but a statement without spending need not reach them.
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
        """The table of a statement, whether or not it explains; raises as `run`.

        Quotients are asked in steps, which never cost more than `explain` says. A job may
        be that of any of them: when it is done, the statement sent again goes on. Sent again under
        its key it also says what the steps before were charged.
        """
        # The answers so far decide a quotient's steps, so they run only once.
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

    def charged_nano(self, name: str, idempotency: Idempotency) -> int:
        """The charge so far of the steps of a statement asked under a key."""
        (taken := TakenSteps(self._questions, name, idempotency)).recall()
        return taken.charged_nano

    def look(self, key: StatementKey, statement: Statement, *, wait_s: float) -> JobStatus | None:
        """Find what history knows of numbers that are no sums; after `wait_s` the job that does.

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
        """Compute the searched numbers that `answer` and `explain` will read."""
        questions = self._steps(name, statement).last_step()
        searched = SearchedCells(self._questions, name, questions)
        nothing = AnsweredCell(CellValue(None, UNKNOWN), "history")
        by_cell(questions, lambda cell: searched.cell(cell, nothing))

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
