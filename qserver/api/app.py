"""The app factory."""

from __future__ import annotations

from typing import Protocol

from flask import Flask

from qserver.api.access import Access
from qserver.api.errors import register_error_handlers
from qserver.api.gate import AccessGate, register_roles
from qserver.api.headers import finish_response
from qserver.api.lanes import Lanes
from qserver.api.repeated_questions import AnswerCache, RepeatedQuestions
from qserver.api.replies import Views
from qserver.api.routes.datasets import AuditViews, DatasetViews
from qserver.api.routes.models import ModelId, ModelPriceViews, ModelStructureViews, ModelViews
from qserver.api.routes.questions import JobViews, QuestionViews, SqlViews, WorkloadViews
from qserver.api.routes.server import HealthViews, docs_blueprint
from qserver.service.service import Service

_VIEWS: tuple[type[Views], ...] = (
    DatasetViews,
    WorkloadViews,
    SqlViews,
    ModelViews,
    ModelPriceViews,
    ModelStructureViews,
    JobViews,
    AuditViews,
)


class Pages(Protocol):
    """Web pages that the same app serves."""

    def register(self, app: Flask) -> None:
        """Add the pages' routes."""


def create_app(
    service: Service,
    *,
    access: Access,
    wait_s: float,
    max_body_bytes: int,
    n_proxies: int = 0,
    pages: Pages | None = None,
) -> Flask:
    """The HTTP interface to a service, as a WSGI app.

    Args:
        service: the use cases; thread-safe.
        access: decides who may send a request.
        wait_s: how long a question waits for its answer before it becomes a job, in seconds.
        max_body_bytes: larger request bodies are refused.
        n_proxies: proxies in front of us that add to X-Forwarded-For.
        pages: web pages for people, or None.
    """
    app = Flask("qserver.api", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = max_body_bytes
    # Paths are exact: no redirects, whose bodies would be HTML, and no implicit OPTIONS.
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    app.url_map.converters["model"] = ModelId
    register_error_handlers(app, service.delta)
    register_roles(app)
    app.after_request(finish_response)
    cache = AnswerCache()
    app.register_blueprint(QuestionViews(service, wait_s=wait_s, cache=cache).blueprint())
    for views in _VIEWS:
        app.register_blueprint(views(service, wait_s=wait_s).blueprint())
    app.register_blueprint(HealthViews(service, is_open=access.is_open).blueprint())
    app.register_blueprint(docs_blueprint())
    if pages is not None:
        pages.register(app)
    # Kept answers lie behind the gate.
    lanes = Lanes(app.wsgi_app, max_body_bytes=max_body_bytes)
    inner = RepeatedQuestions(lanes, service, cache)
    app.wsgi_app = AccessGate(inner, access, n_proxies=n_proxies)  # type: ignore[assignment, method-assign]
    return app
