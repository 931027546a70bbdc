"""Append-only files: tell a torn tail from damage, and trim a torn tail.

A crash in the middle of an append leaves the beginning of one command, or of one transaction, at
the end of the last file. It was never acknowledged, so it may go. Any other damage may hide
acknowledged writes behind it. The server's check tool cuts at the first fault in any case. So
it runs only after the scan below has found that nothing whole would be lost.

The format has no checksum: a changed byte inside a value, or a file cut at the end of a command,
loads without an error. So digests of the files are noted as they grow: the process that runs the
server reads what it appends, and notes a digest of each file's beginning. A start refuses files
whose beginning is another. Not covered: what was appended in the last second before the machine or
that process died. The worker's journal notices these changes, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qserver.errors import StoreCorruptError

State = Literal["whole", "torn", "broken"]

MANIFEST = "appendonly.aof.manifest"
_MAX_ARGUMENTS = 1024 * 1024
_MAX_ARGUMENT_BYTES = 512 * 1024 * 1024
_HEADER = re.compile(rb"([*$])([0-9]{1,10})\r\n")
_HEADER_BEGUN = re.compile(rb"([*$]([0-9]{1,10}\r?)?)?")
_ADVICE = (
    "Nothing was changed. Restore the state folder's `redis` folder from a backup; the worker's "
    "journal tells whether the backup is recent enough. Do not run valkey-check-aof --fix: it "
    "cuts off every write behind the damage."
)


@dataclass(frozen=True, kw_only=True)
class AofScan:
    """The state of one append-only file.

    Attributes:
        state: `whole`; `torn`: begins with whole commands, then the beginning of one command or
            transaction, then perhaps zero bytes; `broken`: anything else.
        n_whole: bytes up to the end of the last whole command or transaction before the fault.
        n_zeros: zero bytes at the end, as a power cut can leave them.
    """

    state: State
    n_whole: int
    n_zeros: int


@dataclass(frozen=True, kw_only=True)
class AofRepair:
    """A trimmed torn tail: the file, the copy made before, and the number of bytes cut."""

    path: Path
    copy: Path
    n_bytes_cut: int


@dataclass(frozen=True, kw_only=True)
class _Header:
    state: State
    value: int = 0
    end: int = 0


@dataclass(frozen=True, kw_only=True)
class _Command:
    state: State
    name: bytes = b""
    end: int = 0


def scan_aof(data: bytes | mmap.mmap) -> AofScan:
    """State of the append-only file `data` (RESP commands, no annotations).

    A damaged length in the middle of the file may reach past its end, and looks like a torn tail
    then. So a tail that contains a whole command counts as broken.
    """
    end = _end_without_zeros(data)
    n_zeros = len(data) - end
    pos = n_whole = 0
    in_transaction = False
    while pos < end:
        command = _read_command(data, pos, end)
        if command.state == "torn" and not _hides_command(data, pos, end):
            return AofScan(state="torn", n_whole=n_whole, n_zeros=n_zeros)
        out_of_turn = command.name == (b"MULTI" if in_transaction else b"EXEC")
        if command.state != "whole" or out_of_turn:
            return AofScan(state="broken", n_whole=n_whole, n_zeros=n_zeros)
        in_transaction = command.name == b"MULTI" or (in_transaction and command.name != b"EXEC")
        pos = command.end
        n_whole = n_whole if in_transaction else pos
    torn = in_transaction or n_zeros > 0
    return AofScan(state="torn" if torn else "whole", n_whole=n_whole, n_zeros=n_zeros)


def manifest_entries(folder: Path) -> list[dict[str, str]]:
    """The files of an `appendonlydir` by its manifest, each with `file` and `type` (b, i or h)."""
    lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    return [dict(zip(words[::2], words[1::2], strict=False)) for words in map(shlex.split, lines)]


def last_increment(data_dir: Path) -> Path | None:
    """The file that appends go to, by the manifest; None without a manifest or an entry."""
    folder = data_dir / "appendonlydir"
    try:
        entries = manifest_entries(folder)
    except FileNotFoundError:
        return None
    names = [entry["file"] for entry in entries if entry.get("type") == "i" and "file" in entry]
    return folder / names[-1] if names else None


def trim_torn_tail(path: Path, *, binary: Path, copies: Path, found_end: bool) -> AofRepair:
    """Cut the torn tail off `path`, after copying the file aside.

    Args:
        path: the last append-only file.
        binary: the server's program, which is also the check tool.
        copies: folder for the copy; made when absent.
        found_end: whether the server said that the file ended too early. Otherwise only a tail of
            zero bytes is trimmed.

    Raises:
        StoreCorruptError: the damage is not a torn tail, or the check tool disagrees.
    """
    scan = _scan_file(path)
    if scan.state == "whole":
        raise StoreCorruptError(
            f"The server cannot load {path}, though every command in it is whole. {_ADVICE}"
        )
    if scan.state == "broken" or not (found_end or scan.n_zeros):
        raise StoreCorruptError(
            f"{path} is damaged behind byte {scan.n_whole}, before its last command. {_ADVICE}"
        )
    copy = _copy_aside(path, copies)
    n_before = path.stat().st_size
    _run_check_tool(path, binary)
    if path.stat().st_size != scan.n_whole:
        shutil.copyfile(copy, path)
        raise StoreCorruptError(
            f"The check tool would not cut {path} at byte {scan.n_whole}. {_ADVICE}"
        )
    sync(path)
    return AofRepair(path=path, copy=copy, n_bytes_cut=n_before - scan.n_whole)


def _scan_file(path: Path) -> AofScan:
    if path.stat().st_size == 0:
        return scan_aof(b"")
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return scan_aof(data)


def _end_without_zeros(data: bytes | mmap.mmap, step: int = 65536) -> int:
    end = len(data)
    while end > 0:
        start = max(0, end - step)
        n_kept = len(data[start:end].rstrip(b"\0"))
        if n_kept:
            return start + n_kept
        end = start
    return 0


def _read_command(data: bytes | mmap.mmap, pos: int, end: int) -> _Command:
    head = _read_header(data, pos, end, mark=b"*")
    if head.state != "whole" or not 1 <= head.value <= _MAX_ARGUMENTS:
        return _Command(state="torn" if head.state == "torn" else "broken")
    pos, name = head.end, b""
    for i_argument in range(head.value):
        size = _read_header(data, pos, end, mark=b"$")
        if size.state != "whole" or size.value > _MAX_ARGUMENT_BYTES:
            return _Command(state="torn" if size.state == "torn" else "broken")
        pos = size.end + size.value
        closing = data[pos : min(pos + 2, end)]
        if closing != b"\r\n":
            return _Command(state="torn" if b"\r\n".startswith(closing) else "broken")
        if i_argument == 0 and size.value <= 16:
            name = bytes(data[size.end : pos]).upper()
        pos += 2
    return _Command(state="whole", name=name, end=pos)


def _read_header(data: bytes | mmap.mmap, pos: int, end: int, *, mark: bytes) -> _Header:
    match = _HEADER.match(data, pos, end)
    if match:
        state: State = "whole" if match[1] == mark else "broken"
        return _Header(state=state, value=int(match[2]), end=match.end())
    rest = data[pos : min(end, pos + 16)]
    begun = rest[:1] in (b"", mark) and _HEADER_BEGUN.fullmatch(rest)
    return _Header(state="torn" if begun else "broken")


def _hides_command(data: bytes | mmap.mmap, pos: int, end: int) -> bool:
    """Whether a whole command stands inside the unfinished one at `pos`."""
    at = data.find(b"\r\n*", pos, end)
    while at >= 0:
        if _read_command(data, at + 2, end).state == "whole":
            return True
        at = data.find(b"\r\n*", at + 1, end)
    return False


def _copy_aside(path: Path, copies: Path) -> Path:
    copies.mkdir(mode=0o700, exist_ok=True)
    n_copies = sum(1 for _ in copies.iterdir())
    copy = copies / f"{path.name}.{n_copies + 1}"
    shutil.copyfile(path, copy)
    sync(copy)
    sync(copies)
    return copy


def _run_check_tool(path: Path, binary: Path) -> None:
    # The program is the check tool under this name; it asks before it cuts.
    subprocess.run(  # noqa: S603
        ["valkey-check-aof", "--fix", path.name],  # noqa: S607
        executable=binary,
        cwd=path.parent,
        input=b"y\n",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


def sync(path: Path) -> None:
    """Write a file or a folder to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


