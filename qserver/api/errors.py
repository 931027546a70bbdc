"""Errors as RFC 9457 problem details; the only place that turns an error into an HTTP status."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import Flask, Response, request
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from qserver.api.headers import REQUEST_ID, SECURITY_HEADERS, request_id, request_id_of
from qserver.api.metrics import PROBLEMS
from qserver.api.wire import epsilon, free_document
from qserver.errors import (
    AllowanceExhaustedError,
    AtMostError,
    BudgetExhaustedError,
    DisclosureGuardError,
    InputError,
    NotFoundError,
    QServerError,
    RateLimitedError,
    SqlError,
)
from qserver.query.calendar import PeriodRetiredError
from qserver.query.sql.tables.unconfirmed import UnconfirmedError
from qserver.records.claim import ClaimGuardError
from qserver.records.problem import error_from_problem
from qserver.text import at_delta


@dataclass(frozen=True)
class ProblemKind:
    """One kind of problem.

    Args:
        code: stable; clients match on it.
        status: the HTTP status.
        title: the same for every occurrence.
        detail: constant text in place of the error's own, where that may name the server's
            insides.
        retry_after_s: sent as Retry-After, in seconds.
    """

    code: str
    status: int
    title: str
    detail: str | None = None
    retry_after_s: int | None = None


_STORE = "The store cannot serve this request now; without it nothing is answered."
_DAMAGED = (
    "The store's data are not as they were written, so nothing is answered from them. The server's "
    "operator runs `qserver-worker restore`, or restores a backup."
)

_ALL = (
    ProblemKind("malformed_json", 400, "The body is not the expected JSON"),
    ProblemKind("bad_request", 400, "The request is not well-formed HTTP"),
    ProblemKind("unauthenticated", 401, "A token is needed"),
    ProblemKind("forbidden", 403, "The account may not do this"),
    ProblemKind("not_found", 404, "Nothing has this name"),
    ProblemKind("method_not_allowed", 405, "The method does not apply here"),
    ProblemKind("budget_exhausted", 409, "The budget cannot pay for the answer"),
    ProblemKind("over_at_most", 409, "The answer would cost more than you allow"),
    ProblemKind("allowance_exhausted", 409, "The analyst's allowance cannot pay for the answer"),
    ProblemKind("pace_exceeded", 409, "The analyst's pace cannot pay for the answer today"),
    ProblemKind("disclosure_guard", 409, "A cell would be known too well"),
    ProblemKind("claim_guard", 409, "A claim would be known too well"),
    ProblemKind("period_retired", 409, "The records of these periods are erased"),
    ProblemKind("unconfirmed", 409, "Confirm the price first"),
    ProblemKind("snapshot_replaced", 409, "The dataset has new data"),
    ProblemKind("not_estimable", 409, "The released history cannot give this"),
    ProblemKind("body_too_large", 413, "The body is too large"),
    ProblemKind("unsupported_media_type", 415, "The body must be application/json"),
    ProblemKind("invalid_input", 422, "A field is wrong"),
    ProblemKind("invalid_query", 422, "The query is wrong"),
    ProblemKind("invalid_sql", 422, "The SQL cannot be answered"),
    ProblemKind("period_not_sealed", 422, "The period is not sealed yet"),
    ProblemKind("invalid_requirement", 422, "The length or the confidence is out of range"),
    ProblemKind("invalid_network", 422, "The network is wrong"),
    ProblemKind("too_large", 422, "The question passes a bound on size"),
    ProblemKind("idempotency_mismatch", 422, "The idempotency key belongs to another request"),
    ProblemKind("rate_limited", 429, "Too many requests"),
    ProblemKind(
        "internal",
        500,
        "The server failed",
        "The server failed. Its operator finds the cause under the request id.",
    ),
    ProblemKind("not_evaluated", 500, "An error's law could not be evaluated"),
    ProblemKind(
        "measurement_failed",
        502,
        "The measurement failed",
        "The measurement failed. Its charge, if any was reserved, is kept.",
    ),
    ProblemKind(
        "unanswerable",
        502,
        "The plan gives no answer",
        "The plan gives no answer. Nothing was charged or measured.",
    ),
    ProblemKind(
        "population_closed",
        502,
        "No new measurement is possible",
        "The data came back from a backup that nothing confirms, so nothing is measured any more. "
        "Answers from history are still given.",
    ),
    ProblemKind(
        "books_differ",
        502,
        "The books do not agree",
        "The books do not agree. Nothing was charged or measured.",
    ),
    ProblemKind(
        "no_worker",
        503,
        "No worker can measure now",
        "No worker is alive for this dataset. Answers from history are still given.",
        retry_after_s=5,
    ),
    ProblemKind(
        "busy",
        503,
        "Too many questions wait",
        "Too many questions wait for a worker. Answers from history are still given.",
        retry_after_s=5,
    ),
    ProblemKind("store_error", 503, "The store failed", _STORE, retry_after_s=5),
    ProblemKind("store_unavailable", 503, "The store is unreachable", _STORE, retry_after_s=5),
    ProblemKind("store_unsupported", 503, "The store is of another version", _STORE),
    ProblemKind("store_not_durable", 503, "The store may lose data", _STORE),
    ProblemKind("store_behind", 503, "The store lost charges", _STORE),
    ProblemKind("store_corrupt", 503, "The store's data are damaged", _DAMAGED),
    ProblemKind("fenced", 503, "The worker was replaced", _STORE, retry_after_s=1),
    ProblemKind("stale_version", 503, "The ledger has changed meanwhile", _STORE, retry_after_s=1),
)

KINDS = {kind.code: kind for kind in _ALL}
INTERNAL = KINDS["internal"]
STORE_CODES = tuple(kind.code for kind in _ALL if kind.detail in (_STORE, _DAMAGED))


def kind_of_problem(code: str) -> ProblemKind:
    """The kind of problem with this code; the server's own failure where there is none."""
    return KINDS.get(code, INTERNAL)


