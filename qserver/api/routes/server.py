"""The server itself: whether it is up and can answer, its OpenAPI document, and a page of routes.

The page lists the routes and the problems; it has no script and needs no CDN.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection
from functools import cache
from hashlib import sha256
from html import escape
from typing import Literal

from flask import Blueprint, Flask, Response, current_app

from qserver import __version__
from qserver.api.bodies.answers import HealthBody, ReadyBody
from qserver.api.errors import KINDS
from qserver.api.openapi import Route, openapi_document, routes_of
from qserver.api.operation import operation
from qserver.api.replies import Views, bytes_reply, json_reply
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


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "overflow-wrap:anywhere}h3{margin-top:2.2rem;border-top:1px solid #8884;padding-top:1rem}"
    "code{font-size:.9em}td,th{text-align:left;vertical-align:top;padding:.2rem 1rem .2rem 0}"
)
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"


def docs_blueprint() -> Blueprint:
    """The routes of the documentation."""
    routes = Blueprint("docs", __name__)
    routes.get("/openapi.json")(get_openapi)
    routes.get("/docs")(get_docs)
    return routes


@operation(
    "/openapi.json", "documentation", {200: "application/json"}, uses_store=False, audience="public"
)
def get_openapi() -> Response:
    """Give the OpenAPI 3.1 document of this interface."""
    return bytes_reply(_openapi_bytes(_app()))


@operation("/docs", "documentation", {200: "text/html"}, uses_store=False, audience="public")
def get_docs() -> Response:
    """Show a page with the routes, and the problems by code."""
    page = Response(_page(_app()), content_type="text/html; charset=utf-8")
    page.headers["Content-Security-Policy"] = _POLICY
    return page


@cache
def _openapi_bytes(app: Flask) -> bytes:
    return json.dumps(openapi_document(app), indent=1).encode()


@cache
def _page(app: Flask) -> str:
    routes = "".join(map(_route_html, routes_of(app)))
    problems = "".join(
        f'<tr id="{kind.code}"><td><code>{kind.code}</code></td><td>{kind.status}</td>'
        f"<td>{escape(kind.title)}</td></tr>"
        for kind in KINDS.values()
    )
    back = '<p><a href="/portal/">Pages for people</a></p>' if "portal" in app.blueprints else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>qserver {__version__}: HTTP</title><style>{_STYLE}</style></head><body>{back}"
        f"<h1>qserver {__version__}: HTTP</h1>"
        '<p>For programs: <a href="/openapi.json">OpenAPI document</a>. Errors are '
        "<code>application/problem+json</code> with a stable <code>code</code>.</p>"
        f"<h2>Routes</h2>{routes}<h2>Problems</h2><table><tr><th>code</th><th>status</th>"
        f"<th>meaning</th></tr>{problems}</table></body></html>"
    )


def _route_html(route: Route) -> str:
    described = route.operation
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in route.text.split("\n\n"))
    inputs = described.parameters + described.headers
    items = "".join(
        f"<li><code>{escape(p.name)}</code>: {escape(p.description)}</li>" for p in inputs
    )
    codes = ", ".join(
        f'<a href="#{code}"><code>{code}</code></a>'
        for codes in described.codes_by_status.values()
        for code in codes
    )
    return (
        f"<h3><code>{route.method} {escape(route.path)}</code></h3>{paragraphs}"
        + (f"<ul>{items}</ul>" if items else "")
        + f"<p>Problems: {codes}.</p>"
    )


def _app() -> Flask:
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    return app
