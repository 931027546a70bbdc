"""The port for clients of PostgreSQL, beside HTTP: taken first, then served, then announced."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Self

from qserver.cli.processes.children import listen, postgres_spec
from qserver.cli.processes.supervisor import Supervisor
from qserver.cli.runtime import Runtime
from qserver.config import LOOPBACKS, Settings

_SPEND = "SET qserver.spend = on"


@dataclass(frozen=True)
class PostgresPort:
    """A socket that listens; None where no such port was asked for."""

    listener: socket.socket | None

    def start(
        self,
        supervisor: Supervisor,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        state: Path | None,
    ) -> None:
        """Serve it in a process of its own; its log is in the state folder."""
        if self.listener is not None:
            log = state / "log" / "postgres.log" if state else None
            supervisor.start(
                postgres_spec(settings, listener=self.listener, log=log, environ=environ)
            )

    def announce(self, runtime: Runtime, settings: Settings, *, statement: str = "") -> None:
        """Print how to connect, and a statement to try."""
        if self.listener is None:
            return
        host, port = self.listener.getsockname()[:2]
        user = "qserver" if settings.open_access else "ACCOUNT"
        runtime.console.line()
        runtime.console.line("By a client of PostgreSQL, which spends only what it is allowed to:")
        runtime.console.line()
        asked = f" -c {quote(_SPEND)} -c {_shell(statement)}" if statement else ""
        runtime.console.line(f"  psql -h {host} -p {port} -U {user} qserver{asked}")
        if not settings.open_access:
            runtime.console.line("The password is the account's token.")
        if host not in LOOPBACKS and not settings.postgres_certificate:
            runtime.console.line(
                "Tokens travel as they are: set QSERVER_POSTGRES_CERTIFICATE and "
                "QSERVER_POSTGRES_KEY for TLS."
            )

    def close(self) -> None:
        """Take no more connections here; the process that serves it goes on until it is stopped."""
        if self.listener is not None:
            self.listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shell(statement: str) -> str:
    """A statement for a shell; in double quotes where it has single ones, which read better."""
    return quote(statement) if any(c in statement for c in '"$`\\!') else f'"{statement}"'


def open_port(port: int | None, beside: socket.socket) -> PostgresPort:
    """The port, on the same host as HTTP; raises as `children.listen` does."""
    if port is None:
        return PostgresPort(None)
    return PostgresPort(listen(beside.getsockname()[0], port))
