"""What parts of statements need of the statements of a service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from qserver.answering.workload import KnownNumber
from qserver.query.sql.cells import StatementQuestions
from qserver.query.sql.statement import Statement
from qserver.records.answer import JobStatus
from qserver.service.ask import Idempotency
from qserver.service.cache.statements import StatementKey
from qserver.service.service import Price
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
