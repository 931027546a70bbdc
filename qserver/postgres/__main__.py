"""`python -m qserver.postgres FD`: the process that serves a listening socket."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import ssl
import sys
from functools import partial
from logging.config import dictConfig
from typing import TYPE_CHECKING, Final

from qserver.errors import ConfigError
from qserver.program.start import limit_threads, loading

if TYPE_CHECKING:
    from qserver.config import Settings


_NICENESS: Final = (5, 0, 10)
"""Of the processes of new connections, of short statements and of costly ones."""


def main(descriptor: int) -> None:
    """Serve until SIGTERM, with the environment's settings."""
    # numpy reads the limits once, when it loads: so they come before these imports.
    limit_threads(os.environ)
    with loading():
        from qserver.api.process.start import access_of, logging_config, open_store, sign_on_of
        from qserver.config import Settings
        from qserver.postgres.connection import House, converse
        from qserver.postgres.limits import Limits
        from qserver.postgres.server import PostgresServer
        from qserver.postgres.statements.processes import Calculator
        from qserver.postgres.statements.turns import Turns
        from qserver.program import telemetry
        from qserver.service.service import Service

    settings = Settings.from_environment()
    dictConfig(logging_config(settings.log_format))
    if complaint := telemetry.start(os.environ, name="qserver-postgres"):
        logging.getLogger("qserver").warning(complaint)
    store = open_store(settings)
    processes = [Calculator(niceness) for niceness in _NICENESS]
    for one in processes:
        one.start()
    service = Service(store, settings)
    # What is kept waits so long whenever a long text is cut, and for no search for garbage among
    # all that was loaded.
    sys.setswitchinterval(0.001)
    gc.freeze()
    house = House(
        service,
        access_of(store, settings, sign_on_of(store, settings)),
        _tls(settings),
        Turns(processes),
    )
    listener = socket.socket(fileno=descriptor)
    limits = Limits(most=settings.postgres_connections, max_bytes=settings.max_body_bytes)
    server = PostgresServer(listener, partial(converse, house), limits)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    server.run(grace_s=settings.wait_s + 5)
    # Statements that still run end here; what they asked is charged and answered to nobody.
    for one in processes:
        one.end()
    sys.stdout.flush()
    os._exit(0)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """The TLS that clients are offered; None without a certificate."""
    if not settings.postgres_certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.postgres_certificate, settings.postgres_key)
    except OSError as exc:
        raise ConfigError(
            "QSERVER_POSTGRES_CERTIFICATE",
            "be a PEM certificate, and QSERVER_POSTGRES_KEY its key",
            settings.postgres_certificate,
        ) from exc
    return context


if __name__ == "__main__":
    main(int(sys.argv[1]))
