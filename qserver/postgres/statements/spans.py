"""The span over a statement, where traces are on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from qserver import telemetry
from qserver.postgres.wire.faults import PostgresError

_DONE = "00000"
_GONE = "gone"


@contextmanager
def spanned(dataset: str, *, slot_ms: int) -> Iterator[str]:
    """A span over what is done within, by its traceparent; '' where traces are off.

    It says the dataset and the state that the client is told (SQLSTATE), and nothing of the text.
    PostgreSQL's clients have no `traceparent`, so each statement begins a trace.

    Args:
        dataset: that there is; a name that a client made up may be anything.
        slot_ms: the publication slot, in milliseconds.
    """
    span = telemetry.begin("SQL", parent="", kind="SERVER", slot_ms=slot_ms)
    if span is None:
        yield ""
        return
    state = _GONE
    try:
        with telemetry.under(span.traceparent):
            yield span.traceparent
        state = _DONE
    except PostgresError as exc:
        state = exc.state
        raise
    finally:
        span.end({"qserver.dataset": dataset, "db.response.status_code": state})
