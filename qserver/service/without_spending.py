"""A statement that may not spend: answered from history alone, or else its price as an error."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from qserver.answering.workload import KnownNumber
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
from qserver.service.ask import Idempotency
from qserver.service.cache.statements import StatementKey
from qserver.service.cells.answer_cells import workload_of
from qserver.service.service import Price, Service
from qserver.service.statement_answers import (
    AnyStatement,
    StatementAnswer,
    StatementExplanation,
)


class AsksStatements(Protocol):
    """The statements of a service; raises as `qserver.service.statements.Statements` does."""

    def answered(
        self,
        asked: StatementKey,
        statement: Statement,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
    ) -> AnyStatement | JobStatus:
        """The table of a statement, or its price."""
        ...

    def asked(self, name: str, statement: Statement) -> StatementQuestions:
        """The questions of a statement that suffice in every case."""
        ...

    def explain(self, name: str, statement: Statement, *, by: str = "") -> StatementExplanation:
        """What a statement would cost."""
        ...

    def left_to_pay(self, name: str, statement: Statement, *, by: str) -> int | None:
        """What it costs from here on, in nano-epsilon; None where history answers it."""
        ...

    def price(self, name: str, statement: Statement, *, by: str) -> Price:
        """What a statement costs at once."""
        ...

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
        """The table that history fills at no cost."""
        ...

    def left_s(self, deadline: float) -> float:
        """The seconds until then."""
        ...


def from_history(
    statements: AsksStatements,
    service: Service,
    name: str,
    statement: Statement,
    *,
    is_priced: bool,
    wait_s: float,
    by: str,
) -> StatementAnswer | JobStatus:
    """The table that history gives at no cost, or after `wait_s` the job that computes it.

    Args:
        is_priced: whether the price is asked for, and no table.

    Raises:
        UnconfirmedError: history does not give every number; with the price at stated lengths.
    """
    if not says_none(statement):
        raise priced(statements, service, name, statement, by=by)
    questions = statements.asked(name, stated(statement, service.within(name)))
    if is_priced:
        known = _as_known(service, name, questions, _typed(statement, questions))
        is_known = known is not None
        raise priced(statements, service, name, statement, by=by, is_known=is_known)
    typed = _typed(statement, questions)
    found = known_now(statements, service, name, questions, typed=typed, wait_s=wait_s, by=by)
    if found is None:
        raise priced(statements, service, name, statement, by=by)
    return found


def known_now(
    statements: AsksStatements,
    service: Service,
    name: str,
    questions: StatementQuestions,
    *,
    typed: Collection[int] = (),
    wait_s: float,
    by: str,
) -> StatementAnswer | JobStatus | None:
    """The table that history gives at no cost, as exactly as it knows it; None where it does not.

    Args:
        typed: the questions that it must know as exactly as they are asked.
    """
    known = _as_known(service, name, questions, typed)
    if known is None:
        return None
    numbers = service.known_workload(name, known, wait_s=wait_s, by=by)
    if isinstance(numbers, JobStatus):
        return numbers
    status = service.dataset(name)
    return statements.known_table(
        name,
        questions,
        numbers,
        remaining_nano=status.remaining_nano,
        version=status.version,
        is_asked=False,
    )


def _as_known(
    service: Service, name: str, questions: StatementQuestions, typed: Collection[int]
) -> Workload | None:
    """The questions as exactly as history knows them, or as asked; None where it lacks one."""
    workload = workload_of(questions)
    known = service.insight.as_known(name, workload)
    asked = [
        one
        for i, one in enumerate(known)
        if one is not None and (i not in typed or one == workload.questions[i])
    ]
    return replace(workload, questions=tuple(asked)) if len(asked) == len(known) else None


def _typed(statement: Statement, questions: StatementQuestions) -> set[int]:
    """The questions of numbers that the text gives a length."""
    columns = range(len(statement.columns))
    said = {k for k in columns if statement.exactness_of(k).has_length}
    return {i for row in questions.cells for k in said for i in row[k].parts}


def priced(
    statements: AsksStatements,
    service: Service,
    name: str,
    statement: Statement,
    *,
    by: str = "",
    is_known: bool = False,
) -> UnconfirmedError:
    """The error of a statement that lacks a length: with its price at the stated ones.

    Args:
        is_known: whether history answers it as it is.
    """
    full = stated(statement, service.within(name))
    price, left = statements.left_to_pay(name, full, by=by) or 0, _remaining(service, name)
    return unconfirmed(statement, full, price_nano=price, remaining_nano=left, is_known=is_known)


def refuse_unless_free(
    statements: AsksStatements, service: Service, name: str, statement: Statement, *, by: str
) -> None:
    """Return if a statement with lengths costs nothing now; UnconfirmedError with its price."""
    price = statements.left_to_pay(name, statement, by=by)
    if price is not None:
        left = _remaining(service, name)
        raise not_spending(statement, price_nano=price, remaining_nano=left)


def _remaining(service: Service, name: str) -> int:
    return service.dataset(name).remaining_nano


def not_spending(statement: Statement, *, price_nano: int, remaining_nano: int) -> UnconfirmedError:
    """The error of a statement with lengths that may not spend, and would cost this."""
    price, left = price_nano, remaining_nano
    refused = statement.source.refuse(
        "This connection may not spend budget",
        statement.source.end,
        hint=f"The answer would {costs(price, left)}. Nothing was spent.",
        at_place=False,
    )
    return UnconfirmedError(refused, price_nano=price, remaining_nano=left, words="")
