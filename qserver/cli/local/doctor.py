"""`qserver doctor`: check everything that a server needs, and say how to mend the faults."""

from __future__ import annotations

import argparse
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Literal

from qserver.cli.runtime import ExitCode, Runtime
from qserver.client.http import HttpClient
from qserver.config import Settings
from qserver.errors import QServerError
from qserver.records.charge import epsilon_text
from qserver.service.history import Integrity
from qserver.storage.population_facts import forbidden_powers, read_gauges
from qserver.storage.server.connection import connect, public_address
from qserver.storage.server.embedded_store import server_binary
from qserver.storage.server.state_folder import StateFolder
from qserver.storage.store import Store

Verdict = Literal["ok", "note", "fault"]
_LEAST_MEGABYTES, _FEW_MEGABYTES = 100, 1000
_BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Args:
        subject: of the check.
        verdict: `ok`; `note`, worth knowing; or `fault`, to be mended.
        text: the facts; for a fault also the remedy.
    """

    subject: str
    verdict: Verdict
    text: str


def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Check everything and print the findings; fails if one is a fault."""
    with runtime.console.progress("Checking"):
        findings = list(_all_findings(args, runtime))
    if args.json:
        runtime.console.json({"findings": [asdict(finding) for finding in findings]})
    else:
        spelt = runtime.programs.spelt
        for finding in findings:
            runtime.console.line(f"{finding.verdict:<5}  {finding.subject}: {spelt(finding.text)}")
    faulty = any(finding.verdict == "fault" for finding in findings)
    return ExitCode.FAILURE if faulty else ExitCode.OK


def _all_findings(args: argparse.Namespace, runtime: Runtime) -> Iterator[Finding]:
    yield from _check_threads(runtime)
    yield _guarded("embedded server", lambda: f"{server_binary().name} is installed")
    folder = StateFolder(args.state.absolute())
    yield from _check_folder(folder.root)
    yield from _check_space(folder.root)
    if args.redis_url is None:
        yield from _check_embedded(runtime, folder)
    else:
        settings = Settings.from_environment(runtime.environ, redis_url=args.redis_url)
        yield from _check_store(settings)
    if args.url is not None:
        yield _guarded("HTTP", lambda: _check_http(args.url))


def _check_threads(runtime: Runtime) -> Iterator[Finding]:
    """Many BLAS threads make small factorisations far slower, most of all in many processes."""
    for variable in _BLAS_VARIABLES:
        value = runtime.environ.get(variable)
        if value in (None, "1"):
            yield Finding(variable, "ok", "qserver's own processes use one thread each")
        else:
            yield Finding(
                variable,
                "note",
                f"is {value}. `demo` and `serve` set it to 1; set it yourself where you run "
                "gunicorn or qserver-worker by hand.",
            )


def _check_folder(root: Path) -> Iterator[Finding]:
    try:
        found = root.stat()
        kept = (root / "redis").stat() if (root / "redis").exists() else found
    except FileNotFoundError:
        yield Finding("state folder", "note", f"{root} is not there yet")
        return
    except OSError as exc:
        yield Finding("state folder", "fault", f"{root} cannot be read ({exc.strerror}).")
        return
    if not stat.S_ISDIR(found.st_mode):
        yield Finding("state folder", "fault", f"{root} is not a folder. Choose another --state.")
    elif found.st_uid != os.geteuid() or not os.access(root, os.W_OK | os.X_OK):
        yield Finding(
            "state folder", "fault", f"{root} is not writable. Run as its owner, or chown it."
        )
    elif kept.st_mode & 0o077:
        yield Finding(
            "state folder",
            "fault",
            f"others can enter {root / 'redis'}. Run: chmod -R go= {root}",
        )
    else:
        yield Finding("state folder", "ok", f"{root} is ours alone")


def _check_space(root: Path) -> Iterator[Finding]:
    """On a full disk the store refuses writes: safe, but no new measurements."""
    if not root.is_dir():
        return
    found = os.statvfs(root)
    megabytes = found.f_bavail * found.f_frsize >> 20
    text = f"{megabytes:,} MB are free on the disk of {root}"
    if megabytes < _LEAST_MEGABYTES:
        yield Finding("disk", "fault", f"{text}. Make room: a full disk stops every spend.")
    else:
        yield Finding("disk", "ok" if megabytes >= _FEW_MEGABYTES else "note", text)


