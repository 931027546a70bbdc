"""`qserver demo`: run store, worker and HTTP over public data on this machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from qserver import __version__
from qserver.cli.console import epsilon_text
from qserver.cli.local.demo_data import Demo, adult_demo, next_week, weekly_demo
from qserver.cli.local.serve import (
    OPEN_NOTE,
    address_of,
    await_http,
    begin_stop,
    open_listener,
    open_other_port,
    ready_store,
    settings_for,
    start_store,
    supervise,
    supervised,
)
from qserver.cli.processes.children import ChildSpec, child_environment, http_spec, python_command
from qserver.cli.processes.supervisor import StopSignals, Supervisor, run_to_end
from qserver.cli.runtime import ExitCode, Runtime
from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.query.numbers import exact_number
from qserver.records.unit import SealedPeriods
from qserver.storage.standings import Budget
from qserver.storage.store import Store

_WEEKS = "weeks"


def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Run the demo until a signal asks to stop.

    Takes the port and the state folder before anything starts, so that a second demo is refused
    without side effects. Stops everything in reverse order: HTTP, worker, store.
    """
    if exact_number(args.limit, "--limit", ConfigError) <= 0:
        raise ConfigError("--limit", "be > 0", args.limit)
    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(StopSignals())
        listener = stack.enter_context(open_listener(args, runtime, signals))
        port = stack.enter_context(open_other_port(args.postgres, listener, runtime, signals))
        server = stack.enter_context(start_store(args.state, runtime, signals))
        settings = settings_for(
            runtime,
            listener,
            redis_url=server.url,
            state_dir=args.state.absolute(),
            open_access=True,
        )
        store = ready_store(server, settings, runtime, signals)
        weeks = settings.state_dir / _WEEKS
        demo = weekly_demo(weeks) if args.weekly else adult_demo()
        _attach_once(demo, store, settings, args.limit, runtime, signals)
        supervisor = stack.enter_context(supervise(server, runtime))
        if not signals.stop_requested:
            supervisor.start(_worker_spec(settings, runtime.environ, "run"))
            supervisor.start(_http_spec(settings, runtime.environ, listener))
            port.start(supervisor, settings, runtime.environ, state=settings.state_dir)
        if _await_all(demo, store, address_of(listener), runtime, signals, supervisor):
            facts = supervised(lambda: _facts(demo, store), supervisor, runtime, signals)
            _announce(demo, runtime, address_of(listener), facts.budget, settings.state_dir)
            port.announce(runtime, settings, statement=demo.sql)
            if args.weekly:
                _announce_next_week(demo, runtime, facts, settings)
        supervisor.run(signals)
        begin_stop(server, listener, port)
        runtime.console.note("Stopping: HTTP, then the worker, then the store.")
    return ExitCode.OK


def _await_all(
    demo: Demo,
    store: Store,
    url: str,
    runtime: Runtime,
    signals: StopSignals,
    supervisor: Supervisor,
) -> bool:
    """Wait until HTTP answers and the worker is alive; False if a signal asks to stop."""
    return await_http(
        url,
        runtime,
        signals,
        require=supervisor.check_start,
        also=lambda: store.worker_alive(store.datasets().get(demo.dataset, "")),
    )


def _attach_once(
    demo: Demo,
    store: Store,
    settings: Settings,
    limit: str,
    runtime: Runtime,
    signals: StopSignals,
) -> None:
    """Let the worker attach the data, unless an earlier start did."""
    if demo.dataset in store.datasets():
        return
    with runtime.console.progress(f"Attaching {demo.title}"):
        spec = _worker_spec(
            settings,
            runtime.environ,
            *("attach", demo.dataset, *demo.attach, "--limit", limit),
        )
        run_to_end(spec, signals=signals)


def _worker_spec(settings: Settings, environ: Mapping[str, str], *arguments: str) -> ChildSpec:
    place = ("--state", str(settings.state_dir), "--redis-url", settings.redis_url)
    return ChildSpec(
        name="worker",
        command=python_command("-m", "worker", *arguments, *place),
        environment=child_environment(settings, environ),
        log=settings.state_dir / "log" / "worker.log",
    )


def _http_spec(
    settings: Settings, environ: Mapping[str, str], listener: socket.socket
) -> ChildSpec:
    log = settings.state_dir / "log" / "http.log"
    return http_spec(settings, listener=listener, log=log, environ=environ)


@dataclass(frozen=True)
class _Facts:
    """What the store says of the demo's dataset when all is ready."""

    budget: Budget
    periods: SealedPeriods | None


def _facts(demo: Demo, store: Store) -> _Facts:
    meta = store.meta(demo.dataset)
    stamp = store.stamp(meta)
    return _Facts(stamp.budget, meta.sealed_periods(stamp.n_sealed))


def _announce(demo: Demo, runtime: Runtime, url: str, budget: Budget, state: Path) -> None:
    line = runtime.console.line
    line(f"qserver {__version__} answers at {url} (Ctrl-C stops it).")
    line(f"For people: {url}/portal/")
    line(OPEN_NOTE)
    line(f"State: {state}")
    line(
        f"Dataset: {demo.dataset} ({demo.title}), {epsilon_text(budget.spent_nano / 1e9)} of "
        f"{epsilon_text(budget.limit_nano / 1e9)} epsilon spent."
    )
    line()
    line(demo.in_words)
    line()
    for text in curl_lines(demo, url):
        line("  " + text)
    line()
    elsewhere = "" if url.endswith(":8000") else f" --url {url}"
    line("or")
    line()
    runtime.command(f"qserver {demo.command}{elsewhere}")


def _announce_next_week(demo: Demo, runtime: Runtime, facts: _Facts, settings: Settings) -> None:
    """The command that seals the next week, ready to paste."""
    line = runtime.console.line
    last = (facts.periods and facts.periods.last) or ""
    found = next_week(settings.state_dir / _WEEKS, last)
    line()
    line(f"Sealed: the weeks up to {last}. What is known of them stays free for ever.")
    if found is None:
        line("There are no more weeks.")
        return
    week, path = found
    line("Seal the next one, and ask again: the weeks before cost nothing more.")
    line()
    runtime.command(
        f"qserver-worker append {demo.dataset} --data {quote(str(path))} --to {week} "
        f"--state {quote(str(settings.state_dir))}"
    )


def curl_lines(demo: Demo, url: str) -> list[str]:
    """The lines of a ready-made question for a shell."""
    return [
        f"curl -s {url}/v1/datasets/{demo.dataset}/{demo.route} \\",
        "  -H 'Content-Type: application/json' \\",
        f"  -d {quote(json.dumps(demo.question))}",
    ]
