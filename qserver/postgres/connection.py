"""One connection: reads its messages in turn, and answers each."""

from __future__ import annotations

import itertools
import logging
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qserver.api.access import Access, Credentials
from qserver.errors import AccessError, QServerError
from qserver.postgres.prepared_statements import Extended, send_rows, tag_of
from qserver.postgres.results import Asked, Plan, Result
from qserver.postgres.routing import Router
from qserver.postgres.session import Session
from qserver.postgres.statements.asker import Asker, Shown
from qserver.postgres.statements.turns import Turns, Use
from qserver.postgres.wire import messages
from qserver.postgres.wire.faults import (
    TOO_LARGE,
    TRANSACTION_FAILED,
    WRONG_PASSWORD,
    PostgresError,
    fault_of,
    violation,
)
from qserver.postgres.wire.messages import Fields, GoneError, Stream
from qserver.postgres.wire.texts import statements
from qserver.query.sql.text import MAX_CHARACTERS
from qserver.records.account import Caller
from qserver.service.service import Service

STARTUP_S = 20.0
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_MOST_OPTIONS = 200


@dataclass(frozen=True)
class Admitted:
    """An admitted client with its credentials: each statement checks the token again."""

    session: Session
    credentials: Credentials
    account: str


def admit(stream: Stream, access: Access, *, address: str, tls: ssl.SSLContext | None) -> Admitted:
    """Let a client in, or raise.

    Args:
        address: where it comes from.
        tls: offered where it is there.

    Raises:
        PostgresError: it may not come in.
        GoneError: it went, was too slow, or wanted to cancel, which does nothing.
    """
    deadline = time.monotonic() + STARTUP_S
    options = _options(_start_packet(stream, tls, deadline))
    user = options.get("user", "")
    if not user:
        raise PostgresError("28000", "The startup must name a user.", ends=True)
    credentials, caller = _caller(stream, access, address, deadline)
    session = Session(caller.account or user[:63], options.get("database", user)[:63])
    _put_all(session, options)
    session.begun()
    return Admitted(session, credentials, caller.account)


_PROCESSES = itertools.count(1)


def greet(stream: Stream, session: Session, process: int) -> None:
    """Tell a client that it is in, with its settings and its number."""
    stream.send(messages.AUTHENTICATED)
    stream.send(*(messages.parameter(*pair) for pair in session.reported().items()))
    stream.send(messages.key_data(process), messages.ready("I"))
    stream.flush()


def _start_packet(stream: Stream, tls: ssl.SSLContext | None, deadline: float) -> Fields:
    for _ in range(4):
        fields = Fields(stream.first_packet(deadline=deadline))
        code = fields.number(4)
        if code == _SSL and not stream.is_secure:
            stream.send(b"N" if tls is None else b"S")
            stream.flush()
            if tls is not None:
                stream.secure(tls)
        elif code == _GSS:
            stream.send(b"N")
            stream.flush()
        elif code == _CANCEL:
            raise GoneError
        elif code >> 16 == 3:
            if code & 0xFFFF:
                stream.send(messages.message(b"v", struct.pack("!ii", 0, 0)))
            return fields
        else:
            raise violation("This server speaks version 3 of the protocol only.")
    raise violation("The startup does not come.")


def _options(fields: Fields) -> dict[str, str]:
    found = dict[str, str]()
    while name := fields.text():
        found[name] = fields.text()
        if len(found) > _MOST_OPTIONS:
            raise violation("The startup has too many options.")
    fields.end()
    return found


def _caller(
    stream: Stream, access: Access, address: str, deadline: float
) -> tuple[Credentials, Caller]:
    if access.is_open:
        credentials = Credentials("", address)
    else:
        stream.send(messages.ASK_PASSWORD)
        stream.flush()
        letter, body = stream.message(deadline=deadline)
        if letter != b"p":
            raise violation("A password must come now.")
        token = Fields(body).text()
        credentials = Credentials(f"Bearer {token}", address)
    try:
        return credentials, access.admit(credentials)
    except AccessError as exc:
        fault = fault_of(exc)
        wrong = fault.state == "28000"
        raise PostgresError(
            WRONG_PASSWORD if wrong else fault.state,
            "The password is not the token of an account." if wrong else fault.message,
            ends=True,
        ) from exc
    except QServerError as exc:
        fault = fault_of(exc)
        raise PostgresError(fault.state, fault.message, ends=True) from exc


