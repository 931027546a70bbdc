"""The kinds of problem that HTTP reports, by their stable code, with status and title."""

from __future__ import annotations

from dataclasses import dataclass


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
    ProblemKind("malformed_json", 400, "The body is not the JSON that is asked for"),
    ProblemKind("bad_request", 400, "The request is not well-formed HTTP"),
    ProblemKind("unauthenticated", 401, "A token is needed"),
    ProblemKind("forbidden", 403, "The account may not do this"),
    ProblemKind("not_found", 404, "There is nothing of this name"),
    ProblemKind("method_not_allowed", 405, "The method does not apply here"),
    ProblemKind("budget_exhausted", 409, "The budget cannot pay for the answer"),
    ProblemKind("over_at_most", 409, "The answer would cost more than it may"),
    ProblemKind("allowance_exhausted", 409, "The analyst's allowance cannot pay for the answer"),
    ProblemKind("pace_exceeded", 409, "The analyst's pace cannot pay for the answer today"),
    ProblemKind("disclosure_guard", 409, "A cell would be known too well"),
    ProblemKind("claim_guard", 409, "A claim would be known too well"),
    ProblemKind("period_retired", 409, "The records of these periods are erased"),
    ProblemKind("unconfirmed", 409, "The price has to be confirmed"),
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
        "No answer comes of the plan. Nothing was charged or measured.",
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
        "No worker is alive for this dataset. What history can answer is still answered.",
        retry_after_s=5,
    ),
    ProblemKind(
        "busy",
        503,
        "Too many questions wait",
        "Too many questions wait for a worker. What history can answer is still answered.",
        retry_after_s=5,
    ),
    ProblemKind("store_error", 503, "The store failed", _STORE, retry_after_s=5),
    ProblemKind("store_unavailable", 503, "The store is unreachable", _STORE, retry_after_s=5),
    ProblemKind("store_unsupported", 503, "The store is of another version", _STORE),
    ProblemKind("store_not_durable", 503, "The store may forget", _STORE),
    ProblemKind("store_behind", 503, "The store lost charges", _STORE),
    ProblemKind("store_corrupt", 503, "The store's data are damaged", _DAMAGED),
    ProblemKind("fenced", 503, "The worker was replaced", _STORE, retry_after_s=1),
    ProblemKind("stale_version", 503, "The ledger moved meanwhile", _STORE, retry_after_s=1),
)

KINDS = {kind.code: kind for kind in _ALL}
INTERNAL = KINDS["internal"]
STORE_CODES = tuple(kind.code for kind in _ALL if kind.detail in (_STORE, _DAMAGED))


def kind_of(code: str) -> ProblemKind:
    """The kind of problem with this code; the server's own failure where there is none."""
    return KINDS.get(code, INTERNAL)