def _check_embedded(runtime: Runtime, folder: StateFolder) -> Iterator[Finding]:
    """The store that runs on the folder, if any; none is no fault."""
    try:
        is_running, is_stopping = folder.running_url() is not None, folder.is_stopping
    except QServerError as exc:
        yield Finding("store", "fault", str(exc))
        return
    start = f"`qserver serve --state {quote(str(folder.root))}` or `qserver demo` starts one"
    if is_stopping:
        yield Finding("store", "note", "the server on the state folder is stopping")
    elif is_running:
        settings = Settings.from_environment(runtime.environ, redis_url="", state_dir=folder.root)
        yield from _check_store(settings)
    else:
        yield Finding("store", "note", f"none runs on the state folder; {start}")


def _check_store(settings: Settings) -> Iterator[Finding]:
    url = settings.store_url
    try:
        store = Store.open(settings)
    except QServerError as exc:
        yield Finding("store", "fault", str(exc))
        return
    yield Finding(
        "store", "ok", f"{public_address(url)} answers, and its version and schema are ours"
    )
    yield _guarded("durability", lambda: _check_durability(store, settings))
    yield _check_user(store, is_embedded=url.startswith(("unix:", "state:")))
    yield _guarded("released answers", lambda: _check_histories(store))
    datasets = store.datasets()
    if not datasets:
        yield Finding("datasets", "note", "none is attached; `qserver-worker attach` does it")
    for population in sorted(set(datasets.values())):
        names = ", ".join(sorted(n for n, p in datasets.items() if p == population))
        yield _check_worker(store, population, names, settings)
    yield from _check_gauges(url, max_queue=settings.max_queue)


def _check_durability(store: Store, settings: Settings) -> str:
    store.check_ready(allow_volatile=settings.allow_volatile)
    if settings.allow_volatile:
        return "not asked for, because allow_volatile is set: charges may be forgotten"
    return "what the store acknowledges is kept"


def _check_histories(store: Store) -> str:
    Integrity(store, clock=time.monotonic).check()
    return "every history is as it was published"


def _check_user(store: Store, *, is_embedded: bool) -> Finding:
    """An attacker in a web process can do everything that its user of the store can."""
    subject = "user of the store"
    try:
        powers = forbidden_powers(store.client, role="web")
    except QServerError as exc:
        return Finding(subject, "fault", str(exc))
    if not powers:
        return Finding(subject, "ok", "may do no more than HTTP needs")
    text = f"may also {', '.join(powers)}."
    if is_embedded:
        return Finding(subject, "note", f"{text} Only who owns the state folder reaches the store.")
    return Finding(
        subject, "note", f"{text} Give each side its own user: see deploy/redis-users.acl."
    )


def _check_worker(store: Store, population: str, names: str, settings: Settings) -> Finding:
    subject = f"worker of {population}"
    if store.worker_alive(population):
        return Finding(subject, "ok", f"alive, measures {names}")
    place = "" if settings.redis_url else f" --state {quote(str(settings.state_dir))}"
    return Finding(
        subject,
        "fault",
        f"none is alive, so {names} can be answered from history only. "
        f"Start one with `qserver-worker run{place}`.",
    )


def _check_gauges(url: str, *, max_queue: int) -> Iterator[Finding]:
    client = connect(url, role="doctor")
    for gauges in read_gauges(client):
        subject = f"population {gauges.population}"
        text = (
            f"{epsilon_text(gauges.spent_nano)} of {epsilon_text(gauges.limit_nano)} epsilon spent "
            f"in {gauges.n_charged:,} reservations, {gauges.n_burnt:,} of them burnt; "
            f"{gauges.n_queued} questions wait"
        )
        is_full = 2 * gauges.n_queued > max_queue
        yield Finding(subject, "note" if is_full or gauges.n_open > 1 else "ok", text)
    client.close()


def _check_http(url: str) -> str:
    client = HttpClient(url, timeout_s=5.0)
    client.get("healthz")
    client.get("readyz")
    return f"{url} is up and ready"


def _guarded(subject: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, "ok", check())
    except QServerError as exc:
        return Finding(subject, "fault", str(exc))
