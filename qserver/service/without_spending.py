"""A statement that may not spend: answered from history alone, or else its price as an error."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from qserver.query.question import Workload
from qserver.query.sql.cells import StatementQuestions
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.unconfirmed import (
    UnconfirmedError,
    costs,
    says_none,
    stated,
    unconfirmed,
)
from qserver.records.answer import JobStatus
from qserver.service.cells.answer_cells import workload_of
from qserver.service.service import Service
from qserver.service.statement_answers import (
    StatementAnswer,
)
from qserver.service.statement_tables import StatementTables


@dataclass(frozen=True)
class WithoutSpending:
    """Answers an account's statements on a dataset at no cost."""

    statements: StatementTables
    service: Service
    name: str
    by: str = ""

    def answer(
        self, statement: Statement, *, is_priced: bool, wait_s: float
    ) -> StatementAnswer | JobStatus:
        """The table of history, or after `wait_s` the job that computes it.

        Args:
            is_priced: whether the price is asked for, and no table.

        Raises:
            UnconfirmedError: history does not give every number; with the price at stated lengths.
        """
        if not says_none(statement):
            raise self.priced(statement)
        full = stated(statement, self.service.within(self.name))
        questions = self.statements.asked(self.name, full)
        typed = _typed(statement, questions)
        if is_priced:
            raise self.priced(statement, is_known=self._as_known(questions, typed) is not None)
        found = self.known(questions, typed=typed, wait_s=wait_s)
        if found is None:
            raise self.priced(statement)
        return found

    def known(
        self, questions: StatementQuestions, *, typed: Collection[int] = (), wait_s: float
    ) -> StatementAnswer | JobStatus | None:
        """The table as exactly as history knows it; None where it does not.

        Args:
            typed: the questions that it must know as exactly as they are asked.
        """
        known = self._as_known(questions, typed)
        if known is None:
            return None
        numbers = self.service.known_workload(self.name, known, wait_s=wait_s, by=self.by)
        if isinstance(numbers, JobStatus):
            return numbers
        status = self.service.dataset(self.name)
        return self.statements.known_table(
            self.name,
            questions,
            numbers,
            remaining_nano=status.remaining_nano,
            version=status.version,
            is_asked=False,
        )

    def priced(self, statement: Statement, *, is_known: bool = False) -> UnconfirmedError:
        """The error of a statement without a length, with its price at the proposed lengths.

        Args:
            is_known: whether history answers it as it is.
        """
        full = stated(statement, self.service.within(self.name))
        price = self.statements.left_to_pay(self.name, full, by=self.by) or 0
        left = self._remaining_nano
        return unconfirmed(
            statement, full, price_nano=price, remaining_nano=left, is_known=is_known
        )

    def refuse_unless_free(self, statement: Statement) -> None:
        """Return if a statement with lengths is free now; else UnconfirmedError with its price."""
        price = self.statements.left_to_pay(self.name, statement, by=self.by)
        if price is not None:
            raise not_spending(statement, price_nano=price, remaining_nano=self._remaining_nano)

    @property
    def _remaining_nano(self) -> int:
        return self.service.dataset(self.name).remaining_nano

    def _as_known(self, questions: StatementQuestions, typed: Collection[int]) -> Workload | None:
        """The questions as exactly as history knows them, or as asked; None where it lacks one."""
        workload = workload_of(questions)
        known = self.service.insight.as_known(self.name, workload)
        asked = [
            one
            for i, one in enumerate(known)
            if one is not None and (i not in typed or one == workload.questions[i])
        ]
        return replace(workload, questions=tuple(asked)) if len(asked) == len(known) else None


def _typed(statement: Statement, questions: StatementQuestions) -> set[int]:
    """The questions of numbers whose length the text states."""
    columns = range(len(statement.columns))
    said = {k for k in columns if statement.exactness_of(k).has_length}
    return {i for row in questions.cells for k in said for i in row[k].parts}


def not_spending(statement: Statement, *, price_nano: int, remaining_nano: int) -> UnconfirmedError:
    """The error of a statement with lengths that may not spend, with its price."""
    price, left = price_nano, remaining_nano
    refused = statement.source.refuse(
        "This connection may not spend budget",
        statement.source.end,
        hint=f"The answer would {costs(price, left)}. Nothing was spent.",
        at_place=False,
    )
    return UnconfirmedError(refused, price_nano=price, remaining_nano=left, words="")
