"""How a connection begins: TLS where it is asked for, who connects, and their token."""

from __future__ import annotations

import ssl
import struct
import time
from dataclasses import dataclass

from qserver.api.access import Access, Credentials
from qserver.errors import AccessError, QServerError
from qserver.postgres.session import Session
from qserver.postgres.wire import messages
from qserver.postgres.wire.faults import (
    WRONG_PASSWORD,
    PostgresError,
    fault_of,
    violation,
)
from qserver.postgres.wire.messages import Fields
from qserver.postgres.wire.stream import GoneError, Stream
from qserver.records.account import Caller

STARTUP_S = 20.0
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_MOST_OPTIONS = 200


@dataclass(frozen=True)
class Admitted:
    """Who came in, with what they sent: their token is checked again with each statement."""

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
    return Admitted(session, credentials, caller.account)


def greet(stream: Stream, session: Session) -> None:
    """Tell a client that it is in, and what is set."""
    stream.send(messages.AUTHENTICATED)
    stream.send(*(messages.parameter(*pair) for pair in session.reported().items()))
    stream.send(messages.key_data(0, 0), messages.ready("I"))
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
            raise violation("Only version 3 of the protocol is spoken.")
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
            "The password must be the token of an account." if wrong else fault.message,
            ends=True,
        ) from exc
    except QServerError as exc:
        fault = fault_of(exc)
        raise PostgresError(fault.state, fault.message, ends=True) from exc


def _put_all(session: Session, options: dict[str, str]) -> None:
    """What the startup sets, by name and as `-c name=value` in `options`."""
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
