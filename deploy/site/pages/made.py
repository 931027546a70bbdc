"""What is made from the code, by the path of its file on the site."""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from unittest.mock import MagicMock

from deploy.site.pages.command_line import command_line
from deploy.site.pages.domain_keys import domain_keys
from deploy.site.pages.http import http_page
from deploy.site.pages.notebook import notebook_files
from deploy.site.pages.promises import promises_page
from deploy.site.pages.python_api import python_api
from deploy.site.pages.requests import requests_page
from deploy.site.pages.signals import signals_page
from qserver.api.app import create_app
from qserver.api.openapi import openapi_document
from qserver.cli.console import Console
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from qserver.query.domain_keys import domain_schema
from tests.benchmarks.results import results_page
from worker.parser import build_parser as worker_parser


@cache
def made() -> dict[str, str]:
    """Texts by file name, as if they stood in docs/."""
    runtime = Runtime(console=Console(out=None, err=None), environ={})  # type: ignore[arg-type]
    return {
        "cli.md": command_line([build_parser(runtime), worker_parser()]),
        "domain-keys.md": domain_keys(),
        "domain.schema.json": json.dumps(domain_schema(), indent=2) + "\n",
        "http.md": http_page(openapi()),
        "promises.md": promises_page(),
        "python-api.md": python_api(),
        "requests.md": requests_page(),
        "results.md": results_page(),
        "signals.md": signals_page(),
        **notebook_files(),
    }


def openapi() -> dict[str, Any]:
    """The document of an app that is never asked anything."""
    app = create_app(MagicMock(), access=MagicMock(), wait_s=0, max_body_bytes=0)
    return openapi_document(app)
