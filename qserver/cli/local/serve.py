"""`qserver serve`: HTTP over your own store or an embedded one, without a worker.

Beside HTTP there may be a port for clients of PostgreSQL: taken first, then served, then announced.
A start waits for what the last start left behind, or what died meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Self, TypeVar

from qserver.cli.processes import StopSignals, Supervisor, http_spec, listen, postgres_spec
from qserver.cli.runtime import ExitCode, Runtime
from qserver.client.errors import ServerProblemError, ServerUnreachableError
from qserver.client.http import HttpClient
from qserver.config import LOOPBACKS, Settings, url_of
from qserver.errors import (
    ChildFailedError,
    PortInUseError,
    QServerError,
    StoreKilledError,
    StoreUnavailableError,
)
from qserver.storage.accounts import AccountBook
from qserver.storage.server.connection import public_address
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.state_folder import StateFolder
from qserver.storage.store import Store

T = TypeVar("T")

WAIT_S = 30.0
"""Seconds for which a start waits. What a killed server leaves behind ends once the kernel tells
it, and a store that was killed loads its data anew. Not measured."""
_POLL_S = 0.1


def patiently(
    find: Callable[[], T],
    *,
    passing: tuple[type[QServerError], ...],
    runtime: Runtime,
    signals: StopSignals,
) -> T:
    """The result of `find` as soon as it succeeds; one line tells of its first refusal.

    Raises:
        QServerError: one of `passing`, when the time is over or a signal asks to stop.
    """
    deadline, is_told = runtime.clock() + WAIT_S, False
    while True:
        try:
            return find()
        except passing as exc:
            if signals.stop_requested or runtime.clock() >= deadline:
                raise
            if not is_told:
                runtime.console.note(f"{exc} Waiting for that, {WAIT_S:g} s at most.")
                is_told = True
        signals.wait(_POLL_S)


_SPEND = "SET qserver.spend = on"


@dataclass(frozen=True)
class PostgresPort:
    """A listening socket; None if settings name no such port."""

    listener: socket.socket | None

    def start(
        self,
        supervisor: Supervisor,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        state: Path | None,
    ) -> None:
        """Serve the port in a process of its own; its log is in the state folder."""
        if self.listener is not None:
            log = state / "log" / "postgres.log" if state else None
            supervisor.start(
                postgres_spec(settings, listener=self.listener, log=log, environ=environ)
            )

    def announce(self, runtime: Runtime, settings: Settings, *, statement: str = "") -> None:
        """Print how to connect, with a statement to try."""
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
        """Take no more connections here; the port's process serves on until stopped."""
        if self.listener is not None:
            self.listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shell(statement: str) -> str:
    """A statement for a shell; in double quotes if it contains single ones, which reads better."""
    return quote(statement) if any(c in statement for c in '"$`\\!') else f'"{statement}"'


def open_port(port: int | None, beside: socket.socket) -> PostgresPort:
    """The port, on the same host as HTTP; raises as `children.listen` does."""
    if port is None:
        return PostgresPort(None)
    return PostgresPort(listen(beside.getsockname()[0], port))


_READY_TIMEOUT_S = 60.0
OPEN_NOTE = "Access is open: whoever is on this machine may ask, and spend the budget."


