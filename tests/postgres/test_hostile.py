"""Bytes that are not the protocol's, messages too long, and clients that are slow or silent."""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import replace

import pytest

from qserver.api.access import OpenAccess
from qserver.postgres.connection import House, converse
from qserver.postgres.limits import Limits
from qserver.postgres.server import PostgresServer
from qserver.postgres.wire.messages import Stream
from qserver.service.service import Service
from tests.api.calls import n_segments
from tests.deployment import Deployment
from tests.postgres.client import (
    TIMEOUT_S,
    RawClient,
    connected,
    fields,
    message,
    startup,
)

QUICK = Limits(idle_s=0.2, message_s=0.2, max_bytes=1000)


@pytest.fixture
def service(town: Deployment) -> Service:
    return town.service()


def packet(code: int, body: bytes = b"") -> bytes:
    return struct.pack("!ii", len(body) + 8, code) + body


_A_START_THAT_IS_NONE_ENDS_THE = [
    b"GET / HTTP/1.1\r\n\r\n",
    packet(2 << 16),
    packet(3 << 16, b"user\0ada"),
    packet(3 << 16, b"user\0ada\0\0more"),
    packet(3 << 16, b"user\0\xff\0\0"),
    packet(3 << 16, b"\0"),
    struct.pack("!i", 3),
    struct.pack("!i", -1),
    struct.pack("!i", 1 << 30),
    packet(80877104) * 5,
]


def test_a_start_that_is_none_ends_the_connection_with_an_error(service: Service) -> None:
    for sent in _A_START_THAT_IS_NONE_ENDS_THE:
        with connected(service) as client:
            client.send(sent)
            while (letter := client.exactly(1)) == b"N":
                pass
            assert letter == b"E"
            (n,) = struct.unpack("!i", client.exactly(4))
            assert fields(client.exactly(n - 4))["S"] == "FATAL"
            client.assert_ended()


def test_tls_is_declined_where_there_is_no_certificate(service: Service) -> None:
    with connected(service) as client:
        client.send(packet(80877103))
        assert client.exactly(1) == b"N"
        assert client.start().status == "I"


def test_a_request_to_cancel_does_nothing(service: Service) -> None:
    with connected(service) as client:
        client.send(packet(80877102, struct.pack("!ii", 1, 2)))
        client.assert_ended()


_A_MESSAGE_THAT_IS_NONE_ENDS_TH = [
    message(b"?", b""),
    message(b"Q", b"SELECT 1"),
    message(b"Q", b"SELECT 1\0more"),
    message(b"Q", b"SELECT '\xff'\0"),
    message(b"p", b"a password\0"),
    message(b"P", b"\0SELECT 1\0"),
    message(b"P", b"\0SELECT 1\0" + struct.pack("!h", -1)),
    message(b"D", b"X\0"),
    message(b"C", b"X\0"),
    message(b"E", b"\0"),
    b"Q" + struct.pack("!i", 3),
    b"Q" + struct.pack("!i", -5),
]


def test_a_message_that_is_none_ends_the_connection_with_an_error(service: Service) -> None:
    for sent in _A_MESSAGE_THAT_IS_NONE_ENDS_TH:
        with connected(service) as client:
            client.start()
            client.send(sent)
            error = client.last()
            assert (error["S"], error["C"]) == ("FATAL", "08P01"), sent


def test_a_message_that_is_too_long_is_not_read(service: Service) -> None:
    with connected(service, limits=replace(QUICK, idle_s=60.0)) as client:
        client.start()
        client.send(b"Q" + struct.pack("!i", 1 << 30))
        assert client.last()["C"] == "54000"


def test_a_text_that_is_too_long_is_refused_and_the_connection_goes_on(client: RawClient) -> None:
    assert client.query("SELECT " + "1," * 40_000).error["C"] == "54000"
    assert client.query("SHOW TABLES").rows == [["people"]]


@pytest.mark.slow
def test_many_empty_statements_take_no_time_of_note(client: RawClient) -> None:
    assert client.query(";" * 60_000).letters == "IZ"
    assert client.query("$a$ '" * 10_000).error["C"] == "42601"
    assert client.query("SHOW TABLES" + ";" * 60_000).rows == [["people"]]


def test_whoever_is_silent_for_too_long_is_told_and_let_go(service: Service) -> None:
    with connected(service, limits=QUICK) as client:
        client.start()
        assert client.last()["C"] == "57P05"


def test_a_message_that_does_not_go_on_ends_the_connection(service: Service) -> None:
    with connected(service, limits=replace(QUICK, idle_s=60.0)) as client:
        client.start()
        client.send(message(b"Q", b"SHOW TABLES\0")[:-3])
        client.assert_ended()


def test_whoever_goes_half_way_leaves_no_thread_behind(service: Service) -> None:
    for sent in (b"", startup()[:9], startup(), startup() + b"Q\0"):
        with connected(service) as client:
            client.send(sent)
            client.socket.shutdown(socket.SHUT_WR)
            client.thread.join(TIMEOUT_S)
            assert not client.thread.is_alive()


def test_an_idle_client_is_told_that_the_server_stops(client: RawClient) -> None:
    client.stopper.send(b"x")
    assert client.last()["C"] == "57P01"


def test_one_connection_too_many_is_told_so_and_the_others_go_on(service: Service) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    house = House(service, OpenAccess())
    server = PostgresServer(
        listener, lambda stream, address: converse(house, stream, address), Limits(most=2)
    )
    thread = threading.Thread(target=server.run, kwargs={"grace_s": TIMEOUT_S})
    thread.start()
    place = listener.getsockname()
    clients = [socket.create_connection(place, timeout=TIMEOUT_S) for _ in range(3)]
    try:
        for one in clients[:2]:
            one.sendall(startup())
            assert one.recv(1) == b"R"
        assert b"53300" in clients[2].recv(1000)
    finally:
        server.stop()
        thread.join(TIMEOUT_S)
        for one in clients:
            one.close()
    assert not thread.is_alive()


def test_what_is_answered_leaves_in_one_segment_and_waits_for_no_acknowledgement() -> None:
    """Also on a connection that was made before the server ran."""
    listener = socket.create_server(("127.0.0.1", 0))
    delays: list[int] = []

    def answer(stream: Stream, _address: str) -> None:
        delays.append(stream._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        stream.send(b"one ", b"reply ")
        stream.send(b"in parts")
        stream.flush()
        stream.close()

    server = PostgresServer(listener, answer)
    with socket.create_connection(listener.getsockname(), timeout=TIMEOUT_S) as client:
        thread = threading.Thread(target=server.run, kwargs={"grace_s": TIMEOUT_S})
        thread.start()
        try:
            assert client.recv(100) == b"one reply in parts"
            assert n_segments(client) == 1
        finally:
            server.stop()
            thread.join(TIMEOUT_S)
    assert delays == [1]
