"""Jobs: questions that are still being measured, and their results."""

from __future__ import annotations

from flask import Response, request

from qserver.api.bodies.workload import JobBody
from qserver.api.gate import caller_of_request
from qserver.api.headers import preference_of
from qserver.api.operation import Parameter, operation, read_parameters
from qserver.api.replies import json_reply
from qserver.api.routes.views import Views

WAIT_HEADER = Parameter(
    "Prefer",
    "`wait=SECONDS` to wait for the job's end, up to the server's own limit",
    {"type": "string"},
)


class JobViews(Views):
    """The view of a job, on one service."""

    name = "jobs"
    place = "/v1/jobs"

    @operation(
        "/<job_id>",
        "jobs",
        {200: JobBody},
        "invalid_input",
        "not_found",
        headers=(WAIT_HEADER,),
    )
    def get_job(self, job_id: str) -> Response:
        """Show a job's state: with `result` when done, with `problem` when failed.

        It is shown to the account that asked and to owners. To others there is no such job.
        """
        read_parameters(request)
        wait_s = min(preference_of(request).wait_s or 0.0, self._wait_s)
        found = self._service.job(job_id, reader=caller_of_request(), wait_s=wait_s)
        return json_reply(JobBody.of(found))
