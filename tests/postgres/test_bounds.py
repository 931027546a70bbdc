"""What statements and portals hold is bounded, and a process that takes long ends."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tracemalloc
from dataclasses import asdict

import pytest

from qserver.postgres.catalogue.child import MOST_BYTES
from qserver.postgres.prepared_statements import Held, Portal
from qserver.postgres.results import Asked, Plan, Result, nothing
from qserver.postgres.session import Session
from qserver.postgres.wire.faults import PostgresError
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import TEXT, Column, Literal
from qserver.query.sql.tables.catalogue_relations import Names, Table

NAMES = Names("q", "ada", 7, (Table("t", tuple((f"c{i}", "int4") for i in range(200))),), ())


@pytest.mark.slow
def test_a_statement_that_takes_long_ends_with_the_port() -> None:
    """Also where the port is killed, so that nobody is left to end it."""
    code = (
        "import json, sys\n"
        "from qserver.postgres.catalogue.engine import _template\n"
        "ours = _template.fork()\n"
        "print(int.from_bytes(ours.recv(4)), flush=True)\n"
        "ours.sendall(bytes.fromhex(sys.argv[1]))\n"
        "sys.stdin.read()"
    )
    joined = ", ".join(f"pg_type t{i}" for i in range(9))
    asked = {"text": f"SELECT count(*) FROM {joined}", "names": json.dumps(asdict(NAMES))}
    body = json.dumps(asked | {"formats": [], "describes": False}).encode()
    port = subprocess.Popen(
        [sys.executable, "-c", code, (len(body).to_bytes(4) + body).hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert port.stdout is not None
    assert port.stdin is not None
    handle = os.pidfd_open(int(port.stdout.readline()))
    port.kill()
    port.wait()
    port.stdin.close()
    port.stdout.close()
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ended = poll.poll(4500)  # by itself it takes 5 s of the processor
    os.close(handle)
    assert ended


@pytest.mark.slow
def test_the_process_of_catalogues_ends_with_a_program_that_used_it() -> None:
    code = "from qserver.postgres.catalogue.engine import _template; _template.fork().close()"
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", code]
    ran = subprocess.run(command, capture_output=True, check=True)
    assert ran.stderr == b""


def _empty() -> Held:
    """Of a connection whose plans keep their texts and parts, as those about a dataset do."""
    return Held(Session("ada", "q"), _plan)


def _plan(text: Text) -> Plan:
    n_parts = len(text.pieces)
    return Plan(nothing, lambda _: Result(f"{text.text} {n_parts}"))


@pytest.mark.slow
def test_what_statements_and_portals_hold_is_bounded_by_texts_and_values() -> None:
    """By what the allocator says: long texts, long values, and 1,000 portals of one statement."""
    held = _empty()
    long = held.prepared("SELECT " + "1," * 30_000 + "1", ())
    tracemalloc.start()
    try:
        with pytest.raises(PostgresError, match="hold too much"):  # noqa: PT012
            for i in range(100):
                held.keep(f"s{i}", held.prepared("SELECT " + "1, " * 3000 + str(i), ()))
        assert MOST_BYTES / 2 <= tracemalloc.get_traced_memory()[0] <= 1.1 * MOST_BYTES
    finally:
        tracemalloc.stop()
    held.statements.clear()
    held.keep("", long)  # one text as long as may be is held, and so is a portal of it
    held.open("", Portal(long.plan, Asked(), of_bytes=long.of_bytes))
    with pytest.raises(PostgresError, match="hold too much"):
        held.keep("again", held.prepared("SELECT " + "1," * 30_000 + "2", ()))
    held.portals.clear()
    held.keep("", held.prepared("SELECT $1", ()))
    of = held.statements[""]
    for i in range(999):
        held.open(f"p{i}", Portal(of.plan, Asked([Literal("'x'")]), of_bytes=of.of_bytes))
    value = Asked([Literal("'" + "x" * (MOST_BYTES // 2) + "'")])
    held.open("p0", Portal(of.plan, value, of_bytes=of.of_bytes))
    with pytest.raises(PostgresError, match="hold too much"):
        held.open("p1", Portal(of.plan, value, of_bytes=of.of_bytes))


@pytest.mark.slow
def test_columns_of_portals_are_counted_too() -> None:
    """By what the allocator says: a thousand portals of one statement with many columns."""
    held = _empty()

    def columns(i: int) -> tuple[Column, ...]:
        return tuple(Column(f"{i} {k}", TEXT) for k in range(1000))

    tracemalloc.start()
    try:
        with pytest.raises(PostgresError, match="hold too much"):  # noqa: PT012
            for i in range(999):
                portal = Portal(None, Asked())
                held.open(f"p{i}", portal)
                held.described(portal, columns(i))
                held.ran(portal, Result("SELECT", columns(i), ()))
                assert portal.result is not None
                assert portal.result.columns is portal.described
        held.portals.popitem()
        assert MOST_BYTES / 2 <= tracemalloc.get_traced_memory()[0] <= 1.1 * MOST_BYTES
    finally:
        tracemalloc.stop()


def test_rows_that_were_taken_hold_nothing() -> None:
    held = _empty()
    rows = [b"x" * 1000] * (MOST_BYTES // 1100)
    for name in "ab":
        portal = Portal(None, Asked())
        held.open(name, portal)
        held.ran(portal, Result("SELECT", (), rows))
        assert portal.n_bytes > MOST_BYTES // 2
        assert len(portal.take(10)) == 10
        assert len(portal.take(0)) == len(rows) - 10
        assert portal.n_bytes == 0
