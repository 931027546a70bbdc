"""Jobs: questions that are still being measured, and their results."""

from __future__ import annotations

from flask import Response, request

from qserver.api.bodies.workload import JobBody
from qserver.api.operation import operation
from qserver.api.parameters import read_parameters
from qserver.api.replies import json_reply
from qserver.api.routes.views import Views


class JobViews(Views):
    """The view of a job, on one service."""

    name = "jobs"
    place = "/v1/jobs"

    @operation("/<job_id>", "jobs", {200: JobBody}, "invalid_input", "not_found")
    def get_job(self, job_id: str) -> Response:
        """Show a job's state: with `result` when done, with `problem` when failed."""
        read_parameters(request)
        return json_reply(JobBody.of(self._service.job(job_id)))