def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Serve until a signal asks to stop."""
    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(StopSignals())
        listener = stack.enter_context(open_listener(args, runtime, signals))
        port = stack.enter_context(open_other_port(args.postgres, listener, runtime, signals))
        state = args.state.absolute() if args.state else None
        store = stack.enter_context(start_store(state, runtime, signals)) if state else None
        redis_url = store.url if store else args.redis_url
        settings = settings_for(
            runtime, listener, redis_url=redis_url, state_dir=state, open_access=args.open or None
        )
        settings.check_installed()
        ready_store(store, settings, runtime, signals)
        supervisor = stack.enter_context(supervise(store, runtime))
        log = state / "log" / "http.log" if state else None
        supervisor.start(http_spec(settings, listener=listener, log=log, environ=runtime.environ))
        port.start(supervisor, settings, runtime.environ, state=state)
        url = address_of(listener)
        if await_http(url, runtime, signals, require=supervisor.check_start):
            has_accounts = settings.open_access or supervised(
                lambda: bool(AccountBook.open(settings, role="web").accounts()),
                supervisor,
                runtime,
                signals,
            )
            _announce(runtime, url, settings, embedded=store is not None, has_accounts=has_accounts)
            port.announce(runtime, settings)
        supervisor.run(signals)
        begin_stop(store, listener, port)
        runtime.console.note("Stopping: the questions at hand finish first.")
    return ExitCode.OK


def open_listener(
    args: argparse.Namespace, runtime: Runtime, signals: StopSignals
) -> socket.socket:
    """The socket for HTTP to listen on; waits a while for a port that is taken.

    Raises as `children.listen` does.

    Raises:
        ConfigError: access is open, and the host is not this machine alone.
    """
    defaults = Settings.from_environment(
        runtime.environ, host=args.host, open_access=args.open or None
    )
    port = defaults.port if args.port is None else args.port
    return patiently(
        lambda: _listen(defaults.host, port, args.state),
        passing=(PortInUseError,),
        runtime=runtime,
        signals=signals,
    )


def _listen(host: str, port: int, state: Path | None) -> socket.socket:
    try:
        return listen(host, port)
    except PortInUseError as exc:
        if state is None or not StateFolder(state.absolute()).is_stopping:
            raise
        raise PortInUseError(
            f"Port {port} of {host} is taken, and the server on the state folder {state} is "
            "stopping: it finishes the questions at hand first. Start again when it is gone."
        ) from exc


def open_other_port(
    port: int | None, beside: socket.socket, runtime: Runtime, signals: StopSignals
) -> PostgresPort:
    """The port for clients of PostgreSQL; waits and raises as `open_listener`."""
    return patiently(
        lambda: open_port(port, beside),
        passing=(PortInUseError,),
        runtime=runtime,
        signals=signals,
    )


def start_store(state: Path, runtime: Runtime, signals: StopSignals) -> EmbeddedServer:
    """The store on a state folder; started again for a while if killed meanwhile.

    Raises as `EmbeddedServer.start` does.
    """
    return patiently(
        lambda: EmbeddedServer.start(state),
        passing=(StoreKilledError,),
        runtime=runtime,
        signals=signals,
    )


def ready_store(
    own: EmbeddedServer | None, settings: Settings, runtime: Runtime, signals: StopSignals
) -> Store:
    """The store of these settings, once its acknowledgements are durable.

    Our own is started again where it was killed since its start; another's is not waited for.

    Raises:
        StoreError: it cannot be used.
    """

    def ready() -> Store:
        if own is not None and not own.alive:
            own.restart()
        found = Store.open(settings)
        found.check_ready(allow_volatile=settings.allow_volatile)
        return found

    passing = () if own is None else (StoreUnavailableError,)
    return patiently(ready, passing=passing, runtime=runtime, signals=signals)


def settings_for(
    runtime: Runtime,
    listener: socket.socket,
    *,
    redis_url: str,
    state_dir: Path | None,
    open_access: bool | None,
) -> Settings:
    """The settings of the environment, with the address, store and folder of this run."""
    host, port = listener.getsockname()[:2]
    return Settings.from_environment(
        runtime.environ,
        host=host,
        port=port,
        redis_url=redis_url,
        state_dir=state_dir,
        open_access=open_access,
    )


def supervise(store: EmbeddedServer | None, runtime: Runtime) -> Supervisor:
    """A supervisor of our own store, if any, and of the children that start next."""
    return Supervisor(store=store, report=runtime.console.note)


def begin_stop(store: EmbeddedServer | None, listener: socket.socket, port: PostgresPort) -> None:
    """Take no more connections, and mark the state folder for the next server.

    The port is free once the HTTP processes have closed it, too. Questions in progress may take
    longer.
    """
    if store is not None:
        store.mark_stopping()
    listener.close()
    port.close()


def address_of(listener: socket.socket) -> str:
    """The URL at which a listening socket can be reached."""
    return url_of(*listener.getsockname()[:2])


def await_http(
    url: str,
    runtime: Runtime,
    signals: StopSignals,
    *,
    require: Callable[[], None],
    also: Callable[[], bool] = lambda: True,
) -> bool:
    """Wait until HTTP answers at `url` and `also` holds; False if a signal asks to stop.

    Args:
        require: raises if a child ended meanwhile.

    Raises:
        ChildFailedError: the time is over.
    """
    client = HttpClient(url, timeout_s=1.0, proxy="")
    deadline = runtime.clock() + _READY_TIMEOUT_S
    with runtime.console.progress("Starting"):
        while not signals.stop_requested:
            require()
            if _answers(client) and _holds(also):
                return True
            if runtime.clock() >= deadline:
                raise ChildFailedError(f"Nothing was ready after {_READY_TIMEOUT_S:g} s.")
            signals.wait(_POLL_S)
    return False


def _holds(also: Callable[[], bool]) -> bool:
    """Whether the condition holds; False while the store may be starting again."""
    with contextlib.suppress(StoreUnavailableError):
        return also()
    return False


def supervised(
    find: Callable[[], T], supervisor: Supervisor, runtime: Runtime, signals: StopSignals
) -> T:
    """The result of `find` on the store, which is started again meanwhile if killed.

    Raises:
        StoreUnavailableError: it is away for long.
    """

    def found() -> T:
        supervisor.check_start()
        return find()

    return patiently(found, passing=(StoreUnavailableError,), runtime=runtime, signals=signals)


def _answers(client: HttpClient) -> bool:
    with contextlib.suppress(ServerUnreachableError, ServerProblemError):
        client.get("healthz")
        return True
    return False


def _announce(
    runtime: Runtime, url: str, settings: Settings, *, embedded: bool, has_accounts: bool
) -> None:
    line = runtime.console.line
    line(f"qserver answers at {url} (Ctrl-C stops it).")
    _announce_access(runtime, settings, embedded=embedded, has_accounts=has_accounts)
    if embedded:
        place = f"--state {quote(str(settings.state_dir))}"
        line("The owner of private data, in another terminal:")
        runtime.command(f"qserver-worker attach NAME --data FILE --domain FILE --limit E {place}")
        runtime.command(f"qserver-worker run {place}")


def _announce_access(
    runtime: Runtime, settings: Settings, *, embedded: bool, has_accounts: bool
) -> None:
    """Show who may ask."""
    line = runtime.console.line
    if settings.open_access:
        line(OPEN_NOTE)
        return
    line("Every request needs a token.")
    if settings.host not in LOOPBACKS:
        line("Tokens travel as they are: put a proxy with TLS in front.")
    if not has_accounts:
        address = quote(public_address(settings.redis_url))
        where = (
            f"--state {quote(str(settings.state_dir))}" if embedded else f"--redis-url {address}"
        )
        line("There is no account yet. The owner, in another terminal:")
        runtime.command(f"qserver account create NAME --role owner {where}")
