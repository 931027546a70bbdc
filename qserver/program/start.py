"""How a program starts: BLAS threads are limited, code is loaded, log lines get their form.

And how a shell completes its command line.

Imports nothing of ours. The limits must come before numpy. Code is loaded without the collector of
cycles, which would find nothing. Log lines are for people, or for programs as one JSON object a
line.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def limit_threads(environ: MutableMapping[str, str]) -> None:
    """Give each process one BLAS thread, unless the operator chose otherwise.

    The matrices here are small, so threads cost far more than they gain.
    """
    for name in THREAD_LIMITS:
        environ.setdefault(name, "1")


@contextmanager
def loading() -> Iterator[None]:
    """Around the imports of a program.

    Modules, classes and functions stay for ever. To look through them again and again while they
    load took up to a fifth of a start. Afterwards they are left out of every search, and so stay
    shared by the processes that are forked.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def telling_if_long(text: str, to: TextIO, *, after_s: float = 2.0) -> Iterator[None]:
    """Write one line to a terminal if the block takes longer than `after_s` seconds.

    No share, count or time is shown: these could tell of private data.
    """
    if not to.isatty():
        yield
        return

    def tell() -> None:
        to.write(text + "\n")
        to.flush()

    timer = threading.Timer(after_s, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


SHELLS = ("bash", "zsh", "fish")


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script by which a shell completes the command line of a parser."""
    import shtab

    _mark_paths(parser, shtab.FILE)
    return str(shtab.complete(parser, shell=shell))


def _mark_paths(parser: argparse.ArgumentParser, files: Any) -> None:
    """Let options that are paths be completed by files, in every command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_paths(command, files)
        elif action.type is Path:
            action.complete = files  # type: ignore[attr-defined]


_FIELDS = ("request_id", "trace_id", "route", "method", "status", "code", "job")


class JsonFormatter(logging.Formatter):
    """A record as a JSON object: time, level, logger, message, known fields, error and trace.

    Times are in whole seconds of UTC: a finer one could tell more than the publication slot does.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line of ASCII, whatever the message holds."""
        found: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        found |= {
            name: getattr(record, name) for name in _FIELDS if getattr(record, name, "") != ""
        }
        if record.exc_info and record.exc_info[0] is not None:
            found["error"] = record.exc_info[0].__name__
            found["trace"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class TextFormatter(logging.Formatter):
    """A record as a line for people, with the ids of its request and trace where there are any."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line; the ids come last, in brackets."""
        text = super().format(record)
        ids = " ".join(filter(None, (getattr(record, n, "") for n in ("request_id", "trace_id"))))
        head, newline, trace = text.partition("\n")
        return f"{head} [{ids}]{newline}{trace}" if ids else text


def formatter_of(log_format: str) -> logging.Formatter:
    """The formatter for `json`; for anything else the one for people."""
    return JsonFormatter() if log_format == "json" else TextFormatter()