PROBLEM_TYPE = "application/problem+json"
MAX_SHOWN = 600

_log = logging.getLogger("qserver.api")
_HTTP_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}
_CONDITIONS = {
    "missing": "be given",
    "list_type": "be a list",
    "bool_type": "be true or false",
    "int_type": "be a whole number",
    "model_type": "be an object",
    "dict_type": "be an object",
    "tuple_type": "be a list of two numbers",
    "too_long": "be a list of two numbers",
}


class RequestError(QServerError):
    """A fault of the request itself, found before any use case.

    Args:
        code: a code of `qserver.api.errors`.
        detail: what is wrong here.
        facts: further members of the problem.
    """

    def __init__(self, code: str, detail: str, **facts: Any) -> None:
        self.code = code
        self.facts = facts
        super().__init__(detail)


def register_error_handlers(app: Flask, delta: Callable[[str], float | None]) -> None:
    """Let every error of every route leave as a problem."""
    app.register_error_handler(QServerError, partial(_on_known, delta))
    app.register_error_handler(HTTPException, _on_http)
    app.register_error_handler(Exception, _on_unexpected)


def problem_document(
    kind: ProblemKind, detail: str = "", facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The members of a problem: RFC 9457's own, `code`, and the facts."""
    return {
        "type": f"/docs#{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": _shown(kind.detail or detail or kind.title),
        "code": kind.code,
        **(facts or {}),
    }


def fields_problem(
    exc: ValidationError, known: tuple[str, ...], inner: Mapping[str, tuple[str, ...]]
) -> RequestError:
    """The problem of a body whose fields are missing, unknown or of the wrong type.

    Args:
        known: fields of the body; inner: those of objects in it, by the field that holds them.
    """
    faults = []
    for error in exc.errors(include_url=False, include_input=False, include_context=False):
        name = _dotted(error["loc"])
        condition = _CONDITIONS.get(error["type"], error["msg"].removeprefix("Input should "))
        if error["type"] == "extra_forbidden":
            fields = known if len(error["loc"]) == 1 else inner.get(str(error["loc"][0]), ())
            condition = "be left out: the fields are " + ", ".join(f"`{k}`" for k in fields)
        faults.append(_fault(name, f"`{name}` must {condition}."))
    return RequestError("invalid_input", faults[0]["message"], errors=faults)


def job_problem(problem: Mapping[str, Any]) -> dict[str, Any]:
    """A failed job's stored problem as the problem details that its question would have got."""
    error = error_from_problem(problem)
    return problem_document(kind_of_problem(error.code), str(error), _facts(error))


def with_delta(problem: dict[str, Any], delta: float | None) -> dict[str, Any]:
    """The same problem; beside a price it states the delta, if any."""
    if delta is None or "price" not in problem:
        return problem
    detail = f"{problem['detail']} Amounts are epsilon{at_delta(delta)}."
    return {**problem, "detail": detail, "delta": delta}


def early_response(exc: Exception, environ: dict[str, Any]) -> Response:
    """The problem of a request that never reached the app, with all headers."""
    known = isinstance(exc, QServerError) and kind_of_problem(exc.code) is not INTERNAL
    kind = kind_of_problem(exc.code) if known and isinstance(exc, QServerError) else INTERNAL
    if kind.status >= 500:
        _log.error("request %s failed at the gate", request_id_of(environ), exc_info=exc)
    facts = {} if kind is not INTERNAL else {"request_id": request_id_of(environ)}
    response = _response(kind, str(exc), facts)
    _add_challenge(response, exc)
    response.headers.extend([*SECURITY_HEADERS, (REQUEST_ID, request_id_of(environ))])
    return response


def _add_challenge(response: Response, exc: Exception) -> None:
    """The headers that tell a client how to authenticate."""
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="qserver"'
    if isinstance(exc, RateLimitedError):
        response.headers["Retry-After"] = str(exc.retry_after_s)


def _on_known(delta: Callable[[str], float | None], exc: QServerError) -> Response:
    kind = kind_of_problem(exc.code)
    if kind is INTERNAL:
        return _on_unexpected(exc)
    if kind.status >= 500:
        _log.error("%s: %s", exc.code, exc, extra={"code": exc.code})
    dataset, facts, at = (request.view_args or {}).get("dataset"), _facts(exc), None
    if dataset is not None and "price" in facts:
        # The price is stated even when the store cannot be read.
        with suppress(QServerError):
            at = delta(dataset)
    return _response(kind, str(exc), facts, delta=at)


def _on_http(exc: HTTPException) -> Response:
    status = exc.code or 500
    if status >= 500:
        return _on_unexpected(exc)
    kind = kind_of_problem(_HTTP_CODES.get(status, "bad_request"))
    facts = {"kind": "page"} if status == 404 else {}
    response = _response(kind, exc.description or kind.title, facts)
    if isinstance(exc, MethodNotAllowed) and exc.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(exc.valid_methods))
    return response