NOTE = "aof-digests.json"
_EVERY_S = 1.0
_CHUNK = 1 << 20
_CHANGED_ADVICE = (
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
    """A growing file, digested as far as it was read."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._hash = hashlib.sha256()

    def read_on(self, path: Path) -> Beginning:
        """Digest appended bytes that are on the disk."""
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
        self._names: list[str] = []
        self._manifest: tuple[int, int, int] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aof-digests", daemon=True)

    def start(self) -> None:
        """Note the present files, and go on beside the server."""
        self.note()
        self._thread.start()

    def close(self) -> None:
        """Note the last bytes; call it after the server ends."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self.note()

    def note(self) -> None:
        """Write the digests of the present files; a missing file is forgotten."""
        # A full disk stops the server's writes as well, so there is nothing new to note.
        with contextlib.suppress(OSError, ValueError):
            self._look_up()
            found = {name: self._read_on(name) for name in self._names}
            if found != self._noted:
                _write(self._data / NOTE, found)
                self._noted = found

    def _look_up(self) -> None:
        """Read the names of the files again if the manifest is another: it is replaced, never
        appended to."""
        found = (self._data / "appendonlydir" / MANIFEST).stat()
        mark = (found.st_ino, found.st_mtime_ns, found.st_size)
        if mark != self._manifest:
            self._growing.pop(MANIFEST, None)
            self._noted = {k: noted for k, noted in self._noted.items() if k != MANIFEST}
            self._names, self._manifest = list(_files(self._data)), mark

    def _read_on(self, name: str) -> Beginning:
        path = self._data / "appendonlydir" / name
        noted = self._noted.get(name)
        if noted is not None and path.stat().st_size == noted.n_bytes:
            return noted
        return self._growing.setdefault(name, _Growing()).read_on(path)

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_S):
            self.note()


def check_digests(data: Path) -> None:
    """Return if the server's files begin as noted, or if nothing is noted.

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
    """The manifest and its files; ValueError if it is no manifest."""
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
    """The noted digests. An unreadable note says nothing: the files are taken as they are."""
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
    return StoreCorruptError(f"{path} is {state}. {_CHANGED_ADVICE}")


def _cut(data: Path, path: Path) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is shorter than the server left it. {_ADVICE_CUT.format(note=data / NOTE)}"
    )
