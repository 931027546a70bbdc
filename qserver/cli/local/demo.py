"""`qserver demo`: run store, worker and HTTP over public data on this machine.

The data are the Adult records, flights week by week, and their public domains. The records are
public, so the online side may name the files and deal out the weeks. `data/ATTRIBUTION.md` has
their source, authors, licence and changes.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any, Final

from qserver import __version__
from qserver.cli.console import epsilon_text
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
from qserver.cli.processes import (
    ChildSpec,
    StopSignals,
    Supervisor,
    child_environment,
    http_spec,
    python_command,
    run_to_end,
)
from qserver.cli.runtime import ExitCode, Runtime
from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.query.exact_numbers import exact_number
from qserver.records.unit import SealedPeriods
from qserver.storage.standings import Budget
from qserver.storage.store import Store

N_ADULT_RECORDS = 32_561
N_FLIGHTS = 75_623
SEALED_AT_FIRST: Final = "2013-W09"
"""Of the weeks 2013-W02 to 2013-W13."""

CAPACITY: Final = 10_000


@dataclass(frozen=True)
class Demo:
    """A dataset that `qserver demo` serves.

    Args:
        attach: options of `qserver-worker attach`, without name and limit.
        in_words: the question; the same is `question` for the HTTP `route`, `command`, and `sql`.
    """

    dataset: str
    title: str
    attach: tuple[str, ...]
    in_words: str
    route: str
    question: Mapping[str, Any]
    command: str
    sql: str


def adult_demo() -> Demo:
    """The Adult records."""
    return Demo(
        "adult",
        "UCI Adult",
        ("--data", str(adult_csv()), "--domain", str(adult_domain())),
        "How many women are 30 to 39 years old? An interval of length 100, 95 percent sure:",
        "query",
        {
            "query": {"where": {"age": {"between": [30, 39]}, "sex": "Female"}},
            "length": 100,
            "confidence": 0.95,
        },
        "query adult --where age=30..39 --where sex=Female --length 100",
        "SELECT COUNT(*) AS n FROM adult WHERE age BETWEEN 30 AND 39 AND sex = 'Female' WITHIN 50",
    )


def weekly_demo(folder: Path) -> Demo:
    """Flights from New York, whose first weeks are sealed at the start.

    Args:
        folder: gets a file per week that can be appended, and one with the weeks before.
    """
    first = deal_weeks(folder)
    sql = (
        "SELECT week, COUNT(*) FROM flights WHERE delay BETWEEN 60 AND 1439 GROUP BY week WITHIN 25"
    )
    return Demo(
        "flights",
        "flights from New York, week by week",
        (
            *("--data", str(first), "--domain", str(_data_file("flights-domain.json"))),
            *("--to", SEALED_AT_FIRST, "--capacity", str(CAPACITY), "--records-per-person", "1"),
        ),
        "How many flights left an hour late or more, each week? Within 25, 95 percent sure:",
        "sql",
        {"sql": sql},
        f'sql "{sql}"',
        sql,
    )


def deal_weeks(folder: Path) -> Path:
    """Write a file for each week that is not sealed at the start, such as `2013-W10.csv`.

    Returns:
        The file of the weeks before, which is attached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(_data_file("flights.csv.gz"), "rt", encoding="ascii") as lines:
        header, *records = lines
    dealt: dict[str, list[str]] = {}
    for record in records:
        year, week, _ = date.fromisoformat(record.split(",", 1)[0]).isocalendar()
        name = f"{year}-W{week:02}"
        part = f"until-{SEALED_AT_FIRST}" if name <= SEALED_AT_FIRST else name
        dealt.setdefault(part, [header]).append(record)
    for part, held in dealt.items():
        (folder / f"{part}.csv").write_text("".join(held), encoding="ascii")
    return folder / f"until-{SEALED_AT_FIRST}.csv"


def next_week(folder: Path, sealed: str) -> tuple[str, Path] | None:
    """The week after the last sealed one with its file; None if all are sealed."""
    ahead = sorted(p for p in folder.glob("2*.csv") if p.stem > sealed)
    return (ahead[0].stem, ahead[0]) if ahead else None


def adult_csv() -> Path:
    """Path of the Adult records: gzip-compressed CSV with a header of 15 names, `?` for missing.

    The survey weight `fnlwgt` is its only column that is not in the domain.
    """
    return _data_file("adult.csv.gz")


def adult_domain() -> Path:
    """Path of the domain of 14 attributes, which contains every Adult record."""
    return _data_file("adult-domain.json")


def adult_attribution() -> Path:
    """Path of the text with the data's source, authors, licence and changes."""
    return _data_file("ATTRIBUTION.md")


def _data_file(name: str) -> Path:
    return Path(str(files("qserver"))) / "data" / name


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
    """The store's facts on the demo's dataset once all is ready."""

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
