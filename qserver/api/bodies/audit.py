"""Response bodies of the owner's pages: the audit log, and who spent what."""

from __future__ import annotations

import json
from typing import Any, Self

from pydantic import BaseModel, Field

from qserver.api.bodies.answers import Epsilon
from qserver.api.wire import epsilon, wire_value
from qserver.service.audit import AccountSpending, AuditEntry, AuditPage, SpendingReport


class AuditEntryBody(BaseModel):
    """An entry: `digest` is the SHA-256 of `text`, `entry` the same text read as JSON."""

    place: int
    digest: str
    entry: dict[str, Any]
    text: str

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """The entry as JSON has it."""
        plain = wire_value(json.loads(entry.text))
        return cls(place=entry.place, digest=entry.digest, entry=plain, text=entry.text)


class AuditBody(BaseModel):
    """Entries of an audit log, oldest first; `next_after` is null on the last page."""

    entries: list[AuditEntryBody]
    next_after: int | None

    @classmethod
    def of(cls, page: AuditPage) -> Self:
        """The page as JSON has it."""
        return cls(entries=list(map(AuditEntryBody.of, page.entries)), next_after=page.next_after)


class AccountSpendingBody(BaseModel):
    """What one account spent; a null `limit` or `per_day` is no bound of its own."""

    account: str = Field(description="empty for what was spent without accounts")
    spent: Epsilon
    spent_today: Epsilon
    n_charges: int
    last_at: int | None = Field(description="Unix time of its last charge, in seconds")
    limit: Epsilon | None
    per_day: Epsilon | None

    @classmethod
    def of(cls, found: AccountSpending) -> Self:
        """The account's spending as JSON has it."""
        limit, pace = found.allowance.limit_nano, found.allowance.pace_nano
        return cls(
            account=found.account,
            spent=epsilon(found.spent_nano),
            spent_today=epsilon(found.today_nano),
            n_charges=found.n_charges,
            last_at=found.last_at,
            limit=None if limit is None else epsilon(limit),
            per_day=None if pace is None else epsilon(pace),
        )


class SpendingBody(BaseModel):
    """Who spent what of a population's budget, the most first."""

    population: str
    limit: Epsilon
    spent: Epsilon
    accounts: list[AccountSpendingBody]

    @classmethod
    def of(cls, report: SpendingReport) -> Self:
        """The report as JSON has it."""
        return cls(
            population=report.population,
            limit=epsilon(report.limit_nano),
            spent=epsilon(report.spent_nano),
            accounts=list(map(AccountSpendingBody.of, report.accounts)),
        )
