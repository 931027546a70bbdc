"""`qserver.wsgi:app`, the app that the environment describes, for gunicorn."""

from __future__ import annotations

import logging
import os

from flask import Flask

from qserver.program.start import limit_threads


def app_from_environment() -> Flask:
    """The app on the service that QSERVER_* variables describe.

    Raises:
        ConfigError: a variable is wrong.
        StoreError: the store cannot be used.
    """
    # numpy reads the limits once, when it loads: so they come before these imports.
    limit_threads(os.environ)
    from qserver.api.app import create_app
    from qserver.api.metrics import Observed, Traced
    from qserver.api.process.start import STARTING_S, access_of, open_store, sign_on_of
    from qserver.config import Settings
    from qserver.portal.blueprint import Portal
    from qserver.program import telemetry
    from qserver.service.service import Service

    settings = Settings.from_environment()
    store = open_store(settings)
    service = Service(store, settings, starting_s=STARTING_S)
    sign_on = sign_on_of(store, settings)
    app = create_app(
        service,
        access=access_of(store, settings, sign_on),
        wait_s=settings.wait_s,
        max_body_bytes=settings.max_body_bytes,
        n_proxies=settings.n_proxies,
        pages=Portal(service, sign_on) if settings.portal else None,
    )
    if settings.metrics_dir or settings.log_requests:
        app.wsgi_app = Observed(  # type: ignore[assignment, method-assign]
            app.wsgi_app, slot_ms=settings.slot_ms, log_requests=settings.log_requests
        )
    if complaint := telemetry.start(os.environ, name="qserver-http"):
        logging.getLogger("qserver").warning(complaint)
    if telemetry.is_on():
        app.wsgi_app = Traced(app.wsgi_app, slot_ms=settings.slot_ms)  # type: ignore[assignment, method-assign]
    return app


app = app_from_environment()
