"""What the routes that ask have in common: headers, problems, and the reply of a job."""

from __future__ import annotations

from flask import Response

from qserver.answer import JobStatus
from qserver.api.headers import Preference
from qserver.api.parameters import Parameter
from qserver.api.replies import json_reply
from qserver.api.workload_schemas import JobBody

POLL_S = 1

QUERY_CODES = ("invalid_input", "invalid_query", "invalid_sql", "too_large", "not_found")
ASKING_CODES = (
    "invalid_requirement",
    "budget_exhausted",
    "allowance_exhausted",
    "pace_exceeded",
    "disclosure_guard",
    "snapshot_replaced",
    "idempotency_mismatch",
    "measurement_failed",
    "no_worker",
    "busy",
)
ASKING_HEADERS = (
    Parameter(
        "Prefer",
        "`respond-async` for a job at once where something must be measured; `wait=SECONDS` to "
        "wait less than the server would",
        {"type": "string"},
    ),
    Parameter(
        "Idempotency-Key",
        "bound to the token, the dataset and the exact body; the same request under the same key "
        "is asked once",
        {"type": "string", "pattern": "^[ -~]{1,255}$"},
    ),
)


def job_reply(job: JobStatus, preference: Preference) -> Response:
    """202: the job that is finding the answer, where to look for it, and when."""
    reply = json_reply(JobBody.of(job), status=202)
    reply.headers["Location"] = f"/v1/jobs/{job.id}"
    reply.headers["Retry-After"] = str(POLL_S)
    if preference.is_async:
        reply.headers["Preference-Applied"] = "respond-async"
    return reply
