"""gunicorn's configuration: `gunicorn -c python:qserver.api.process.gunicorn qserver.wsgi:app`."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from qserver.program.start import limit_threads

limit_threads(os.environ)  # numpy reads the limits once, when it loads: with the next imports.

from qserver.config import Settings, url_of  # noqa: E402

_settings = Settings.from_environment()
if _settings.metrics_dir:
    # The library looks for the folder once, when it loads: with the next imports.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = _settings.metrics_dir

from qserver.api.process.start import logging_config  # noqa: E402
from qserver.program.start import loading  # noqa: E402

# Seconds beyond a question's longest wait: to finish it when asked to stop, and before a process
# that shows no sign of life is replaced.
_GRACE_S = 5
_SILENCE_S = 30

bind = [url_of(_settings.host, _settings.port).removeprefix("http://")]
worker_class = "qserver.api.process.parking.ParkingWorker"
workers = _settings.http_workers
threads = _settings.http_threads
keepalive = 30
timeout = int(_settings.wait_s) + _SILENCE_S
graceful_timeout = int(_settings.wait_s) + _GRACE_S

# Each process makes its own app, and with it its threads, locks and store connections. Only their
# code is loaded before the processes are forked, so that a new one is there at once.
preload_app = False
_CODE = (
    "qserver.api.app",
    "qserver.portal.blueprint",
    "qserver.service.service",
    "qserver.storage.accounts",
)

logconfig_dict = logging_config(_settings.log_format)

# No access log: a line per question with its time would tell who asked what, and when.
accesslog = None
errorlog = "-"

# No socket through which another program could steer the server (gunicorn 25 and later).
control_socket_disable = True


def on_starting(_server: Any) -> None:
    """Load the code once, and count from zero: Prometheus notices a restart by that."""
    with loading():
        for name in _CODE:
            import_module(name)
    if _settings.metrics_dir:
        folder = Path(_settings.metrics_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in folder.glob("*.db"):
            path.unlink()


limit_request_line = 8190
limit_request_fields = 64
limit_request_field_size = 8190
