"""What an operator sees: counts over all processes, public facts, logs with ids. Nothing finer."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from flask import Flask
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from qserver.api.errors import kind_of_problem
from qserver.api.metrics import Observed
from qserver.cli.local.exporter import metrics_registry
from qserver.cli.processes import Child, http_spec, listen
from qserver.config import Settings
from tests.api.calls import Caller
from tests.deployment import Deployment

pytestmark = [
    pytest.mark.promise(
        "Time",
        "metrics and logs tell no time finer than the slot",
    ),
    pytest.mark.promise(
        "Operations",
        "counts are summed over processes and outlive them; each request has a line with its id "
        "and without what was asked",
    ),
]

QUESTION = {"query": {"where": {"age": 20}}, "length": 400, "confidence": 0.95}
DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
LABELS = {"method", "route", "status", "code", "population", "le"}


class Watched:
    """A server whose requests are counted."""

    def __init__(self, town: Deployment, settings: Settings, folder: Path) -> None:
        self.listener = listen("127.0.0.1", 0)
        self.log = folder / "web.log"
        self.town = town
        self.settings = settings
        self.metrics_dir = folder / "metrics"
        spec = http_spec(settings, listener=self.listener, log=self.log, environ=os.environ)
        self.web = Child(spec)
        self.caller = Caller("127.0.0.1", self.listener.getsockname()[1])

    def values(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """Every sample: its name and the values of its labels, in order of the labels' names."""
        text = generate_latest(metrics_registry(self.settings, self.metrics_dir)).decode()
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                assert set(sample.labels) <= LABELS, sample
                labels = tuple(v for _, v in sorted(sample.labels.items()))
                found[sample.name, labels] = sample.value
        return found

    def stop(self) -> None:
        self.web.stop()
        self.listener.close()


@pytest.fixture
def watched(tmp_path: Path, store_url: str) -> Iterator[Watched]:
    town = Deployment.make(tmp_path, store_url)
    settings = replace(
        town.settings,
        http_workers=2,
        metrics_dir=str(tmp_path / "metrics"),
        log_format="json",
        log_requests=True,
        slot_ms=20,
    )
    found = Watched(town, settings, tmp_path)
    try:
        assert found.caller.get("/healthz").status == 200
        yield found
    finally:
        found.stop()


@pytest.mark.slow
def test_requests_are_summed_over_processes_and_outlive_them(watched: Watched) -> None:
    for _ in range(30):
        watched.caller.get("/v1/datasets/people")
    for name in ("nobody", "no\u00fcne", "x" * 200):
        path = f"/v1/datasets/{urllib.parse.quote(name)}"
        assert watched.caller.get(path).status == 404
    assert watched.caller.call("BREW", f"/{'y' * 50}").status in (404, 405)
    key = ("qserver_http_requests_total", ("GET", "/v1/datasets/<dataset>", "200"))
    assert watched.values()[key] == 30
    listed = Path(f"/proc/{watched.web.pid}/task/{watched.web.pid}/children").read_text().split()
    for pid in listed:
        os.kill(int(pid), signal.SIGKILL)
    assert watched.caller.get("/v1/datasets/people").status == 200
    values = watched.values()
    assert values[key] == 31
    assert values["qserver_http_requests_total", ("GET", "/v1/datasets/<dataset>", "404")] == 3
    assert values["qserver_http_problems_total", ("not_found",)] >= 3
    assert not any("x" * 20 in str(k) or "BREW" in str(k) or "yyy" in str(k) for k in values)