def _put_all(session: Session, options: dict[str, str]) -> None:
    """The startup's settings, by name and as `-c name=value` in `options`."""
    own = {k: v for k, v in options.items() if k not in ("user", "database", "options")}
    words = options.get("options", "").replace("\\ ", "\0").split()
    pairs = [w.removeprefix("--").removeprefix("-c") for w in words if w not in ("-c", "--")]
    own |= dict(p.replace("\0", " ").split("=", 1) for p in pairs if "=" in p)
    for name, value in own.items():
        if name.startswith("_pq_."):
            continue
        try:
            session.put(name, value)
        except PostgresError as exc:
            raise PostgresError(exc.state, exc.message, hint=exc.hint, ends=True) from exc


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class House:
    """What all connections share.

    Args:
        tls: offered where it is there.
        turns: of what connections compute.
        shown: rows of answers that are kept.
    """

    service: Service
    access: Access
    tls: ssl.SSLContext | None = None
    turns: Turns = field(default_factory=Turns)
    shown: Shown = field(default_factory=Shown)


def converse(house: House, stream: Stream, address: str) -> None:
    """Speak with one client until it goes; closes the stream and raises nothing."""
    try:
        try:
            admitted = admit(stream, house.access, address=address, tls=house.tls)
            process = next(_PROCESSES)
            greet(stream, admitted.session, process)
            _Connection(stream, house, admitted, process).run()
        except PostgresError as exc:
            stream.send(messages.error(exc))
            stream.flush()
    except GoneError:
        pass
    except Exception as exc:  # noqa: BLE001 - one connection shall not end the others
        # The error's text may contain the question, which no log may have.
        _LOG.error("A connection failed: %s", type(exc).__name__)
    finally:
        stream.close()


class _Connection:
    """An admitted client."""

    def __init__(self, stream: Stream, house: House, admitted: Admitted, process: int) -> None:
        self._stream, self._house, self._admitted = stream, house, admitted
        self._session = admitted.session
        self._use = Use(stream.is_gone)
        stream.while_sending = house.turns.paused
        asker = Asker(
            house.service,
            self._session,
            admitted.account,
            self._use,
            house.turns,
            house.shown,
        )
        self._router = Router(asker, stream, process)
        self._extended = Extended(stream, self._router.held, self._run)
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
            elif letter not in (b"d", b"c", b"f"):  # of a refused COPY
                raise violation("A message has an unknown kind.")

    def _ready(self) -> None:
        if self._session.status == "I":
            self._router.held.end_portals()
        self._stream.send(messages.ready(self._session.status))
        self._stream.flush()

    def _attempt(self, act: Callable[[Fields], None], body: bytes) -> bool:
        """Do what a message asks; False if it fails, which the client is told."""
        try:
            self._house.access.admit(self._admitted.credentials)
            with self._house.turns.reading(self._use, len(body)):
                act(Fields(body))
        except GoneError:
            raise
        except Exception as exc:
            fault = fault_of(exc)
            if fault.ends:
                raise fault from exc
            self._session.fail()
            self._stream.send(messages.error(fault))
            return False
        return True

    def _query(self, fields: Fields) -> None:
        """Answer each statement of a text in text."""
        text = fields.text()
        fields.end()
        if len(text) > MAX_CHARACTERS:
            raise PostgresError(TOO_LARGE, f"A text has at most {MAX_CHARACTERS:,} characters.")
        found = statements(text)
        if not found:
            self._stream.send(messages.EMPTY_QUERY)
        for one in found:
            result = self._run(self._router.plan(one), Asked())
            if result.columns is not None:
                formats = [0] * len(result.columns)
                self._stream.send(messages.row_description(result.columns, formats))
            send_rows(self._stream, result, result.rows)
            self._stream.send(messages.complete(tag_of(result, len(result.rows))))

    def _run(self, plan: Plan, asked: Asked) -> Result:
        """Run a plan, and tell what it says beside its result."""
        if self._session.status == "E" and not plan.survives:
            raise PostgresError(
                TRANSACTION_FAILED, "The transaction failed before: ROLLBACK ends it."
            )
        result = plan.run(asked)
        for line in result.notices:
            self._stream.send(messages.notice(line))
        for line in result.warnings:
            self._stream.send(messages.notice(line, severity="WARNING"))
        for name, value in result.parameters.items():
            self._stream.send(messages.parameter(name, value))
        return result
