"""What HTTP needs of the service; the service of `qserver.service.service` has this shape."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from qserver.query.linear import LinearQuery
from qserver.records.answer import (
    DatasetStatus,
    HistoryPage,
    HistoryRow,
    HistoryTable,
    JobStatus,
    LedgerReport,
    Probability,
)
from qserver.service.audit import AuditPage, SpendingReport
from qserver.service.model_port import ModelUseCases
from qserver.service.statement_port import Questions


class QuestionService(Questions, Protocol):
    """The use cases behind the routes. Thread-safe; raises the errors of `qserver.errors`."""

    @property
    def models(self) -> ModelUseCases:
        """The use cases of models."""

    def datasets(self) -> Sequence[DatasetStatus]:
        """All datasets."""

    def dataset(self, name: str) -> DatasetStatus:
        """One dataset; NotFoundError."""

    def version(self, name: str) -> Hashable:
        """A token that changes whenever an answer from history, or what remains, may change.

        Cheap, and it never returns to an earlier value: answers are kept under the token that was
        read before they were computed. NotFoundError.
        """

    def parse(self, name: str, document: object) -> LinearQuery:
        """The query that a structured question, or a text of SQL, means.

        Raises QueryError and CapacityError.
        """

    def probability(self, name: str, query: LinearQuery, *, low: float, high: float) -> Probability:
        """P(low <= q <= high) from history alone; NotEstimableError."""

    def history(
        self, name: str, *, after: int, limit: int, snapshot: str | None = None
    ) -> HistoryPage:
        """Released rows and tables with an id above `after`, of the present snapshot or another."""

    def measurement(
        self, name: str, number: int, *, snapshot: str | None = None
    ) -> HistoryRow | HistoryTable:
        """One released row or table, with its values; NotFoundError."""

    def ledger(
        self, name: str, *, where: Mapping[str, Any] | None, attribute: str | None
    ) -> LedgerReport:
        """The largest loss over the cells that `where` keeps, in all or by value."""

    def job(self, job_id: str) -> JobStatus:
        """The state of a job; NotFoundError."""

    def audit(self, *, after: int, limit: int) -> AuditPage:
        """Changes of accounts, allowances, datasets and limits above the place `after`."""

    def audit_charges(self, name: str, *, after: int, limit: int) -> AuditPage:
        """Charges of the dataset's population above the place `after`; NotFoundError."""

    def spending(self, name: str) -> SpendingReport:
        """Who spent what of the budget of the dataset's population; NotFoundError."""

    def ready(self) -> None:
        """Raise StoreError unless the store can be reached and keeps what it acknowledges."""
