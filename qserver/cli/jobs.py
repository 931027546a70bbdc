"""`qserver jobs`: the jobs that this user left, and their results.

A server tells a job to whoever has its id and asked for it. So the command line notes the ids of
those that it left, as a browser does: a line each in a file of the user's own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qserver.cli.console import Console, interval_text
from qserver.cli.questions import answer_rows, show_asked, show_cost
from qserver.cli.remote_commands import add_server_options, reply_to, show_reply, url_of
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.cli.workloads import show_answers

if TYPE_CHECKING:
    from qserver.client.flows import Call, Flow, Patience
    from qserver.client.http import Reply

_TEXT = """\
List the questions from here whose answer was not ready in time. With an id, wait for that answer
and show it. Spends nothing.
"""
_MOST = 100
_OPEN = ("queued", "running")


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `jobs` to the command line."""
    parser = commands.add_parser(
        "jobs", help="list what you asked, or await one", description=_TEXT
    )
    parser.add_argument("job", nargs="?", metavar="ID", help="wait for this one, up to --timeout")
    add_server_options(parser, runtime, run, has_rows=True)


def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show all jobs, or await one."""
    return _list(args, runtime) if args.job is None else _await(args, runtime)


@dataclass(frozen=True)
class JobNotes:
    """The ids of unfinished jobs that this user left, oldest first, each with its server.

    Args:
        path: the file; only its user may read it.
    """

    path: Path

    def ids(self, url: str) -> list[str]:
        """The ids of a server's jobs."""
        return [job for at, job in self._lines() if at == url]

    def add(self, url: str, job: str) -> None:
        """Note a job and forget the oldest beyond a hundred. A full disk stops nobody."""
        self._write([*(line for line in self._lines() if line != (url, job)), (url, job)][-_MOST:])

    def forget(self, url: str, job: str) -> None:
        """Forget a job that the server does not know."""
        self._write([line for line in self._lines() if line != (url, job)])

    def _lines(self) -> Iterator[tuple[str, str]]:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in self.path.read_text(encoding="utf-8").splitlines():
                url, _, job = line.rpartition(" ")
                if url:
                    yield url, job

    def _write(self, lines: list[tuple[str, str]]) -> None:
        new = self.path.with_name(self.path.name + ".new")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.writelines(f"{url} {job}\n" for url, job in lines)
            new.replace(self.path)


def notes_of(runtime: Runtime) -> JobNotes:
    """The notes of this user."""
    return JobNotes(runtime.user_folder / "jobs")


def note_left(args: argparse.Namespace, runtime: Runtime, job: str) -> None:
    """Note a job whose answer was late, and say how to return to it."""
    notes_of(runtime).add(url_of(args), job)
    runtime.console.note("Come back to it with:")
    runtime.console.note(f"  {runtime.programs.typed('qserver')} jobs {job}")


def _list(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    found = list(_known(args, runtime))
    console = runtime.console
    if args.json:
        console.json({"jobs": found})
    elif args.csv:
        names = ("id", "dataset", "state")
        console.csv(names, ([job[name] for name in names] for job in found))
    elif found:
        header = ("job", "dataset", "state", "answer")
        console.table(header, [(j["id"], j["dataset"], j["state"], _short(j)) for j in found])
    else:
        console.aside("No question from here waits for its answer.")
    return ExitCode.OK


def _known(args: argparse.Namespace, runtime: Runtime) -> Iterator[Mapping[str, Any]]:
    """The jobs that the server still knows, oldest first."""
    from qserver.client import requests
    from qserver.client.errors import ServerProblemError

    notes, url = notes_of(runtime), url_of(args)
    for job in notes.ids(url):
        try:
            yield reply_to(requests.job(job), args, runtime).document
        except ServerProblemError as exc:
            if exc.code != "not_found":
                raise
            notes.forget(url, job)


def _short(job: Mapping[str, Any]) -> str:
    """An answer of one interval, or the reason for none, in a few words."""
    result = job.get("result") or {}
    if "interval" in result:
        low, high = result["interval"]
        text = interval_text(estimate=None, low=low, high=high)
        return f"between {text.low} and {text.high}"
    return str((job.get("problem") or {}).get("code", "-"))


def _await(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    from qserver.client.flows import Call, Exchange

    call = Call(("v1", "jobs", args.job))
    asked = Exchange(call, dict, _awaited)
    with runtime.console.progress("Waiting for the answer"):
        reply = reply_to(asked, args, runtime)
    return show_reply(reply, _show_result, args, runtime, rows=partial(_rows))


def _awaited(patience: Patience, call: Call) -> Flow[Reply]:
    """The result of a finished job."""
    import json

    from qserver.client.flows import job_result, sent
    from qserver.client.http import Reply

    deadline = patience.clock() + patience.wait_s
    found = (yield from sent(patience, call)).document
    result = yield from job_result(patience, found, deadline)
    return Reply(json.dumps(result), result)


def _rows(result: Mapping[str, Any]) -> Any:
    return answer_rows(result.get("answers", [result]))


def _show_result(console: Console, result: Mapping[str, Any]) -> None:
    if "answers" in result:
        show_answers(console, result)
    elif "interval" in result:
        show_asked(console, result)
    else:
        console.line(f"model: {result['id']}" if "id" in result else "done: ask again, at no cost")
        show_cost(console, result)
