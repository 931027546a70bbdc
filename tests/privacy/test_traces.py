"""Traces of real processes: one over both sides, nothing private in any byte, no need of them."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from qserver.cli.processes import (
    Child,
    ChildSpec,
    child_environment,
    http_spec,
    listen,
    postgres_spec,
    python_command,
)
from qserver.records.account import Token
from tests.collector import Collector, collecting
from tests.deployment import Deployment
from tests.privacy.scan import count_secret, text_secret

pytest.importorskip("opentelemetry.sdk", reason="NOT RUN: pip install '.[otel]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "Privacy",
        "no true count, literal, key or client's text is in what a trace sends, and without its "
        "collector everything is answered",
    ),
]

ROOT = Path(__file__).parents[2]
LITERAL = "PLANTED-LITERAL"
N_WOMEN, N_MEN = 4729, 6007
ROWS = [(20, "Female")] * N_WOMEN + [(21, "Male")] * N_MEN
TOKEN = Token("ab" * 8, secrets.token_urlsafe(32)).text
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Site:
    """HTTP, PostgreSQL's port and the worker, each a process, with these variables."""

    def __init__(self, stack: ExitStack, folder: Path, url: str, more: Mapping[str, str]) -> None:
        town = Deployment.make(folder, url, rows=ROWS)
        self.settings = replace(town.settings, wait_s=30, slot_ms=20, http_workers=1)
        listener = stack.enter_context(listen("127.0.0.1", 0))
        environ = {**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "50", **more}
        worker = ChildSpec(
            name="worker",
            command=python_command("-m", "worker", "run"),
            environment={
                **child_environment(self.settings, environ),
                "PYTHONPATH": os.pathsep.join([str(ROOT), environ.get("PYTHONPATH", "")]),
            },
            log=folder / "worker-said.log",
        )
        self.said = folder / "worker-said.log"
        web = http_spec(self.settings, listener=listener, log=folder / "web.log", environ=environ)
        other = stack.enter_context(listen("127.0.0.1", 0))
        port = postgres_spec(self.settings, listener=other, log=folder / "sql.log", environ=environ)
        for spec in (worker, web, port):
            stack.callback(Child(spec).stop)
        self._port = listener.getsockname()[1]
        self._postgres = other.getsockname()[1]

    def post(self, path: str, document: object, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}", **headers}
        connection.request("POST", f"/v1/datasets/people/{path}", json.dumps(document), sent)
        response = connection.getresponse()
        found = response.status, json.loads(response.read())
        connection.close()
        return found

    def select(self, *statements: str) -> list[str]:
        """The state of each statement's answer, over PostgreSQL's port."""
        place = f"host=127.0.0.1 port={self._postgres} user=ada dbname=q password={TOKEN}"
        options = f"-c qserver.spend=on -c application_name={LITERAL}"
        found = []
        with psycopg.connect(place, options=options, sslmode="disable", autocommit=True) as opened:
            for statement in statements:
                try:
                    opened.execute(statement.encode())
                    found.append("00000")
                except psycopg.Error as exc:
                    found.append(exc.sqlstate or "")
        return found


@contextmanager
def site(folder: Path, url: str, **more: str) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(stack, folder, url, more)


QUESTION = {"query": {"where": {"sex": "Female"}}, "length": 300, "confidence": 0.95}
STATEMENT = {"sql": f"SELECT COUNT(*) AS \"{LITERAL}\" FROM people WHERE sex = 'Male' WITHIN 300"}


def attributes(span: Any) -> dict[str, Any]:
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


