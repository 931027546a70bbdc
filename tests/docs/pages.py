"""What is made from the code, by the path of its file below docs/."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

from qserver.api.app import create_app
from qserver.api.openapi import openapi_document
from qserver.cli.console import Console
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from qserver.query.files.schema import domain_schema
from tests.docs.command_reference import command_reference
from tests.docs.domain_keys import domain_keys
from tests.docs.figures import figures
from tests.docs.http_reference import http_reference
from worker.parser import build_parser as worker_parser


def pages() -> dict[str, str]:
    """Texts by file name, relative to docs/."""
    runtime = Runtime(console=Console(out=None, err=None), environ={})  # type: ignore[arg-type]
    return {
        "domain-keys.md": domain_keys(),
        "domain.schema.json": json.dumps(domain_schema(), indent=2) + "\n",
        "cli.md": command_reference([build_parser(runtime), worker_parser()]),
        "http.md": http_reference(_openapi()),
        **{f"figures/{name}": text for name, text in figures().items()},
    }


def _openapi() -> dict[str, Any]:
    """The document of an app that is never asked anything."""
    app = create_app(MagicMock(), access=MagicMock(), wait_s=0, max_body_bytes=0)
    return openapi_document(app)
