"""`qserver metrics`: answer Prometheus, on this machine only."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from qserver.cli.local.exporter import serve_metrics
from qserver.cli.local.store_options import store_settings
from qserver.cli.runtime import ExitCode, Runtime
from qserver.errors import ConfigError


def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Answer scrapes until a signal asks to stop."""
    settings = store_settings(args, runtime, metrics_port=args.port)
    if not settings.metrics_dir:
        raise ConfigError(
            "QSERVER_METRICS_DIR", "be set, here and where HTTP runs, to the same folder"
        )
    folder = Path(settings.metrics_dir)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    serve_metrics(settings, folder, stop=stop, announce=runtime.console.line)
    return ExitCode.OK
