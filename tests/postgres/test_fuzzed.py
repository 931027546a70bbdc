"""Whatever bytes come, a connection answers, ends or waits for more, and never breaks."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qserver.service.service import Service
from tests.deployment import Deployment
from tests.postgres.client import TIMEOUT_S, connected, message, startup
from tests.sweeps import examples

LETTERS = st.sampled_from([bytes([c]) for c in b"QPBDECHSdcfpX?"])
NUMBERS = st.integers(-(2**15), 2**15 - 1).map(lambda n: struct.pack("!h", n))
TEXTS = st.sampled_from(
    [
        b"\0",
        b"SHOW TABLES\0",
        b"SELECT 1\0",
        b"SELECT $1\0",
        b"SELECT COUNT(*) FROM people WHERE age < $1\0",
        b"BEGIN\0",
        b"ROLLBACK\0",
        b"SET qserver.within = $1\0",
        b"S\0",
        b"P\0",
    ]
)
BODIES = st.lists(TEXTS | NUMBERS | st.binary(max_size=6), max_size=5).map(b"".join)
STREAMS = st.lists(st.builds(message, LETTERS, BODIES) | st.binary(max_size=12), max_size=8)


@pytest.fixture
def service(town: Deployment) -> Service:
    return town.service()


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(stream=STREAMS)
def test_any_stream_of_bytes_is_met(
    service: Service, caplog: pytest.LogCaptureFixture, stream: list[bytes]
) -> None:
    caplog.clear()
    with connected(service) as client, caplog.at_level(logging.ERROR, "qserver.postgres"):
        # It may end the connection half-way.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.send(startup() + b"".join(stream))
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(1 << 16):
                pass
        client.thread.join(TIMEOUT_S)
        assert not client.thread.is_alive()
    assert caplog.records == []
