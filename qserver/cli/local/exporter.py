"""`qserver metrics`, the exporter: gives the counts of the HTTP processes to Prometheus.

It listens on this machine only, unless told otherwise. It shows counts of requests and public
facts of the store: budgets, queues, workers. No time is finer than the publication slot, and no
label is a client's text.
"""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from qserver.cli.runtime import ExitCode, Runtime, store_settings
from qserver.config import Settings, url_of
from qserver.errors import ConfigError, QServerError
from qserver.storage.population_facts import PopulationGauges, read_gauges
from qserver.storage.server.connection import connect
from qserver.storage.server.durability import check_durable

_NANO = 1e9
STORE_READY = "qserver_store_ready", "Whether the store answers and keeps what it acknowledges."
# Name, help, value.
GAUGES: tuple[tuple[str, str, Callable[[PopulationGauges], float]], ...] = (
    ("budget_limit_epsilon", "The population's limit.", lambda g: g.limit_nano / _NANO),
    ("budget_spent_epsilon", "What is spent of it.", lambda g: g.spent_nano / _NANO),
    ("ledger_version", "Number of the last charge.", lambda g: g.n_charged),
    ("queue_jobs", "Questions that wait or are being worked.", lambda g: g.n_queued),
    ("reservations_open", "Charges whose answer is still to come.", lambda g: g.n_open),
    ("reservations_burnt", "Charges without an answer, for ever.", lambda g: g.n_burnt),
    ("worker_alive", "Whether a worker lives.", lambda g: g.worker_alive),
)


def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Answer scrapes until a signal asks to stop."""
    settings = store_settings(args, runtime, metrics_host=args.host, metrics_port=args.port)
    if not settings.metrics_dir:
        raise ConfigError(
            "QSERVER_METRICS_DIR", "be set, here and where HTTP runs, to the same folder"
        )
    folder = Path(settings.metrics_dir)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _serve(settings, folder, stop=stop, announce=runtime.console.line)
    return ExitCode.OK


class StoreCollector(Collector):
    """The store's gauges, read for each scrape; without a store only `qserver_store_ready`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def collect(self) -> Iterator[Metric]:
        """The present metrics."""
        try:
            client = connect(self._settings.store_url, role="metrics")
            try:
                check_durable(client, allow_volatile=self._settings.allow_volatile)
                found, is_ready = read_gauges(client), 1
            finally:
                client.close()
        except QServerError:
            found, is_ready = [], 0
        yield GaugeMetricFamily(*STORE_READY, value=is_ready)
        for name, text, value_of in GAUGES:
            family = GaugeMetricFamily(f"qserver_{name}", text, labels=["population"])
            for gauges in found:
                family.add_metric([gauges.population], float(value_of(gauges)))
            yield family


def metrics_registry(settings: Settings, folder: Path) -> CollectorRegistry:
    """All metrics: the store's, and the sums of the counts of the HTTP processes in `folder`."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(settings))
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    return registry


def _serve(
    settings: Settings, folder: Path, *, stop: threading.Event, announce: Callable[[str], None]
) -> None:
    host, port = settings.metrics_host, settings.metrics_port
    registry = metrics_registry(settings, folder)
    server, thread = start_http_server(port, addr=host, registry=registry)
    try:
        announce(f"{url_of(host, port)}/metrics")
        stop.wait()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
