"""How to provoke each problem that a route documents, by its status and code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from qserver import errors
from qserver.api.errors import STORE_CODES
from qserver.query.calendar import PeriodNotSealedError, PeriodRetiredError
from qserver.records.answer import Offer
from qserver.records.claim import ClaimGuardError
from tests.api.calls import (
    AUDIT,
    MODEL,
    MODEL_QUESTION,
    PROPOSAL,
    QUERY,
    QUESTION,
    SQL,
    WORKLOAD,
    Caller,
    Reply,
)
from tests.api.fake_service import FakeService
from tests.api.quiet_server import MAX_BODY_BYTES

DATASET = "/v1/datasets/adult"


STORE_ERRORS = {
    cls.code: cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.StoreError) and cls.code in STORE_CODES
}


# The first call to the service that a route makes.
ENTRY = {
    ("GET", "/v1/datasets"): "datasets",
    ("GET", "/v1/datasets/{dataset}"): "dataset",
    ("GET", "/v1/datasets/{dataset}/history"): "page",
    ("GET", "/v1/datasets/{dataset}/history/{measurement}"): "measurement",
    ("GET", "/v1/datasets/{dataset}/ledger"): "loss",
    ("POST", "/v1/datasets/{dataset}/query"): "ask",
    ("POST", "/v1/datasets/{dataset}/explain"): "explain",
    ("POST", "/v1/datasets/{dataset}/probability"): "probability",
    ("POST", "/v1/datasets/{dataset}/workload"): "ask_workload",
    ("POST", "/v1/datasets/{dataset}/workload/explain"): "explain_workload",
    ("POST", "/v1/datasets/{dataset}/models/audit"): "dataset",
    ("POST", "/v1/datasets/{dataset}/sql"): "ask",
    ("POST", "/v1/datasets/{dataset}/models"): "learn_model",
    ("POST", "/v1/datasets/{dataset}/models/explain"): "explain_model",
    ("GET", "/v1/datasets/{dataset}/models"): "all_models",
    ("GET", "/v1/datasets/{dataset}/models/{model}"): "one_model",
    ("POST", "/v1/datasets/{dataset}/models/{model}/query"): "learnt_model",
    ("POST", "/v1/datasets/{dataset}/models/{model}/explain"): "learnt_model",
    ("POST", "/v1/datasets/{dataset}/models/{model}/structure"): "correlations_of_model",
    ("GET", "/v1/datasets/{dataset}/models/{model}/sample"): "columns_of_model",
    ("GET", "/v1/datasets/{dataset}/models/{model}/export"): "export_model",
    ("GET", "/v1/jobs/{job_id}"): "job",
    ("GET", "/v1/audit"): "changes",
    ("GET", "/v1/datasets/{dataset}/audit"): "charges",
    ("GET", "/v1/datasets/{dataset}/spending"): "spending",
    ("GET", "/readyz"): "ready",
}


Provoke = Callable[[Caller, FakeService], Reply]


def _real(path: str) -> str:
    """The path with names that are there."""
    names = {"{dataset}": "adult", "{job_id}": "j1", "{measurement}": "0", "{model}": "m1"}
    for variable, name in names.items():
        path = path.replace(variable, name)
    return path


def not_sealed() -> PeriodNotSealedError:
    return PeriodNotSealedError("query.where.week", "2024-W30", last="2024-W20")


def retired() -> PeriodRetiredError:
    error = PeriodRetiredError(attribute="week", first_kept="2024-W10")
    error.free = Offer(1.5, 9.5, 0.95)
    return error


def over_at_most() -> errors.AtMostError:
    error = errors.AtMostError(price_nano=60_000_001, remaining_nano=5)
    error.free = Offer(1.5, 9.5, 0.95)
    return error


def exhausted() -> errors.BudgetExhaustedError:
    error = errors.BudgetExhaustedError(price_nano=60_000_001, remaining_nano=5)
    error.free = Offer(1.5, 9.5, 0.95)
    return error


def _body(path: str) -> dict[str, Any]:
    if "workload" in path:
        return dict(WORKLOAD)
    if path.endswith("/models/audit"):
        return dict(AUDIT)
    if path.endswith("/structure"):
        return dict(PROPOSAL)
    if path.endswith("/sql"):
        return dict(SQL)
    if "models" in path:
        return dict(MODEL if path.endswith(("/models", "/models/explain")) else MODEL_QUESTION)
    return {"query": QUERY, "at_least": 3} if path.endswith("probability") else dict(QUESTION)


def _call(caller: Caller, method: str, path: str) -> Reply:
    real = _real(path)
    return caller.get(real) if method == "GET" else caller.post(real, _body(real))


def _raised(error: Exception, method: str, path: str, entry: str) -> Provoke:
    def provoke(caller: Caller, service: FakeService) -> Reply:
        service.fail(entry, error)
        return _call(caller, method, path)

    return provoke


def _post(path: str, change: dict[str, Any], headers: dict[str, str] | None = None) -> Provoke:
    real = _real(path)
    return lambda caller, _: caller.post(real, {**_body(real), **change}, headers)


def _common(method: str, path: str) -> dict[tuple[int, str], Provoke]:
    other = "DELETE" if path != "/healthz" else "POST"
    real = _real(path)
    found: dict[tuple[int, str], Provoke] = {
        (405, "method_not_allowed"): lambda caller, _: caller.call(other, real)
    }
    if path.startswith("/v1"):
        found[401, "unauthenticated"] = _raised(
            errors.UnauthenticatedError(), method, path, "admit"
        )
        found[403, "forbidden"] = _raised(errors.AccessError("No."), method, path, "admit")
        limited = errors.RateLimitedError(retry_after_s=2)
        found[429, "rate_limited"] = _raised(limited, method, path, "admit")
    entry = ENTRY.get((method, path))
    if entry:
        found[500, "internal"] = _raised(RuntimeError("private"), method, path, entry)
        for code, cls in STORE_ERRORS.items():
            found[503, code] = _raised(cls("redis://secret@host"), method, path, entry)
    if path.startswith("/v1"):
        if method == "GET":
            found[422, "invalid_input"] = lambda caller, _: caller.get(real + "?surprise=1")
        else:
            found[422, "invalid_input"] = _post(path, {"surprise": 1})
    if "{dataset}" in path:
        missing = _real(path.replace("{dataset}", "nobody"))
        found[404, "not_found"] = lambda caller, _: _call(caller, method, missing)
    return found


def guarded() -> errors.DisclosureGuardError:
    error = errors.DisclosureGuardError(
        price_nano=3 * 10**8, loss_nano=2 * 10**8, allowed_nano=4 * 10**8, cap=0.19
    )
    error.free = Offer(1.5, 9.5, 0.95)
    return error


def claimed() -> ClaimGuardError:
    error = ClaimGuardError(claim="young", width=10.0, before=0.39, after=0.53, cap=0.4)
    error.free = Offer(1.5, 9.5, 0.95)
    return error


def _wrong(path: str, query: object) -> dict[str, Any]:
    if path.endswith(("{model}/query", "{model}/explain")):
        return {"count": query}
    wrong = {"query": query}
    return {"questions": [wrong]} if "workload" in path else wrong


def _posted(path: str) -> dict[tuple[int, str], Provoke]:
    real = _real(path)
    return {
        **_questioned(path),
        (400, "malformed_json"): lambda caller, _: caller.send(real, b"{"),
        (400, "bad_request"): lambda caller, _: caller.send_chunks(real, b"no size\r\n"),
        (413, "body_too_large"): lambda caller, _: caller.send(real, b" " * (MAX_BODY_BYTES + 1)),
        (415, "unsupported_media_type"): _post(path, {}, {"Content-Type": "text/plain"}),
    }


def _questioned(path: str) -> dict[tuple[int, str], Provoke]:
    if path.endswith("/models/audit"):
        return _audited(path)
    if path.endswith("/structure"):
        return _proposed(path)
    if path.endswith(("/models", "/models/explain")):
        too_large = errors.CapacityError("No.")
        return {(422, "too_large"): _raised(too_large, "POST", path, ENTRY["POST", path])}
    return _wrong_texts(path) if path.endswith("/sql") else _wrong_queries(path)


def _wrong_queries(path: str) -> dict[tuple[int, str], Provoke]:
    return {
        (422, "invalid_query"): _post(path, _wrong(path, {"where": {"height": 1}})),
        (422, "invalid_sql"): _post(path, _wrong(path, "SELECT EXP(age) FROM adult")),
        (422, "too_large"): _raised(errors.CapacityError("Too large."), "POST", path, "parse"),
        (422, "period_not_sealed"): _raised(not_sealed(), "POST", path, "parse"),
    }


def _audited(path: str) -> dict[tuple[int, str], Provoke]:
    return {
        (422, "invalid_network"): _post(path, {"network": {"edges": [["sex", "height"]]}}),
        (422, "too_large"): _raised(errors.CapacityError("Too large."), "POST", path, "dataset"),
    }


def _proposed(path: str) -> dict[tuple[int, str], Provoke]:
    network = errors.NetworkError("variables", "name attributes of the model", "height")
    raised = {"invalid_network": network, "too_large": errors.CapacityError("Too large.")}
    entry = ENTRY["POST", path]
    return {(422, code): _raised(error, "POST", path, entry) for code, error in raised.items()}


def _wrong_texts(path: str) -> dict[tuple[int, str], Provoke]:
    far = "SELECT COUNT(*) FROM adult WITHIN 1e6 PERCENT OF 1e12"
    return {
        (422, "invalid_sql"): _post(path, {"sql": "SELECT EXP(age) FROM adult"}),
        (409, "over_at_most"): _raised(over_at_most(), "POST", path, "ask"),
        (409, "unconfirmed"): _post(path, {"sql": "EXPLAIN SELECT COUNT(*) FROM adult"}),
        (422, "invalid_requirement"): _post(path, {"sql": far}),
        (422, "too_large"): _post(path, {"sql": f"SELECT {'(' * 40}"}),
        (422, "period_not_sealed"): _raised(not_sealed(), "POST", path, "domain"),
    }


def _asked(path: str) -> dict[tuple[int, str], Provoke]:
    raised = {
        (409, "budget_exhausted"): exhausted(),
        (409, "allowance_exhausted"): errors.AllowanceExhaustedError(
            price_nano=2, remaining_nano=1
        ),
        (409, "pace_exceeded"): errors.PaceExceededError(
            price_nano=2, remaining_nano=1, more_at=1_800_000_000
        ),
        (409, "disclosure_guard"): guarded(),
        (409, "claim_guard"): claimed(),
        (409, "period_retired"): retired(),
        (409, "snapshot_replaced"): errors.SnapshotReplacedError(),
        (422, "idempotency_mismatch"): errors.IdempotencyError("It was bound before."),
        (502, "measurement_failed"): errors.MeasurementError(),
        (502, "unanswerable"): errors.UnanswerableError(),
        (502, "population_closed"): errors.ClosedError(),
        (502, "books_differ"): errors.BooksError(),
        (503, "no_worker"): errors.NoWorkerError("on host secret"),
        (503, "busy"): errors.BusyError("on host secret"),
    }
    entry = ENTRY["POST", path]
    return {key: _raised(error, "POST", path, entry) for key, error in raised.items()}


def scenarios(method: str, path: str) -> dict[tuple[int, str], Provoke]:
    """How to provoke each problem of a route."""
    found = _common(method, path)
    if method == "POST":
        found |= _posted(path)
    if path.endswith(("{model}/query", "{model}/explain")):
        check = {"length": -1, "confidence": 0.95}
        found[422, "invalid_requirement"] = _post(path, {"check": check})
    elif path.endswith(("/query", "/explain", "/workload")) and "/models" not in path:
        found[422, "invalid_requirement"] = _post(path, {"length": -1})
    if path.endswith("/explain") and "/models" not in path:
        found[409, "period_retired"] = _raised(retired(), method, path, ENTRY[method, path])
    learns = method == "POST" and path.endswith("/models")
    if learns or path.endswith(("/query", "/workload", "/sql")):
        found |= _asked(path)
    if learns or path.endswith(("{model}/query", "{model}/explain", "/models/explain")):
        network = errors.NetworkError("edges", "have no cycle", "a -> b -> a")
        found[422, "invalid_network"] = _raised(network, method, path, ENTRY[method, path])
    if path.endswith("/probability"):
        error = errors.NotEstimableError()
        found[409, "not_estimable"] = _raised(error, "POST", path, "probability")
    if path.endswith("/ledger"):
        wrong = f"{DATASET}/ledger?where=" + quote('{"height": 1}')
        found[422, "invalid_query"] = lambda caller, _: caller.get(wrong)
        error_ = errors.CapacityError("Too large.")
        found[422, "too_large"] = _raised(error_, "GET", path, "loss")
    if path == "/v1/jobs/{job_id}":
        found[404, "not_found"] = lambda caller, _: caller.get("/v1/jobs/nobody")
    return found
