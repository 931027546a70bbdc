"""Health: whether the process is up, and whether it can answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from flask import Response

from qserver.api.bodies.answers import HealthBody, ReadyBody
from qserver.api.operation import operation
from qserver.api.replies import json_reply
from qserver.api.routes.views import Views
from qserver.service.service import Service


class HealthViews(Views):
    """The views of health, on one service.

    Args:
        is_open: whoever can ask here may know the datasets' names.
    """

    name = "health"

    def __init__(self, service: Service, *, is_open: bool) -> None:
        super().__init__(service)
        self._is_open = is_open

    @operation("/healthz", "health", {200: HealthBody}, uses_store=False, audience="public")
    def get_health(self) -> Response:
        """Tell that the process is up; asks nothing of the store."""
        return json_reply(HealthBody(status="ok"))

    @operation("/readyz", "health", {200: ReadyBody}, audience="public")
    def get_readiness(self) -> Response:
        """Tell whether the store is reachable and durable, and how many datasets have a worker.

        Without a worker the server is ready all the same: history is still answered.
        """
        self._service.ready()
        alive = {d.name: d.worker_alive for d in self._service.datasets()}
        return json_reply(
            ReadyBody(
                status="ready",
                workers=_how_many(alive.values()),
                worker_alive=alive if self._is_open else {},
            )
        )


def _how_many(alive: Collection[bool]) -> Literal["all", "some", "none"]:
    if not any(alive):
        return "none"
    return "all" if all(alive) else "some"
