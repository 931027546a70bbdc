"""A server that speaks S3, in this process, with one bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

KEY, SECRET = "AKIAQSERVER", "hunter2/secret+key"


class Bucket:
    """The bucket `clinic`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._client = boto3.client(
            "s3",
            endpoint_url=f"http://{host}",
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )
        self._client.create_bucket(Bucket="clinic")

    def put(self, name: str, path: Path) -> None:
        """Put a file there."""
        self._client.put_object(Bucket="clinic", Key=name, Body=path.read_bytes())

    def address(self, name: str) -> str:
        """The address of a file or a prefix, with the secret by reference."""
        place = f"endpoint_override={self.host}&scheme=http&region=us-east-1"
        return f"s3://{KEY}:{{env:S3_SECRET}}@clinic/{name}?{place}"


@contextmanager
def s3_server() -> Iterator[Bucket]:
    """A running server."""
    server = ThreadedMotoServer(port=0, ip_address="127.0.0.1", verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Bucket(f"{host}:{port}")
    finally:
        server.stop()
