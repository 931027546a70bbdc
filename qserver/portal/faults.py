"""Errors as a page tells them: what happened, what it means, what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from werkzeug.exceptions import HTTPException

from qserver.api.errors import INTERNAL, kind_of
from qserver.api.headers import request_id
from qserver.errors import (
    AllowanceExhaustedError,
    BudgetExhaustedError,
    DisclosureGuardError,
    InputError,
    QServerError,
    SqlError,
)
from qserver.portal.labels import FormFields
from qserver.query.calendar.refused import PeriodRetiredError
from qserver.records.answer import Offer
from qserver.records.claim import ClaimGuardError

_ADVICE = {
    "budget_exhausted": "Nothing was spent. Ask for a longer interval or less confidence, or take "
    "what is known at no cost.",
    "over_at_most": "Nothing was spent. Allow more, or ask for a longer interval or less "
    "confidence, or take what is known at no cost.",
    "allowance_exhausted": "Nothing was spent. Ask for a longer interval or less confidence; the "
    "owner of the data decides about allowances.",
    "pace_exceeded": "Nothing was spent. Wait, or ask for a longer interval or less confidence.",
    "disclosure_guard": "Nothing was spent. Ask for a longer interval or less confidence.",
    "claim_guard": "Nothing was spent. Ask for a longer interval, or for this question only.",
    "period_retired": "Nothing was spent. Ask about later periods, for a longer interval or less "
    "confidence, or take what is known at no cost.",
    "unconfirmed": "Nothing was spent. Say how long the interval may be, and ask again.",
    "not_estimable": "Nothing that was released so far tells anything about it. Ask it: its price "
    "is shown first.",
    "invalid_query": "Change the question and ask again.",
    "invalid_sql": "Change the question and ask again.",
    "invalid_requirement": "Change the interval or the confidence and ask again.",
    "no_worker": "What is known already can still be read. Try again in a while.",
    "busy": "What is known already can still be read. Try again in a while.",
    "rate_limited": "Wait a few seconds and try again.",
    "measurement_failed": "Ask again later; the operator's log has the cause.",
    "books_differ": "Nothing was spent. Tell the data's owner: the worker's log has the cause.",
    "unanswerable": "Nothing was spent. Ask it in another way; the operator's log has the cause.",
}


@dataclass(frozen=True)
class Fault:
    """The part of an error that a page shows.

    Args:
        title: the same for all of its kind.
        detail: what is wrong here.
        advice: what may help, or ''.
        price_nano, remaining_nano: where the question costs more than there is.
        free: the best interval that costs nothing, or None.
        is_known: whether something is known at no cost.
        inputs: names of the form's inputs that are wrong.
        excerpt: the line of a text that cannot be answered, with carets below the place; or ''.
    """

    code: str
    status: int
    title: str
    detail: str
    advice: str
    retry_after_s: int | None = None
    price_nano: int | None = None
    remaining_nano: int | None = None
    free: Any = None
    excerpt: str = ""
    is_known: bool = False
    inputs: tuple[str, ...] = ()

    @property
    def inputs_json(self) -> str:
        """The inputs, for the script that marks them."""
        return json.dumps(self.inputs)

    @property
    def is_internal(self) -> bool:
        """Whether the server itself failed; no details are shown then."""
        return self.code == INTERNAL.code


def fault_of(exc: Exception, fields: FormFields | None = None) -> Fault:
    """The part of an error that a page shows; of an unknown error only the request's id.

    Args:
        fields: of the form that was sent, in whose words the error is told.
    """
    kind = kind_of(exc.code) if isinstance(exc, QServerError) else INTERNAL
    detail = kind.detail or str(exc)
    if kind is INTERNAL:
        detail += f" Request {request_id()}."
    facts: dict[str, Any] = {}
    if isinstance(exc, BudgetExhaustedError | AllowanceExhaustedError):
        facts = {"price_nano": exc.price_nano, "remaining_nano": exc.remaining_nano}
    if isinstance(
        exc, BudgetExhaustedError | DisclosureGuardError | ClaimGuardError | PeriodRetiredError
    ):
        # Of a table there is one for each number; its page shows them.
        facts["free"] = exc.free if isinstance(exc.free, Offer) else None
        facts["is_known"] = bool(exc.free)
    if isinstance(exc, SqlError):
        facts["excerpt"] = exc.excerpt
    if isinstance(exc, InputError) and fields is not None:
        detail = fields.told(exc)
        facts["inputs"] = fields.field_of(exc.name).inputs
    return Fault(
        code=kind.code,
        status=kind.status,
        title=kind.title,
        detail=detail,
        advice=_ADVICE.get(kind.code, ""),
        retry_after_s=kind.retry_after_s,
        **facts,
    )


def fault_of_http(exc: HTTPException) -> Fault:
    """The fault of a malformed request."""
    status = exc.code or 500
    title = "The request cannot be read" if status < 500 else INTERNAL.title
    detail = exc.description or "" if status < 500 else INTERNAL.detail or ""
    return Fault("bad_request" if status < 500 else INTERNAL.code, status, title, detail, "")
