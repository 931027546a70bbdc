"""Statements about a dataset from one connection: who answers, and when."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from qserver.postgres.results import Asked, Plan, Result
from qserver.postgres.session import Session
from qserver.postgres.statements.dataset_answers import Answerer, Call, Told
from qserver.postgres.statements.interval_ends import with_ends
from qserver.postgres.statements.turns import Turns, Use
from qserver.postgres.statements.value_types import types_of
from qserver.postgres.wire.faults import TOO_LATE, PostgresError, fault_of
from qserver.postgres.wire.messages import GoneError
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import BY_NAME, Column, Type
from qserver.program import telemetry
from qserver.query.sql.tables.catalogue_relations import columns_of_domain
from qserver.records.answer import JobStatus
from qserver.service.cache.last_used import LastUsed
from qserver.service.cache.statements import MOST_KEPT
from qserver.service.service import Service
from qserver.service.statements import Statements

_MOST_WAIT_S: Final = 300.0
_MOST_SHOWN: Final = 1 << 18
"""Bytes of rows that are kept beside their answer."""
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.05
_PAUSE_GROWTH: Final = 1.2


class Shown(LastUsed[tuple[object, ...], Any]):
    """Results and columns of statements, by everything that they depend on."""

    def __init__(self) -> None:
        super().__init__(2 * MOST_KEPT)


@dataclass(frozen=True)
class Asker:
    """Asks statements for one connection.

    Args:
        account: who asks and pays; '' where there are no accounts.
        use: what the connection has of the turns.
        turns: of all connections; where it has no processes, answers are found here.
        shown: what was told for nothing, for all connections.
    """

    service: Service
    session: Session
    account: str
    use: Use = field(default_factory=Use)
    turns: Turns = field(default_factory=Turns)
    shown: Shown = field(default_factory=Shown)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def plan(self, dataset: str, text: Text) -> Plan:
        """The plan of a statement about a dataset."""
        if self.session.names_ends:
            domain = self.service.domain(dataset)
            found = with_ends(text, domain, lambda of: self._plan(dataset, of))
            if found is not None:
                return found
        return self._plan(dataset, text)

    def _plan(self, dataset: str, text: Text) -> Plan:
        return Plan(
            lambda: self._columns(Call(dataset, text, self.session, self.account)),
            lambda asked: self._run(dataset, text, asked),
            types=lambda: types_of(text, self._types(dataset)),
        )

    def _types(self, dataset: str) -> dict[str, Type]:
        """The types that a statement about a dataset can compare."""
        columns = columns_of_domain(self.service.domain(dataset))
        return {name.lower(): BY_NAME[kind] for name, kind in columns}

    def _columns(self, call: Call) -> tuple[Column, ...]:
        """The columns by the text alone; nothing is asked."""
        key = self._key("columns", call)
        known = self.shown.find(key)
        if known is None:
            known = self._asked("columns", call)
            self.shown.keep(key, known)
        return tuple(known)

    def _run(self, dataset: str, text: Text, asked: Asked) -> Result:
        """The rows, after a wait; their charge counts for the connection."""
        # Under a key the last answer has the charges of the earlier steps.
        name = f"postgres {uuid.uuid4().hex}" if self.session.spends else ""
        call = Call(dataset, text, self.session, self.account, asked, name)
        key = self._key("rows", call)
        with spanned(dataset, slot_ms=self.service.slot_ms) as trace:
            if isinstance(known := self.shown.find(key), Result):
                return known
            told = self._charged(replace(call, trace=trace))
        if told.same_while is not None and sum(map(len, told.result.rows)) <= _MOST_SHOWN:
            self.shown.keep((*key[:-1], told.same_while), told.result)
        return told.result

    def _charged(self, call: Call) -> Told:
        """The result, its charge added to the connection's."""
        told = None
        try:
            told = self._awaited(call)
        finally:
            if told is not None:
                self.session.spent_nano += told.charged_nano
            elif call.idempotency is not None:
                statements = Statements(self.service)
                charged = statements.charged_nano(call.dataset, call.idempotency)
                self.session.spent_nano += charged
        return told

    def _key(self, what: str, call: Call) -> tuple[object, ...]:
        """The facts that a result depends on, the dataset's state last; PostgresError."""
        try:
            state = self.service.state(call.dataset)
        except Exception as exc:
            raise fault_of(exc) from exc
        asked = tuple(call.asked.literals), tuple(call.asked.formats)
        own = call.session.own()
        return what, call.dataset, call.text.text, *asked, call.account, own, state

    def _awaited(self, call: Call) -> Told:
        """The answer; a job's statement is asked again when the job ends."""
        deadline, goes_on = self.clock() + _MOST_WAIT_S, False
        while self.clock() < deadline:
            found = self._asked("run", call, goes_on=goes_on)
            goes_on = True
            if isinstance(found, Told):
                return found
            with self.turns.paused():
                self._wait(found, deadline)
        # A running measurement may be charged later, so it counts as charged.
        self.session.spent_nano += self.session.left_nano or 0
        raise PostgresError(
            TOO_LATE, "The answer is still being measured.", hint="Send the statement again later."
        )

    def _asked(self, method: str, call: Call, *, goes_on: bool = False) -> Any:
        with self.turns.of(self.use, call.text.text, method, goes_on=goes_on) as process:
            if process is None:
                return getattr(Answerer(self.service), method)(call)
            if method == "run":
                # A history is as long as it is: no statement is refused for reading it.
                begun = process.used_s
                process.ask("read", call.dataset, most_s=math.inf)
                self.use.read_s = process.used_s - begun
            return process.ask(method, call)

    def _wait(self, job: JobStatus, deadline: float) -> None:
        """Return when a job ends or the time is over; GoneError."""
        pause = _FIRST_PAUSE_S
        while self.service.job(job.id).state not in ("done", "failed"):
            if self.use.is_gone():
                raise GoneError
            if self.clock() >= deadline:
                return
            self.sleep(pause)
            pause = min(pause * _PAUSE_GROWTH, _LONGEST_PAUSE_S)


_DONE = "00000"
_GONE = "gone"


@contextmanager
def spanned(dataset: str, *, slot_ms: int) -> Iterator[str]:
    """A span around the block, by its traceparent; '' where traces are off.

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
