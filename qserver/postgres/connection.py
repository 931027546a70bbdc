"""One connection: reads its messages in turn, and answers each."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qserver.api.access import Access
from qserver.postgres.asking import Asker
from qserver.postgres.extended import Extended
from qserver.postgres.results import Plan, Result
from qserver.postgres.routing import Router
from qserver.postgres.startup import Admitted, admit, greet
from qserver.postgres.wire import messages
from qserver.postgres.wire.faults import (
    TOO_LARGE,
    TRANSACTION_FAILED,
    PostgresError,
    fault_of,
    violation,
)
from qserver.postgres.wire.messages import Fields
from qserver.postgres.wire.stream import GoneError, Stream
from qserver.postgres.wire.texts import statements
from qserver.postgres.wire.values import Literal, encoders
from qserver.query.sql.plain import MAX_CHARACTERS
from qserver.service.service import Service

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class House:
    """What all connections share.

    Args:
        wait_s: how long the service waits at once, in seconds.
        tls: offered where it is there.
    """

    service: Service
    access: Access
    wait_s: float
    tls: ssl.SSLContext | None = None


def converse(house: House, stream: Stream, address: str) -> None:
    """Speak with one client until it goes; closes the stream and raises nothing."""
    try:
        try:
            admitted = admit(stream, house.access, address=address, tls=house.tls)
            greet(stream, admitted.session)
            _Connection(stream, house, admitted).run()
        except PostgresError as exc:
            stream.send(messages.error(exc))
            stream.flush()
    except GoneError:
        pass
    except Exception as exc:  # noqa: BLE001 - one connection shall not end the others
        # Its text may hold what was asked, which no log shall.
        _LOG.error("A connection failed: %s", type(exc).__name__)
    finally:
        stream.close()


class _Connection:
    """A client that was let in."""

    def __init__(self, stream: Stream, house: House, admitted: Admitted) -> None:
        self._stream, self._house, self._admitted = stream, house, admitted
        self._session = admitted.session
        self._router = Router(Asker(house.service, self._session, admitted.account, house.wait_s))
        self._extended = Extended(stream, self._router, self._run)
        self._answers: Mapping[bytes, Callable[[Fields], None]] = {
            b"P": self._extended.parse,
            b"B": self._extended.bind,
            b"D": self._extended.describe,
            b"E": self._extended.execute,
            b"C": self._extended.close,
        }

    def run(self) -> None:
        """Answer messages until the client ends; PostgresError, GoneError."""
        try:
            self._converse()
        finally:
            self._router.close()

    def _converse(self) -> None:
        skips = False
        while True:
            letter, body = self._stream.message()
            if letter == b"X":
                return
            if letter == b"S":
                skips = False
                self._ready()
            elif letter == b"H":
                self._stream.flush()
            elif skips:
                continue
            elif letter == b"Q":
                self._attempt(self._query, body)
                self._ready()
            elif (answer := self._answers.get(letter)) is not None:
                skips = not self._attempt(answer, body)
            elif letter not in (b"d", b"c", b"f"):  # of a COPY that was refused
                raise violation("A message of a kind that is not known.")

    def _ready(self) -> None:
        if self._session.status == "I":
            self._extended.end_portals()
        self._stream.send(messages.ready(self._session.status))
        self._stream.flush()

    def _attempt(self, act: Callable[[Fields], None], body: bytes) -> bool:
        """Do what a message asks for; False where it fails, of which the client is told."""
        try:
            self._house.access.admit(self._admitted.credentials)
            act(Fields(body))
        except GoneError:
            raise
        except Exception as exc:
            fault = fault_of(exc)
            if fault.state == "XX000":
                _LOG.error("A statement failed: %s", type(exc).__name__)
            if fault.ends:
                raise fault from exc
            self._session.fail()
            self._stream.send(messages.error(fault))
            return False
        return True

    def _query(self, fields: Fields) -> None:
        """A text of any number of statements, each answered in text."""
        text = fields.text()
        fields.end()
        if len(text) > MAX_CHARACTERS:
            raise PostgresError(TOO_LARGE, f"A text has at most {MAX_CHARACTERS:,} characters.")
        found = statements(text)
        if not found:
            self._stream.send(messages.EMPTY_QUERY)
        for one in found:
            result = self._run(self._router.plan(one), ())
            columns = result.columns
            if columns is not None:
                self._stream.send(messages.row_description(columns, [0] * len(columns)))
                encode = encoders(columns, [0] * len(columns))
                for row in result.rows:
                    values = [make(v) for make, v in zip(encode, row, strict=True)]
                    self._stream.send(messages.data_row(values))
            self._stream.send(messages.complete(tag_of(result, len(result.rows))))

    def _run(self, plan: Plan, literals: tuple[Literal, ...]) -> Result:
        """Do what a plan does, and tell what it says beside its result."""
        if self._session.status == "E" and not plan.survives:
            raise PostgresError(
                TRANSACTION_FAILED, "The transaction failed before: ROLLBACK ends it."
            )
        result = plan.run(literals)
        if result.forgets is not None:
            self._extended.forget(result.forgets)
        for line in result.notices:
            self._stream.send(messages.notice(line))
        for line in result.warnings:
            self._stream.send(messages.notice(line, severity="WARNING"))
        for name, value in result.parameters.items():
            self._stream.send(messages.parameter(name, value))
        return result


def tag_of(result: Result, n_rows: int) -> str:
    """What a client prints when a statement is done."""
    return f"{result.tag} {n_rows}" if result.tag == "SELECT" else result.tag
