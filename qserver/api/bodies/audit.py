"""Response bodies of the owner's pages: the audit log, and who spent what."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from qserver.api.bodies.record_body import Epsilon, PublicDocument, RecordBody


class AuditEntryBody(RecordBody):
    """An entry: `digest` is the SHA-256 of `text`, `entry` the same text read as JSON."""

    place: int
    digest: str
    entry: Annotated[PublicDocument, BeforeValidator(json.loads)] = Field(validation_alias="text")
    text: str


class AuditBody(RecordBody):
    """Entries of an audit log, oldest first; `next_after` is null on the last page."""

    entries: list[AuditEntryBody]
    next_after: int | None


class AccountSpendingBody(RecordBody):
    """What one account spent; a null `limit` or `per_day` is no bound of its own."""

    account: str = Field(description="empty for what was spent without accounts")
    spent: Epsilon
    spent_today: Epsilon = Field(validation_alias="today_nano")
    n_charges: int
    last_at: int | None = Field(description="Unix time of its last charge, in seconds")
    limit: Epsilon | None = Field(validation_alias=AliasPath("allowance", "limit_nano"))
    per_day: Epsilon | None = Field(validation_alias=AliasPath("allowance", "pace_nano"))


class SpendingBody(RecordBody):
    """Who spent what of a population's budget, the most first."""

    population: str
    limit: Epsilon
    spent: Epsilon
    accounts: list[AccountSpendingBody]
