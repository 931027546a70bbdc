"""A real HTTP server on a free port, in a thread, around a service in memory."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import cast

import pytest
from flask import Flask
from werkzeug.serving import BaseWSGIServer, make_server

from qserver.api.app import create_app
from qserver.service.service import Service
from tests.api.calls import Caller
from tests.api.every_reply import Replies, successes
from tests.api.fake_service import FakeAccess, FakeService
from tests.api.quiet_server import MAX_BODY_BYTES, WAIT_S, QuietHandler


@pytest.fixture(scope="session")
def api_service() -> FakeService:
    """The service behind the server of this test run; `service` is the same, set back."""
    return FakeService()


@pytest.fixture(scope="session")
def api_app(api_service: FakeService) -> Flask:
    """The app around the service in memory."""
    access = FakeAccess(api_service)
    return create_app(
        cast("Service", api_service), access=access, wait_s=WAIT_S, max_body_bytes=MAX_BODY_BYTES
    )


@pytest.fixture(scope="session")
def api_server(api_app: Flask) -> Iterator[BaseWSGIServer]:
    """The app on a free port of the loopback interface."""
    server = make_server("127.0.0.1", 0, api_app, threaded=True, request_handler=QuietHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def service(api_service: FakeService) -> FakeService:
    """The service behind the server, as new."""
    api_service.renew()
    return api_service


@pytest.fixture
def caller(api_server: BaseWSGIServer, service: FakeService) -> Caller:
    """A client of the server, with the service as new."""
    return Caller("127.0.0.1", api_server.server_port)


@pytest.fixture(scope="session")
def replies(api_server: BaseWSGIServer, api_service: FakeService) -> Replies:
    """What every route replies when all is well."""
    api_service.renew()
    return successes(Caller("127.0.0.1", api_server.server_port), api_service)
