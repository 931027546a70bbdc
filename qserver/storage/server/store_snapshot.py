"""The store as of one moment, for a backup: open files, and how much of each belongs to it.

The embedded server only appends to its last file, so a moment is the lengths of its files. Another
server sends a snapshot, as to a replica. Both are what a server loads from its `appendonlydir`.
"""

from __future__ import annotations

import io
import mmap
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import redis

from qserver.errors import ConfigError, StoreCorruptError, StoreUnavailableError
from qserver.storage.constants import STORE
from qserver.storage.server.aof import MANIFEST, manifest_entries, scan_aof
from qserver.storage.server.connection import connect, translated_errors
from qserver.storage.server.state_folder import StateFolder

FOLDER = Path("redis") / "appendonlydir"
"""Where a server of a state folder finds its files."""
_BASE = "appendonly.aof.1.base.rdb"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Piece:
    """The beginning of an open file; later appends are not part of it."""

    name: str
    file: IO[bytes]
    n_bytes: int

    @classmethod
    def of_text(cls, name: str, text: bytes) -> Piece:
        """A whole small file."""
        return cls(name, io.BytesIO(text), len(text))

    @classmethod
    def of_file(cls, name: str, path: Path, stack: ExitStack) -> Piece:
        """A file at its present length; `stack` closes it. FileNotFoundError."""
        file = stack.enter_context(path.open("rb"))
        return cls(name, file, file.seek(0, io.SEEK_END))


def files_of_embedded(state_dir: Path, stack: ExitStack) -> list[Piece]:
    """The files of the embedded store at this moment, running or not.

    Whatever was acknowledged is in them. A file that the server replaces stays open.

    Args:
        stack: closes them.

    Raises:
        ConfigError: there is no store.
        StoreCorruptError: a file is damaged.
    """
    source = StateFolder(state_dir.absolute())
    folder = source.root / FOLDER
    if not folder.is_dir():
        raise ConfigError("state", "hold a store", str(source.root))
    if source.running_url() is None:
        stack.enter_context(source.locked(timeout_s=STORE.lock_wait_s))
    for _ in range(STORE.rewrite_tries):
        before = (folder / MANIFEST).read_bytes()
        try:
            pieces = _open_files(folder, stack)
        except FileNotFoundError:
            continue  # A rewrite has ended meanwhile, and the manifest names other files.
        if (folder / MANIFEST).read_bytes() == before:
            return pieces
    raise StoreUnavailableError("The store rewrites its files again and again. Try again later.")


def _open_files(folder: Path, stack: ExitStack) -> list[Piece]:
    entries = [entry for entry in manifest_entries(folder) if entry.get("type") != "h"]
    # The last first: where it has bytes, the ones before have all of theirs.
    pieces = [
        Piece.of_file(entry["file"], folder / entry["file"], stack) for entry in reversed(entries)
    ]
    whole = [
        _without_torn_tail(piece) if entry.get("type") == "i" else piece
        for entry, piece in zip(entries, reversed(pieces), strict=True)
    ]
    lines = [f"file {e['file']} seq {e['seq']} type {e['type']}\n" for e in entries]
    return [Piece.of_text(MANIFEST, "".join(lines).encode()), *whole]


def _without_torn_tail(piece: Piece) -> Piece:
    """The bytes without an unfinished append, which was not acknowledged."""
    if not piece.n_bytes:
        return piece
    with mmap.mmap(piece.file.fileno(), piece.n_bytes, access=mmap.ACCESS_READ) as data:
        scan = scan_aof(data)
    if scan.state == "broken":
        raise StoreCorruptError(f"{piece.name} is damaged behind byte {scan.n_whole}.")
    return Piece(piece.name, piece.file, scan.n_whole)


def snapshot_of_server(url: str, stack: ExitStack) -> list[Piece]:
    """The snapshot that the server at `url` sends a replica, of a moment after the call.

    Args:
        stack: closes the file, which has no name.

    Raises:
        StoreUnavailableError: the server is gone, or sends none.
        StoreUnsupportedError, StoreError: its user may not ask for it.
    """
    client = stack.enter_context(connect(url, role="backup"))
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    with translated_errors(client.where):
        connection: Any = client.connection_pool.get_connection()
        try:
            connection.send_command("SYNC")
            with connection._sock.makefile("rb") as stream:
                _receive(stream, file)
        finally:
            connection.disconnect()
            client.connection_pool.release(connection)
    manifest = Piece.of_text(MANIFEST, f"file {_BASE} seq 1 type b\n".encode())
    return [manifest, Piece(_BASE, file, file.tell())]


def _receive(stream: IO[bytes], file: IO[bytes]) -> None:
    """Write the snapshot that a server sends: empty lines while it waits, its length, its bytes."""
    head = b"\n"
    while head == b"\n":
        head = stream.readline()
    if head.startswith(b"-NOPERM"):
        raise redis.exceptions.NoPermissionError("SYNC, of a user with +sync, makes a backup")
    if not head.startswith(b"$"):
        text = head.decode("utf-8", "replace").strip("-\r\n")
        raise redis.ResponseError(text or "MISCONF no snapshot")
    left = int(head[1:])
    while left:
        chunk = stream.read(min(_CHUNK, left))
        if not chunk:
            raise redis.ConnectionError("The server stopped in the middle of its snapshot.")
        file.write(chunk)
        left -= len(chunk)
