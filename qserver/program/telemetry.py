"""Traces by OpenTelemetry: off unless its own environment variables turn them on.

A span has public facts alone: a route, a status, a dataset, how a job ended. Its times are rounded
outward to whole publication slots, so that no clock here is finer than that of the metrics. Only
the SDK's exporter over HTTP is used; it has a queue and a thread of its own, and drops what the
collector does not take. Nothing of the SDK is imported where traces are off.

What may be asked of the worker's spans is in docs/guarantee.md, 10.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

_ON = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PACKAGE = "opentelemetry.exporter.otlp.proto.http"
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-0[01]\Z")
_LEAST_SLOT_NS = 5_000_000
_NS_PER_MS = 1_000_000

_present: ContextVar[str] = ContextVar("traceparent", default="")
_tracer: Any = None


def start(environ: MutableMapping[str, str], *, name: str) -> str:
    """Turn traces on where the variables ask for them.

    Args:
        environ: the process's own environment; the SDK reads the rest of it by itself.
        name: of the service, where no variable names one.

    Returns:
        Why they stay off although a variable asks for them, as a line for people; '' otherwise.
    """
    global _tracer
    exporter = environ.get("OTEL_TRACES_EXPORTER", "otlp")
    is_off = exporter == "none" or environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_off or not any(map(environ.get, _ON)):
        return ""
    protocol = next(filter(None, map(environ.get, _PROTOCOLS)), "http/protobuf")
    if exporter != "otlp" or protocol != "http/protobuf":
        return (
            "No traces: OTEL_TRACES_EXPORTER must be otlp or none, and OTEL_EXPORTER_OTLP_PROTOCOL "
            "http/protobuf."
        )
    if not _is_installed():
        return "No traces, which OTEL_ variables ask for: pip install 'qserver[otel]'"
    if "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        environ.setdefault("OTEL_SERVICE_NAME", name)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer("qserver")
    return ""


def is_on() -> bool:
    """Whether spans are made in this process."""
    return _tracer is not None


def traceparent_of(text: str) -> str:
    """The text if it is a traceparent of W3C, which names a trace and a span; else ''."""
    found = _TRACEPARENT.match(text)
    return text if found and int(found[1], 16) and int(found[2], 16) else ""


def trace_id_of(traceparent: str) -> str:
    """The trace's id, 32 hexadecimal digits; '' of ''."""
    return traceparent[3:35]


def present() -> str:
    """The traceparent of the span under way in this context; '' for none."""
    return _present.get()


@contextmanager
def under(traceparent: str) -> Iterator[None]:
    """Put everything inside the block under this span."""
    token = _present.set(traceparent)
    try:
        yield
    finally:
        _present.reset(token)


def slots_around(begun_ns: int, ended_ns: int, *, slot_ms: int) -> tuple[int, int]:
    """The span's times in nanoseconds: the slots since 1970 that hold both moments, one at least.

    Args:
        begun_ns, ended_ns: Unix times, in nanoseconds.
        slot_ms: the publication slot; one shorter than 5 ms counts as 5 ms.
    """
    slot = max(_LEAST_SLOT_NS, slot_ms * _NS_PER_MS)
    first = begun_ns // slot * slot
    return first, max(first + slot, -(-ended_ns // slot) * slot)


class Span:
    """A span that was begun; made by `begin`."""

    def __init__(self, span: Any, begun_ns: int, slot_ms: int) -> None:
        self._span = span
        self._begun_ns = begun_ns
        self._slot_ms = slot_ms

    @property
    def traceparent(self) -> str:
        """Names this span as the parent of others."""
        found = self._span.get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags) & 1:02x}"

    def end(self, facts: Mapping[str, str | int], *, name: str = "", ended_ns: int = 0) -> None:
        """Hand the span to the exporter's queue, which takes no time and never fails.

        Args:
            facts: public attributes.
            name: another name than at the beginning.
            ended_ns: Unix time; now by default.
        """
        ended_ns = ended_ns or time.time_ns()
        if name:
            self._span.update_name(name)
        self._span.set_attributes(facts)
        self._span.end(slots_around(self._begun_ns, ended_ns, slot_ms=self._slot_ms)[1])


def begin(name: str, *, parent: str, kind: str, slot_ms: int, begun_ns: int = 0) -> Span | None:
    """A new span; None where traces are off.

    Args:
        parent: traceparent of the span that it belongs to; '' for none.
        kind: SERVER or CONSUMER.
        begun_ns: Unix time; now by default.
    """
    if _tracer is None:
        return None
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = Context()
    if parent:
        carrier = {"traceparent": parent}
        context = TraceContextTextMapPropagator().extract(carrier, context)
    begun_ns = begun_ns or time.time_ns()
    first, _ = slots_around(begun_ns, begun_ns, slot_ms=slot_ms)
    span = _tracer.start_span(name, context, kind=SpanKind[kind], start_time=first)
    return Span(span, begun_ns, slot_ms)


def _is_installed() -> bool:
    try:
        return find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:  # a package above it
        return False
