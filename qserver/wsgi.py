"""`qserver.wsgi:app`, the app that the environment describes, for gunicorn."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from flask import Flask

from qserver.api.process.blas_threads import limit_threads
from qserver.errors import StoreUnavailableError

if TYPE_CHECKING:
    from qserver.config import Settings
    from qserver.storage.store import Store

# A process that is started while the store is on its way back shall not end, and the server with
# it: gunicorn gives up when one cannot start.
_STORE_WAIT_S = 10.0
_STORE_POLL_S = 0.05
# A worker takes some seconds to load its data, more on a busy machine. What is asked meanwhile
# waits for it as for an answer.
_STARTING_S = 30.0


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

    settings = Settings.from_environment()
    store = _open_store(settings)
    access: Access = OpenAccess()
    if not settings.open_access:
        access = TokenAccess(
            AccountBook(store.client),
            RateLimiter(store.client),
            token_rate=settings.token_rate,
            address_rate=settings.address_rate,
        )
    service = Service(store, settings, starting_s=_STARTING_S)
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


def _open_store(settings: Settings) -> Store:
    """The store, which may be about to start; raises as `Store.open` when it is late."""
    from qserver.storage.store import Store

    deadline = time.monotonic() + _STORE_WAIT_S
    while True:
        try:
            return Store.open(settings)
        except StoreUnavailableError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_STORE_POLL_S)


app = app_from_environment()
