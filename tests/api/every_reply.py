"""Replies of every route of HTTP, on a service in memory."""

from __future__ import annotations

from qserver.errors import MeasurementError
from qserver.records.answer import JobStatus
from qserver.records.problem import problem_from_error
from tests.api.calls import (
    AUDIT,
    MODEL,
    MODEL_QUESTION,
    PROPOSAL,
    QUERY,
    QUESTION,
    WORKLOAD,
    Caller,
    Reply,
)
from tests.api.fake_answers import MANY, MEASURED
from tests.api.fake_models import LEARNT
from tests.api.fake_service import FakeService

D = "/v1/datasets/adult"
TEXTS = (
    "SELECT COUNT(*) FROM adult WITHIN 50",
    "EXPLAIN SELECT COUNT(*) FROM adult WITHIN 50",
    "SELECT AVG(income) FROM adult WITHIN 1 ASSUMING 100",
    "EXPLAIN SELECT AVG(income) FROM adult WITHIN 1 ASSUMING 100",
)

Replies = dict[tuple[str, str, str], list[Reply]]


def _jobs() -> dict[str, JobStatus]:
    """A job in every state, and with a result of every kind."""
    stored = problem_from_error(MeasurementError())
    failure = {"code": stored.code, "message": stored.message, "facts": stored.facts}
    return {
        "open": JobStatus("open", "running", "adult"),
        "done": JobStatus("done", "done", "adult", result=MEASURED),
        "many": JobStatus("many", "done", "adult", result=MANY),
        "model": JobStatus("model", "done", "adult", result=LEARNT),
        "bad": JobStatus("bad", "failed", "adult", problem=failure),
    }


def successes(caller: Caller, service: FakeService) -> Replies:
    """Replies of every route that are no problems, by path, method and status."""
    service.jobs = _jobs()
    found = _read(caller, service) | _answered(caller)
    running = service.jobs["open"]
    service.outcome, service.stamp = running, service.stamp + 1
    service.learnt = service.many = running
    return found | _waiting(caller)


def _read(caller: Caller, service: FakeService) -> Replies:
    return {
        ("/v1/datasets", "get", "200"): [caller.get("/v1/datasets")],
        ("/v1/datasets/{dataset}", "get", "200"): [caller.get(D)],
        ("/v1/datasets/{dataset}/history", "get", "200"): [caller.get(f"{D}/history")],
        ("/v1/datasets/{dataset}/history/{measurement}", "get", "200"): [
            caller.get(f"{D}/history/0"),
            caller.get(f"{D}/history/4"),
        ],
        ("/v1/datasets/{dataset}/ledger", "get", "200"): [
            caller.get(f"{D}/ledger"),
            caller.get(f"{D}/ledger?attribute=sex"),
        ],
        ("/v1/datasets/{dataset}/models", "get", "200"): [caller.get(f"{D}/models")],
        ("/v1/datasets/{dataset}/models/{model}", "get", "200"): [caller.get(f"{D}/models/m1")],
        ("/v1/datasets/{dataset}/models/{model}/sample", "get", "200"): [
            caller.get(f"{D}/models/m1/sample?n=3&seed=4")
        ],
        ("/v1/datasets/{dataset}/models/{model}/export", "get", "200"): [
            caller.get(f"{D}/models/m1/export")
        ],
        ("/v1/jobs/{job_id}", "get", "200"): [caller.get(f"/v1/jobs/{i}") for i in service.jobs],
        ("/v1/audit", "get", "200"): [caller.get("/v1/audit?limit=1"), caller.get("/v1/audit")],
        ("/v1/datasets/{dataset}/audit", "get", "200"): [caller.get(f"{D}/audit?after=0")],
        ("/v1/datasets/{dataset}/spending", "get", "200"): [caller.get(f"{D}/spending")],
        ("/healthz", "get", "200"): [caller.get("/healthz")],
        ("/readyz", "get", "200"): [caller.get("/readyz")],
        ("/openapi.json", "get", "200"): [caller.get("/openapi.json")],
        ("/docs", "get", "200"): [caller.get("/docs")],
    }


def _answered(caller: Caller) -> Replies:
    bound = {"query": QUERY, "between": [1, 2]}
    return {
        ("/v1/datasets/{dataset}/query", "post", "200"): [caller.post(f"{D}/query", QUESTION)],
        ("/v1/datasets/{dataset}/explain", "post", "200"): [caller.post(f"{D}/explain", QUESTION)],
        ("/v1/datasets/{dataset}/probability", "post", "200"): [
            caller.post(f"{D}/probability", bound)
        ],
        ("/v1/datasets/{dataset}/workload", "post", "200"): [
            caller.post(f"{D}/workload", WORKLOAD | {"consistent": consistent})
            for consistent in (False, True)
        ],
        ("/v1/datasets/{dataset}/workload/explain", "post", "200"): [
            caller.post(f"{D}/workload/explain", WORKLOAD | {"consistent": consistent})
            for consistent in (False, True)
        ],
        ("/v1/datasets/{dataset}/models/audit", "post", "200"): [
            caller.post(f"{D}/models/audit", AUDIT | {"epsilon": 1, "reference_records": 9}),
            caller.post(f"{D}/models/audit", AUDIT),
        ],
        ("/v1/datasets/{dataset}/models/{model}/structure", "post", "200"): [
            caller.post(f"{D}/models/m1/structure", PROPOSAL),
            caller.post(f"{D}/models/m1/structure", PROPOSAL | {"epsilon": 1, "records": 5}),
        ],
        ("/v1/datasets/{dataset}/sql", "post", "200"): [
            caller.post(f"{D}/sql", {"sql": text}) for text in TEXTS
        ],
        ("/v1/datasets/{dataset}/models", "post", "200"): [caller.post(f"{D}/models", MODEL)],
        ("/v1/datasets/{dataset}/models/{model}/query", "post", "200"): [
            caller.post(f"{D}/models/m1/query", MODEL_QUESTION),
            caller.post(f"{D}/models/m1/query", {"marginal": ["sex"]}),
        ],
        ("/v1/datasets/{dataset}/models/explain", "post", "200"): [
            caller.post(f"{D}/models/explain", MODEL)
        ],
        ("/v1/datasets/{dataset}/models/{model}/explain", "post", "200"): [
            caller.post(f"{D}/models/m1/explain", MODEL_QUESTION),
            caller.post(f"{D}/models/m1/explain", {"marginal": ["sex"]}),
        ],
    }


def _waiting(caller: Caller) -> Replies:
    asked = {
        "query": ("query", QUESTION),
        "models/{model}/query": ("models/m1/query", MODEL_QUESTION),
        "models": ("models", MODEL),
        "sql": ("sql", {"sql": TEXTS[0]}),
        "workload": ("workload", WORKLOAD),
    }
    return {
        (f"/v1/datasets/{{dataset}}/{route}", "post", "202"): [caller.post(f"{D}/{path}", body)]
        for route, (path, body) in asked.items()
    }
