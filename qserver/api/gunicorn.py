"""gunicorn's configuration: `gunicorn -c python:qserver.api.gunicorn qserver.api.wsgi:app`."""

from __future__ import annotations

from qserver.config import Settings

_settings = Settings.from_environment()

# Seconds beyond a question's longest wait: to finish it when asked to stop, and before a process
# that shows no sign of life is replaced.
_GRACE_S = 5
_SILENCE_S = 30

bind = [f"{_settings.host}:{_settings.port}"]
worker_class = "gthread"
workers = _settings.http_workers
threads = _settings.http_threads
keepalive = 30
timeout = int(_settings.wait_s) + _SILENCE_S
graceful_timeout = int(_settings.wait_s) + _GRACE_S

# Each process loads numpy after its own limits are set, and opens its own store connections.
preload_app = False

# No access log: a line per question with its time would tell who asked what, and when.
accesslog = None
errorlog = "-"

# No socket through which another program could steer the server (gunicorn 25 and later).
control_socket_disable = True

limit_request_line = 8190
limit_request_fields = 64
limit_request_field_size = 8190