def test_requests_are_observed_where_they_are_counted_or_logged(
    store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By either variable alone, and by none of them not at all."""
    monkeypatch.setenv("QSERVER_REDIS_URL", store_url)
    monkeypatch.setattr("qserver.api.app.create_app", lambda *_, **__: Flask("empty"))
    names = {"QSERVER_METRICS_DIR": str(tmp_path), "QSERVER_LOG_REQUESTS": "1"}
    from qserver.wsgi import app_from_environment

    for chosen in ((), *((name,) for name in names), names):
        with monkeypatch.context() as patch:
            for name in chosen:
                patch.setenv(name, names[name])
            app = app_from_environment()
        assert isinstance(app.wsgi_app, Observed) == bool(chosen)


@pytest.mark.slow
def test_times_are_whole_slots(watched: Watched) -> None:
    for _ in range(5):
        watched.caller.get("/v1/datasets")
    total = watched.values()["qserver_http_request_seconds_sum", ("/v1/datasets",)]
    assert total / 0.02 == pytest.approx(round(total / 0.02), abs=1e-6)
    assert total >= 5 * 0.02


@pytest.mark.slow
def test_the_stores_facts_are_those_of_the_api(watched: Watched) -> None:
    watched.caller.post("/v1/datasets/people/query", QUESTION, {"Prefer": "respond-async"})
    values = watched.values()
    assert values["qserver_queue_jobs", ("town",)] == 1
    watched.town.work_off()
    values = watched.values()
    shown = watched.caller.get("/v1/datasets/people").document
    assert values["qserver_budget_spent_epsilon", ("town",)] == shown["spent"] > 0
    assert values["qserver_budget_limit_epsilon", ("town",)] == shown["limit"]
    assert values["qserver_ledger_version", ("town",)] == 1
    assert values["qserver_queue_jobs", ("town",)] == 0
    assert values["qserver_store_ready", ()] == 1


def test_a_store_that_is_away_is_said_to_be_away(tmp_path: Path) -> None:
    settings = Settings(redis_url=f"unix://{tmp_path}/none.sock")
    text = generate_latest(metrics_registry(settings, tmp_path)).decode()
    assert "qserver_store_ready 0.0" in text
    assert "{population" not in text


@pytest.mark.slow
def test_each_request_has_a_line_with_its_id_and_without_what_was_asked(watched: Watched) -> None:
    watched.caller.post("/v1/datasets/people/explain", QUESTION, {"X-Request-Id": "planted-id-1"})
    watched.stop()
    lines = [json.loads(line) for line in watched.log.read_text().splitlines()]
    (line,) = [line for line in lines if line.get("request_id") == "planted-id-1"]
    assert line["route"] == "/v1/datasets/<dataset>/explain"
    assert (line["method"], line["status"]) == ("POST", 200)
    assert re.fullmatch(r"[-0-9T:]{19}Z", line["time"])
    for word in ('"people', "where", "confidence", "127.0.0.1:"):
        assert word not in json.dumps([li for li in lines if li["logger"] == "qserver.requests"])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_the_exporter_answers_at_its_address_alone_until_it_is_asked_to_stop(
    host: str, tmp_path: Path, store_url: str
) -> None:
    """By default that of this machine."""
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    settings = Settings(redis_url=store_url, metrics_dir=str(tmp_path), metrics_port=port)
    command = [sys.executable, "-m", "qserver.cli.main", "metrics", "--redis-url", store_url]
    if host != Settings().metrics_host:
        command += ["--host", host]
    with subprocess.Popen(
        command, env={**os.environ, **settings.to_environment()}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert f"{host}:{port}" in process.stdout.readline()
        other = ({"127.0.0.1", "127.0.0.2"} - {host}).pop()
        with socket.socket() as tried:
            assert tried.connect_ex((other, port)) == errno.ECONNREFUSED
        caller = Caller(host, port)
        assert b"qserver_store_ready 1.0" in caller.get("/metrics").body
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0


def test_a_slot_of_a_process_never_changes() -> None:
    def app(_environ: object, _start: object) -> list[bytes]:
        return []

    Observed(app, slot_ms=5)
    with pytest.raises(ValueError, match="one slot"):
        Observed(app, slot_ms=50)


def watched_for() -> list[str]:
    """Every expression of the alerts and of the dashboard."""
    rules = [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
    panels = json.loads((DEPLOY / "grafana" / "qserver.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return [rule["expr"] for rule in rules] + shown


@pytest.mark.slow
def test_alerts_and_dashboard_name_what_the_exporter_prints(watched: Watched) -> None:
    assert watched.caller.get("/v1/datasets/nobody").status == 404
    fault = "from qserver.service.datasets import PLANNING_FAULTS as f; f.labels('any').inc()"
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(watched.metrics_dir)}
    subprocess.run([sys.executable, "-c", fault], env=environ, check=True)
    text = generate_latest(metrics_registry(watched.settings, watched.metrics_dir)).decode()
    printed: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            printed.setdefault(sample.name, set()).update(sample.labels)
    for expression in watched_for():
        names = re.findall(r"\bqserver_\w+", expression)
        assert names, expression
        assert set(names) <= set(printed), expression
        grouped = re.findall(r"by \(([^)]*)\)", expression)
        chosen = re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"", expression)
        labels = {*chosen, *(word for found in grouped for word in found.split(", "))}
        assert labels <= set.union(*(printed[name] for name in names)), expression


def test_alerts_name_codes_of_problems_that_are_sent() -> None:
    (codes,) = set(re.findall(r'code=~"([^"]*)"', ALERTS.read_text()))
    assert [kind_of_problem(code).code for code in codes.split("|")] == codes.split("|")


@pytest.mark.parametrize("what", ["check", "test"])
def test_prometheus_itself_reads_the_alerts(what: str, tmp_path: Path) -> None:
    """And sees the first problem with a code, whose series begins at 1."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: install Debian's package prometheus to check the alerts")
    series = "qserver_http_problems_total{code='internal'}"
    fired = {"exp_labels": {"severity": "critical", "code": "internal"}}
    expected = {"alertname": "QServerProblem", "eval_time": "31m", "exp_alerts": [fired]}
    fired["exp_annotations"] = {"summary": "Problems with the code internal were sent."}
    case = {"input_series": [{"series": series, "values": "_x30 1x30"}]}
    unit = tmp_path / "unit.yml"
    cases = [{**case, "interval": "1m", "alert_rule_test": [expected]}]
    unit.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": cases}))
    command = [promtool, what, "rules", str(ALERTS if what == "check" else unit)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr + checked.stdout
