"""A recorded run of the whole server: no count, label, row or noise sample leaves the worker.

gunicorn and the worker are processes of their own; the worker also notes every truth and every
noise sample in a private file, and what was noted is looked for wherever anything is kept or sent.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from qserver.cli.local.exporter import metrics_registry
from qserver.cli.main import main
from qserver.cli.processes import (
    Child,
    ChildSpec,
    child_environment,
    http_spec,
    listen,
    python_command,
)
from qserver.config import Settings
from qserver.records.charge import NANO
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import Deployment
from tests.privacy.recording import FATAL, LIMIT, SECRETS, TABLE_ALPHA, TABLES_AT, notes
from tests.privacy.scan import (
    Secret,
    count_secret,
    exposures,
    files_under,
    keys_and_values,
    noted_secrets,
    text_secret,
)
from worker.journal.records import Attached
from worker.owner.backups import back_up, extract
from worker.owner.checks.audit import examine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "Privacy",
        "no true count, label, row, path, fingerprint or noise sample is in the store, its files,"
        " a backup, logs, metrics, what the doctors print, replies or error bodies",
    ),
]

ROOT = Path(__file__).parents[2]
N_MEN, N_UNKNOWN, N_WOMEN = 104_729, 71_993, 83_003
LABEL = "PLANTED-LABEL-ZANZIBAR"
ROWS = [
    *[(20, "Male")] * N_MEN,
    *[(21, LABEL)] * N_UNKNOWN,
    *[(22, "Female")] * N_WOMEN,
    *[(29, "Female")] * FATAL,
]
TOTAL = len(ROWS)


@dataclass
class Recorded:
    """A run, its processes still up, and all that HTTP clients were told."""

    town: Deployment
    client: StoreClient
    folder: Path
    port: int
    settings: Settings
    replies: list[bytes] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def call(self, method: str, path: str, document: object = None) -> Any:
        return json.loads(self.fetch(path, method, document))

    def fetch(self, path: str, method: str = "GET", document: object = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = document if isinstance(document, str | None) else json.dumps(document)
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        self.replies.append(str(response.headers).encode() + content)
        self.statuses.add(response.status)
        return content

    def ask(self, where: dict[str, Any], length: float, *, confidence: float = 0.95) -> Any:
        document = {"query": {"where": where}, "length": length, "confidence": confidence}
        return self.call("POST", "/v1/datasets/people/query", document)

    def places(self) -> dict[str, bytes]:
        """Whatever leaves the worker's memory, but for its private folder.

        The store's keys, its files and its log, the processes' logs, replies, metrics, doctors.
        """
        return {
            **keys_and_values(self.client),
            **files_under(self.folder / "state" / "redis"),
            **files_under(self.folder / "logs"),
            "replies": b"\n".join(self.replies),
            "metrics": self.metrics(),
            "doctor": self.doctor(),
            "worker's doctor": self.workers_doctor(),
        }

    def metrics(self) -> bytes:
        """What a scrape is told."""
        folder = Path(self.settings.metrics_dir)
        return bytes(generate_latest(metrics_registry(self.settings, folder)))

    def doctor(self) -> bytes:
        """What `qserver doctor` prints."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            state, url = str(self.folder / "state"), f"http://127.0.0.1:{self.port}"
            main(["doctor", "--state", state, "--url", url, "--json"], environ={})
        return printed.getvalue().encode()

    def workers_doctor(self) -> bytes:
        """What `qserver-worker doctor` prints; for the owner, but it may stand on a screen."""
        findings = examine(self.town.registry, self.settings)
        return "\n".join(f"{f.check}: {f.text}" for f in findings).encode()

    def backup(self) -> dict[str, bytes]:
        """The store's part of a backup that is made now; the rest is the worker's folder."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        settings = replace(self.settings, redis_url="", state_dir=self.folder / "state")
        note = back_up(
            folder / "file",
            settings=settings,
            registry=self.town.registry,
            with_data=True,
            say=pytest.fail,
        )
        extract(folder / "file", note, folder / "parts")
        found = files_under(folder / "parts" / "store")
        return {f"backup {name}": text for name, text in found.items()}

    def digests(self) -> dict[str, str]:
        """Those of the content, which the journal has."""
        with self.town.registry.journal("town", create=False).exclusive() as journal:
            lines = [record for record in journal.records() if isinstance(record, Attached)]
        found = {name: str(text) for name, text in lines[0].details.items()}
        return {name: text for name, text in found.items() if name.startswith("same_")}

    def secrets(self) -> list[Secret]:
        entry = self.town.registry.entry("people")
        texts = {
            "label": LABEL,
            "row": f"21,{LABEL}",
            "path": entry.data,
            "fingerprint": entry.fingerprint,
            **self.digests(),
            "key": self.town.registry.key().hex(),
            "message": "must not be told",
        }
        texts = {name: text for name, text in texts.items() if text}
        counts = [N_MEN, N_UNKNOWN, N_WOMEN, FATAL, N_WOMEN + FATAL, TOTAL, TOTAL - FATAL]
        return [
            *(text_secret(name, text) for name, text in texts.items()),
            *(count_secret(f"count {n}", n) for n in sorted(set(counts))),
            *noted_secrets(notes(self.folder / "noted")),
        ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    logs = folder / "logs"
    logs.mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        town = Deployment.make(folder / "state", server.url, limit=str(LIMIT), rows=ROWS)
        settings = replace(
            town.settings,
            wait_s=30,
            slot_ms=5,
            http_workers=2,
            metrics_dir=str(folder / "metrics"),
            log_format="json",
            log_requests=True,
        )
        listener = stack.enter_context(listen("127.0.0.1", 0))
        environment = {
            **child_environment(settings, os.environ),
            SECRETS: str(folder / "noted"),
            "PYTHONPATH": str(ROOT),
        }
        worker = ChildSpec(
            name="worker",
            command=python_command("-m", "tests.privacy.recording"),
            environment=environment,
            log=logs / "worker.log",
        )
        web = http_spec(settings, listener=listener, log=logs / "web.log", environ=os.environ)
        for spec in (worker, web):
            stack.callback(Child(spec).stop)
        client = connect(server.url, role="test")
        stack.callback(client.close)
        found = Recorded(town, client, folder, listener.getsockname()[1], settings)
        use_everything(found)
        yield found


def use_everything(run: Recorded) -> None:
    """Rows, refinements, tables, a failed measurement, refusals, a sample, every way to read."""
    path = "/v1/datasets/people"
    for length in (2000, 900):
        for age in (20, 21, 22):
            run.ask({"age": age}, length)
        run.ask({"sex": "other"}, length)
        run.ask({"age": {"below": 25}}, length)
        run.ask({"sex": "Male", "age": {"between": [20, 24]}}, length)
    for length in (500, 400):
        answer = run.ask({"sex": "Male"}, length, confidence=TABLES_AT)
        assert answer["source"] in ("measured", "refined"), answer
    network = {"edges": [], "variables": ["sex"]}
    learnt = run.call(
        "POST",
        f"{path}/models",
        {"kind": "network", "network": network, "epsilon": 0.01, "allocation": "icml"},
    )
    for end in ("", "/export", "/sample?n=5"):
        run.fetch(f"{path}/models/{learnt['id']}{end}")
    assert run.ask({"age": 29, "sex": "Female"}, 100)["code"] == "measurement_failed"
    assert run.ask({"age": 20}, 3e-6)["code"] == "budget_exhausted"
    question = {"query": {"where": {"age": 20}}, "length": 300, "confidence": 0.95}
    run.call("POST", f"{path}/explain", question)
    between = {"query": {"where": {"age": 20}}, "between": [0, 10]}
    run.call("POST", f"{path}/probability", between)
    run.call("POST", f"{path}/query", "{")
    run.call("POST", f"{path}/query", json.dumps({"x": LABEL[:5] * 300_000}))
    run.call("PUT", f"{path}/query")
    run.ask({"age": LABEL[:3]}, 10)
    for end in ("", "/history", "/history/0", "/ledger", "/nothing"):
        run.call("GET", path + end)
    for other in ("/v1/datasets", "/v1/jobs/people~0", "/healthz", "/readyz", "/openapi.json"):
        run.call("GET", other)


def test_the_run_went_everywhere(recorded: Recorded) -> None:
    """Rows and tables were drawn and refined, and the search finds what is public."""
    history = recorded.call("GET", "/v1/datasets/people/history").get("rows")
    tables = [row for row in history if "n_cells" in row]
    # The network raised the table, and bought the total.
    assert [t["n_cells"] for t in tables] == [3, 1]
    assert tables[0]["alpha"] > 2 * TABLE_ALPHA / NANO
    assert {200, 404, 405, 409, 413, 422} <= recorded.statuses
    noted = list(notes(recorded.folder / "noted"))
    released = [n for n in noted if n.get("truth") and "released" in n]
    assert len(released) > 10
    assert len([n for n in noted if "kept" in n]) == 3 + 1
    places = recorded.places()
    last = text_secret("released", str(released[-1]["released"]))
    assert len(exposures([last], places)) >= 2
    assert len(recorded.secrets()) > 40
    assert b"qserver_http_requests_total" in places["metrics"]
    assert b"worker of town" in places["doctor"]
    assert b"journal of town" in places["worker's doctor"]
    lines = [json.loads(line) for line in places["file web.log"].splitlines()]
    assert sum("request_id" in line and "route" in line for line in lines) > 20


def test_no_secret_is_found_anywhere(recorded: Recorded) -> None:
    places = {**recorded.places(), **recorded.backup()}
    assert len([name for name in places if name.startswith("backup ")]) >= 3
    assert exposures(recorded.secrets(), places) == []


def test_a_secret_that_does_get_out_is_found_wherever_it_is(
    recorded: Recorded, tmp_path: Path
) -> None:
    """Control: the first and last secrets of each sort, planted in every type and in a log."""
    client, secrets = recorded.client, recorded.secrets()
    noted = next(n for n in notes(recorded.folder / "noted") if n.get("truth"))
    kept = next(n["kept"] for n in notes(recorded.folder / "noted") if n.get("kept"))
    values = [LABEL, str(N_MEN), str(noted["noise_index"]), repr(noted["noise"]), str(kept)]
    log = recorded.folder / "logs" / "planted.log"
    for value in values:
        client.set("planted:string", value)
        client.hset("planted:hash", "field", value)
        client.rpush("planted:list", value)
        client.sadd("planted:set", value)
        client.zadd("planted:zset", {value: 1})
        client.xadd("planted:stream", {"field": value})
        log.write_text(value)
        try:
            places = recorded.places()
            found = {text.rsplit(" in ", 1)[1] for text in exposures(secrets, places)}
            kinds = ("string", "hash", "list", "set", "zset", "stream")
            assert {f"key planted:{kind}" for kind in kinds} <= found
            assert "file planted.log" in found
            assert any(place.endswith(".incr.aof") for place in found)
            if value == LABEL:
                assert exposures(secrets, recorded.backup())
        finally:
            log.unlink()
            client.delete(*client.keys("planted:*"))
