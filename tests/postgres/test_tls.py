"""TLS where a certificate is configured; what is sent ahead of it is not part of the session."""

from __future__ import annotations

import ssl
import struct
from pathlib import Path

from tests.deployment import Deployment
from tests.postgres.certificate import Certificate
from tests.postgres.client import connected, startup

ASKS_TLS = struct.pack("!ii", 8, 80877103)


def test_a_client_that_asks_for_tls_speaks_it(town: Deployment, tmp_path: Path) -> None:
    certificate = Certificate.write(tmp_path, "localhost")
    trusts = ssl.create_default_context(cafile=str(certificate.path))
    with connected(town.service(), tls=certificate.context) as client:
        client.send(ASKS_TLS)
        assert client.exactly(1) == b"S"
        client.socket = trusts.wrap_socket(client.socket, server_hostname="localhost")
        assert client.start().status == "I"
        # More than one record of TLS, so that some of it is read ahead.
        assert client.query("SHOW TABLES;" + " " * 40_000 + "SHOW TABLES").rows == [["people"]] * 2


def test_one_that_does_not_ask_goes_without(town: Deployment, tmp_path: Path) -> None:
    certificate = Certificate.write(tmp_path, "localhost")
    with connected(town.service(), tls=certificate.context) as client:
        assert client.start().status == "I"


def test_what_is_sent_before_tls_begins_is_not_taken_for_what_is_said_within(
    town: Deployment, tmp_path: Path
) -> None:
    certificate = Certificate.write(tmp_path, "localhost")
    with connected(town.service(), tls=certificate.context) as client:
        client.send(ASKS_TLS + startup())
        assert client.exactly(1) == b"S"
        client.thread.join(60)
        assert not client.thread.is_alive()
