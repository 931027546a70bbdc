"""Jobs: questions that are still being measured, and their results."""

from __future__ import annotations

from flask import Blueprint, Response, request

from qserver.api.bodies.workload import JobBody
from qserver.api.operation import operation
from qserver.api.parameters import read_parameters
from qserver.api.replies import json_reply
from qserver.service.service import Service


class JobViews:
    """The view of a job, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def blueprint(self) -> Blueprint:
        """The routes."""
        routes = Blueprint("jobs", __name__, url_prefix="/v1/jobs")
        routes.get("/<job_id>")(self.get_job)
        return routes

    @operation("jobs", {200: JobBody}, "invalid_input", "not_found")
    def get_job(self, job_id: str) -> Response:
        """Show a job's state: with `result` when done, with `problem` when failed."""
        read_parameters(request)
        return json_reply(JobBody.of(self._service.job(job_id)))
