"""`qserver.wsgi:app`, the app that the environment describes, for gunicorn."""

from __future__ import annotations

import os

from flask import Flask

from qserver.api.process.blas_threads import limit_threads


def app_from_environment() -> Flask:
    """The app on the service that QSERVER_* variables describe.

    Raises:
        ConfigError: a variable is wrong.
        StoreError: the store cannot be used.
    """
    # numpy reads the limits once, when it loads: so they come before these imports.
    limit_threads(os.environ)
    from qserver.api.access import Access, OpenAccess, TokenAccess
    from qserver.api.app import create_app
    from qserver.api.process.metrics import Observed
    from qserver.config import Settings
    from qserver.portal.blueprint import Portal
    from qserver.service.service import Service
    from qserver.storage.accounts import AccountBook
    from qserver.storage.rates import RateLimiter
    from qserver.storage.store import Store

    settings = Settings.from_environment()
    store = Store.open(settings)
    access: Access = OpenAccess()
    if not settings.open_access:
        access = TokenAccess(
            AccountBook(store.client),
            RateLimiter(store.client),
            token_rate=settings.token_rate,
            address_rate=settings.address_rate,
        )
    service = Service(store, settings)
    app = create_app(
        service,
        access=access,
        wait_s=settings.wait_s,
        max_body_bytes=settings.max_body_bytes,
        n_proxies=settings.n_proxies,
        pages=Portal(service) if settings.portal else None,
    )
    if settings.metrics_dir or settings.log_requests:
        app.wsgi_app = Observed(  # type: ignore[assignment, method-assign]
            app.wsgi_app, slot_ms=settings.slot_ms, log_requests=settings.log_requests
        )
    return app


app = app_from_environment()
