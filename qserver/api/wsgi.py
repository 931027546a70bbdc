"""`qserver.api.wsgi:app`, the app that the environment describes, for gunicorn."""

from __future__ import annotations

import os

from flask import Flask

from qserver.api.blas_threads import limit_threads


def app_from_environment() -> Flask:
    """The app on the service that QSERVER_* variables describe.

    Raises:
        ConfigError: a variable is wrong.
        StoreError: the store cannot be used.
    """
    # numpy reads the limits once, when it loads: so they come before these imports.
    limit_threads(os.environ)
    from qserver.api.app import create_app
    from qserver.config import Settings
    from qserver.service import Service
    from qserver.storage.store import Store

    settings = Settings.from_environment()
    service = Service(Store.open(settings), settings)
    return create_app(service, wait_s=settings.wait_s, max_body_bytes=settings.max_body_bytes)


app = app_from_environment()