def _on_unexpected(exc: Exception) -> Response:
    _log.error("a request failed", exc_info=exc)
    return _response(INTERNAL, "", {"request_id": request_id()})


def _facts(exc: QServerError) -> dict[str, Any]:
    if isinstance(exc, RequestError):
        return exc.facts
    if isinstance(exc, UnconfirmedError):
        return {
            "errors": [_fault(exc.name, str(exc))],
            **_place(exc),
            "price": epsilon(exc.price_nano),
            "remaining": epsilon(exc.remaining_nano),
            "add": exc.words,
        }
    if isinstance(exc, InputError):
        return {"errors": [_fault(exc.name, str(exc))], **_place(exc)}
    if isinstance(exc, NotFoundError):
        return {"kind": exc.kind}
    if isinstance(exc, AllowanceExhaustedError):
        return {
            "price": epsilon(exc.price_nano),
            "remaining": epsilon(exc.remaining_nano),
            "more_at": exc.more_at,
        }
    if isinstance(exc, BudgetExhaustedError):
        left = "at_most" if isinstance(exc, AtMostError) else "remaining"
        facts = {left: epsilon(exc.remaining_nano)}
    elif isinstance(exc, DisclosureGuardError):
        loss, allowed = epsilon(exc.loss_nano), epsilon(exc.allowed_nano)
        facts = {"loss": loss, "loss_allowed": allowed, "cap": exc.cap}
    elif isinstance(exc, ClaimGuardError):
        return {**exc.facts, "free": free_document(exc.free)}
    elif isinstance(exc, PeriodRetiredError):
        return {"first_kept": exc.first_kept, "free": free_document(exc.free)}
    else:
        return {}
    return {"price": epsilon(exc.price_nano), **facts, "free": free_document(exc.free)}


def _place(exc: InputError) -> dict[str, Any]:
    """The place of the fault in a text of SQL."""
    if not isinstance(exc, SqlError):
        return {}
    return {"line": exc.line, "column": exc.column, "excerpt": exc.excerpt}


def _fault(field: str, message: str) -> dict[str, str]:
    return {"field": _shown(field), "message": _shown(message)}


def _dotted(location: tuple[int | str, ...]) -> str:
    name = ""
    for part in location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def _shown(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _response(
    kind: ProblemKind, detail: str, facts: Mapping[str, Any], *, delta: float | None = None
) -> Response:
    PROBLEMS.labels(kind.code).inc()
    # Escaped to ASCII: a client's own text may come back here, whatever it holds.
    found = with_delta(problem_document(kind, detail, facts), delta)
    body = json.dumps(found, allow_nan=False)
    response = Response(body, status=kind.status, content_type=PROBLEM_TYPE)
    if kind.retry_after_s is not None:
        response.headers["Retry-After"] = str(kind.retry_after_s)
    return response
