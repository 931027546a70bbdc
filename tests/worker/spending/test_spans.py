"""The worker's spans: whole slots, public facts, and no harm to a job."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qserver.program import telemetry
from qserver.program.start import formatter_of
from qserver.records.answer import JobStatus
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import TakenJob
from tests.deployment import LOG, Deployment
from worker.spending.spans import JobSpans
from worker.spending.spend import Spender

pytest.importorskip("opentelemetry.sdk", reason="NOT RUN: pip install '.[otel]'")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

pytestmark = [
    pytest.mark.promise(
        "Time",
        "spans begin and end with slots, whatever the data",
    ),
]

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SLOT_NS = 20_000_000
OTHERS = ["", "x", PARENT + "\n", PARENT.upper(), f"00-{'0' * 32}-{'1' * 16}-01", "01" + PARENT[2:]]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    provider, found = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("test"))
    yield found
    provider.shutdown()


class Ticking:
    """A wall clock of public steps: each look at it is 7.3 ms later."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0012

    def __call__(self) -> float:
        self.now += 0.0073
        return self.now


def traced_job(folder: Path, url: str, rows: list[tuple[int, str]]) -> Deployment:
    town = Deployment.make(folder, url, rows=rows)
    with telemetry.under(PARENT):
        assert isinstance(town.submit({"sex": "Female"}), JobStatus)
    return town


def work_off(town: Deployment, clock: Callable[[], float]) -> None:
    settings = town.settings.__class__(**{**vars(town.settings), "slot_ms": 20})
    spender = Spender(
        reader=town.service()._store,
        writer=town.writer(),
        trusted=town.trusted(),
        settings=settings,
        log=LOG,
        wall_clock=clock,
    )
    assert town.work_off(spender) == 1


def test_times_are_those_of_slots_and_the_same_for_very_different_data(
    tmp_path: Path, store_url: str, redis_client: StoreClient, exported: InMemorySpanExporter
) -> None:
    few, many = [(20, "Male")], [(20 + i % 10, "Female") for i in range(20_000)]
    for folder, rows in ((tmp_path / "few", few), (tmp_path / "many", many)):
        redis_client.flushall()
        folder.mkdir()
        work_off(traced_job(folder, store_url, rows), Ticking())
    one, other = exported.get_finished_spans()
    assert (one.start_time, one.end_time) == (other.start_time, other.end_time)
    assert one.start_time % SLOT_NS == one.end_time % SLOT_NS == 0
    assert one.end_time > one.start_time
    assert dict(one.attributes) == dict(other.attributes)
    assert dict(one.attributes) == {"qserver.dataset": "people", "qserver.outcome": "done"}
    assert telemetry.trace_id_of(PARENT) == f"{one.context.trace_id:032x}"
    assert f"{one.parent.span_id:016x}" == PARENT[36:52]


@pytest.mark.parametrize(("begun", "ended"), [(0, 0), (1, 2), (SLOT_NS - 1, SLOT_NS + 1)])
def test_a_span_holds_both_moments_in_whole_slots(begun: int, ended: int) -> None:
    first, last = telemetry.slots_around(begun, ended, slot_ms=20)
    assert first <= begun <= ended <= last
    assert first % SLOT_NS == last % SLOT_NS == 0
    assert last - first == SLOT_NS * (2 if ended > SLOT_NS else 1)


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    """Whatever a hostile web process writes into a job."""
    assert telemetry.traceparent_of(text) == ""
    assert TakenJob({"trace": text}, None).trace == ""


def test_a_job_with_another_text_in_its_place_is_answered_and_not_traced(
    tmp_path: Path, store_url: str, redis_client: StoreClient, exported: InMemorySpanExporter
) -> None:
    town = traced_job(tmp_path, store_url, [(20, "Male")])
    [key] = redis_client.keys(Keys("town").job("") + "*")
    assert redis_client.hget(key, "trace") == PARENT
    redis_client.hset(key, "trace", "x" * 10_000)
    work_off(town, Ticking())
    assert redis_client.hget(key, "state") == "done"
    assert exported.get_finished_spans() == ()


def test_a_span_that_fails_harms_no_job(
    tmp_path: Path,
    store_url: str,
    redis_client: StoreClient,
    exported: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> Any:
        raise RuntimeError("no span")

    town = traced_job(tmp_path, store_url, [(20, "Male")])
    monkeypatch.setattr(telemetry, "begin", fails)
    work_off(town, Ticking())
    [key] = redis_client.keys(Keys("town").job("") + "*")
    assert redis_client.hget(key, "state") == "done"


def test_nothing_is_written_and_no_clock_read_where_traces_are_off(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    assert isinstance(Deployment.make(tmp_path, store_url).submit({"age": 20}), JobStatus)
    [key] = redis_client.keys(Keys("town").job("") + "*")
    assert redis_client.hget(key, "trace") is None
    spans = JobSpans(slot_ms=5, clock=lambda: 1 / 0, log=LOG)
    assert spans.now_ns() == 0
    spans.tell([], begun_ns=0)


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, ""),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, ""),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "console"}, "must be otlp or none"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
    ],
)
def test_off_unless_the_variables_turn_it_on(environ: dict[str, str], said: str) -> None:
    found = telemetry.start(dict(environ), name="x")
    assert said in found
    assert bool(found) == bool(said)
    assert not telemetry.is_on()


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_PACKAGE", "opentelemetry_that_is_not.there")
    assert "pip install 'qserver[otel]'" in telemetry.start(dict(ENDPOINT), name="x")
    assert not telemetry.is_on()


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_of_the_log_names_the_trace(form: str) -> None:
    record = logging.getLogger("x").makeRecord("x", 40, "f", 1, "it failed", (), None)
    record.trace_id = telemetry.trace_id_of(PARENT)
    line = formatter_of(form).format(record)
    assert PARENT[3:35] in (json.loads(line)["trace_id"] if form == "json" else line)
    record.trace_id = ""
    assert "trace" not in formatter_of(form).format(record)
