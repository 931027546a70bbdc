"""Digests of the append-only files, noted as they grow, and compared before they are loaded.

The server's format has no checksum: a changed byte inside a value loads without an error. So the
process that runs the server reads what it appends, and notes a digest of each file's beginning. A
start refuses files whose beginning is another. Not covered: what was appended in the last second
before the machine or that process died.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qserver.errors import StoreCorruptError
from qserver.storage.server.aof import MANIFEST, manifest_entries

NOTE = "aof-digests.json"
_EVERY_S = 1.0
_CHUNK = 1 << 20
_ADVICE = (
    "Nothing was changed. Restore the state folder's `redis` folder from a backup, or move it away "
    "and start on an empty store; then run `qserver-worker restore`, which brings back what the "
    "worker's journal has."
)
_ADVICE_CUT = (
    "Restore the state folder's `redis` folder from a backup. Or remove {note}, which loads what "
    "is left. Either way run `qserver-worker restore` then: the end of the file is gone."
)


@dataclass(frozen=True)
class Beginning:
    """The first bytes of a file: their number and their SHA-256."""

    n_bytes: int
    sha256: str


class _Growing:
    """A file that only grows, digested as far as it was read."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._hash = hashlib.sha256()

    def read_on(self, path: Path) -> Beginning:
        """Digest what was appended, once it is on the disk."""
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            file.seek(self.n_bytes)
            while chunk := file.read(_CHUNK):
                self._hash.update(chunk)
                self.n_bytes += len(chunk)
        return Beginning(self.n_bytes, self._hash.hexdigest())


class AofDigests:
    """Notes the digests of one server's files, once a second, until it is closed.

    Args:
        data: the server's working folder.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._growing: dict[str, _Growing] = {}
        self._noted: dict[str, Beginning] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aof-digests", daemon=True)

    def start(self) -> None:
        """Note what is there now, and go on beside the server."""
        self.note()
        self._thread.start()

    def close(self) -> None:
        """Note the last bytes; call it when the server has ended."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self.note()

    def note(self) -> None:
        """Write the digests of the files as they are now; a file that is gone is forgotten."""
        # A full disk stops the server's writes as well: then there is nothing new to note.
        with contextlib.suppress(OSError, ValueError):
            found = {name: self._read_on(name) for name in _files(self._data)}
            if found != self._noted:
                _write(self._data / NOTE, found)
                self._noted = found

    def _read_on(self, name: str) -> Beginning:
        path = self._data / "appendonlydir" / name
        noted = self._noted.get(name)
        if name == MANIFEST:
            # It is replaced, not appended to.
            return _Growing().read_on(path)
        if noted is not None and path.stat().st_size == noted.n_bytes:
            return noted
        return self._growing.setdefault(name, _Growing()).read_on(path)

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_S):
            self.note()


def check_digests(data: Path) -> None:
    """Return if the server's files begin as they were noted, or nothing is noted.

    Args:
        data: the server's working folder; no server runs on it.

    Raises:
        StoreCorruptError: a file was changed or cut since.
    """
    noted = _read(data / NOTE)
    try:
        names = _files(data)
    except FileNotFoundError:
        return  # an empty store, or one whose files were moved away
    except (OSError, ValueError) as exc:
        raise _changed(data / "appendonlydir" / MANIFEST) from exc
    folder = data / "appendonlydir"
    for name in names:
        if not (folder / name).exists():
            raise _changed(folder / name)
    # A rewrite makes new files and names them in a new manifest, perhaps just before the end.
    is_rewritten = bool(set(names) - set(noted))
    for name, beginning in noted.items():
        path = folder / name
        if is_rewritten and (name == MANIFEST or not path.exists()):
            continue
        if path.exists() and path.stat().st_size < beginning.n_bytes:
            raise _cut(data, path)
        if not path.exists() or _beginning(path, beginning.n_bytes) != beginning:
            raise _changed(path)


def _files(data: Path) -> list[str]:
    """The manifest and the files that it names; ValueError if it is no manifest."""
    entries = manifest_entries(data / "appendonlydir")
    if any("file" not in entry for entry in entries):
        raise ValueError("a line of the manifest names no file")
    return [MANIFEST, *(entry["file"] for entry in entries if entry.get("type") != "h")]


def _beginning(path: Path, n_bytes: int) -> Beginning:
    digest, left = hashlib.sha256(), n_bytes
    with path.open("rb") as file:
        while left and (chunk := file.read(min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
    return Beginning(n_bytes - left, digest.hexdigest())


def _read(path: Path) -> Mapping[str, Beginning]:
    """What is noted. A note that cannot be read says nothing: the files are taken as they are."""
    try:
        plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(plain["files"], sort_keys=True)
        if plain["sha256"] != hashlib.sha256(text.encode()).hexdigest():
            return {}
        return {name: Beginning(*found) for name, found in plain["files"].items()}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write(path: Path, found: Mapping[str, Beginning]) -> None:
    files = {name: [one.n_bytes, one.sha256] for name, one in found.items()}
    text = json.dumps(files, sort_keys=True)
    plain = {"files": files, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(plain, sort_keys=True), encoding="utf-8")
    partial.chmod(0o600)
    partial.rename(path)


def _changed(path: Path) -> StoreCorruptError:
    state = "not as the server wrote it" if path.exists() else "missing"
    return StoreCorruptError(f"{path} is {state}. {_ADVICE}")


def _cut(data: Path, path: Path) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is shorter than the server left it. {_ADVICE_CUT.format(note=data / NOTE)}"
    )