def test_one_trace_goes_through_both_processes_and_tells_nothing(
    tmp_path: Path, store_url: str
) -> None:
    with (
        collecting() as collector,
        site(tmp_path, store_url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as here,
    ):
        sent = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": f"x={LITERAL}"}
        sent["baggage"] = f"y={LITERAL}"
        status, answer = here.post("query", QUESTION, **sent)
        assert (status, answer["source"]) == (200, "measured")
        assert here.post("sql", STATEMENT, traceparent=f"{LITERAL}-01")[0] == 200
        assert here.post(f"{LITERAL}?q={LITERAL}", QUESTION)[0] == 404
        web = collector.wait_for("qserver-http", 3)
        jobs = collector.wait_for("qserver-worker", 2)
        _is_one_trace(web, jobs)
        _tells_nothing(collector, answer, here)


def _is_one_trace(web: list[Any], jobs: list[Any]) -> None:
    first = next(s for s in web if s.trace_id.hex() == TRACE)
    assert first.parent_span_id.hex() == PARENT
    assert attributes(first) == {
        "http.request.method": "POST",
        "http.route": "/v1/datasets/<dataset>/query",
        "http.response.status_code": 200,
    }
    (job,) = (s for s in jobs if s.trace_id.hex() == TRACE)
    assert job.parent_span_id == first.span_id
    assert job.end_time_unix_nano <= first.end_time_unix_nano + 20_000_000
    assert attributes(job) == {"qserver.dataset": "people", "qserver.outcome": "done"}
    # What is no traceparent begins a trace of its own.
    other = next(s for s in web if attributes(s)["http.route"] == "/v1/datasets/<dataset>/sql")
    assert not other.parent_span_id
    assert {s.trace_id for s in jobs} == {first.trace_id, other.trace_id}
    for span in (*web, *jobs):
        assert span.start_time_unix_nano % 20_000_000 == span.end_time_unix_nano % 20_000_000 == 0
        assert not span.events
        assert not span.trace_state


def _tells_nothing(collector: Collector, answer: Any, here: Site) -> None:
    everything = b"\n".join([*(h.encode() for h in collector.heads), *collector.bodies])
    texts = [LITERAL, "Female", "Male", "sex", "WITHIN", TOKEN, here.settings.redis_url]
    texts += [repr(answer["estimate"]), socket.gethostname()]
    wanted = [text_secret(text, text) for text in texts]
    wanted += [count_secret(str(n), n) for n in (N_WOMEN, N_MEN, N_WOMEN + N_MEN)]
    assert [one.name for one in wanted if one.looks.search(everything)] == []
    # Counts could be numbers of the protocol as well.
    values = {v for _, s in collector.spans() for v in attributes(s).values()}
    assert not values & {N_WOMEN, N_MEN, N_WOMEN + N_MEN}
    assert text_secret("dataset", "people").looks.search(everything)  # it would be found


STATEMENTS = {
    f'SELECT sex, COUNT(*) AS "{LITERAL}" FROM people GROUP BY sex WITHIN 300': "00000",
    f"SELECT COUNT(*) FROM people WHERE sex = '{LITERAL}' WITHIN 300": "42601",
}


def test_a_statement_of_postgresqls_port_begins_a_trace_and_tells_nothing(
    tmp_path: Path, store_url: str
) -> None:
    with (
        collecting() as collector,
        site(tmp_path, store_url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as here,
    ):
        assert here.select(*STATEMENTS) == list(STATEMENTS.values())
        # What is about no dataset that there is has no span: a made-up name may be anything.
        assert here.select(f'SELECT COUNT(*) FROM "{LITERAL}"', "SHOW server_version")[1] == "00000"
        status, answer = here.post("query", QUESTION)
        assert status == 200
        collector.wait_for("qserver-http", 1)
        spans = collector.wait_for("qserver-postgres", len(STATEMENTS))
        jobs = collector.wait_for("qserver-worker", 1)
        _tells_nothing(collector, answer, here)
    assert [span.name for span in spans] == ["SQL"] * len(STATEMENTS)
    assert [attributes(span) for span in spans] == [
        {"qserver.dataset": "people", "db.response.status_code": state}
        for state in STATEMENTS.values()
    ]
    assert jobs[0].trace_id == spans[0].trace_id
    assert jobs[0].parent_span_id == spans[0].span_id
    for span in spans:
        assert not span.parent_span_id
        assert not span.events
        assert span.start_time_unix_nano % 20_000_000 == span.end_time_unix_nano % 20_000_000 == 0


def test_without_a_collector_everything_is_answered(tmp_path: Path, store_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with site(tmp_path, store_url, OTEL_EXPORTER_OTLP_ENDPOINT=url) as here:
        for sex, length in (("Female", 300), ("Male", 300), ("Female", 200)):
            question = {**QUESTION, "query": {"where": {"sex": sex}}, "length": length}
            assert here.post("query", question)[0] == 200
    assert "worker stopped" in here.said.read_text()
