"""A replica's state as a checkpoint: its bytes, its folder, and the code that wrote it.

All of it is public: what charges, rows, released answers and paid questions lead to, which every
reader of the store computes anew without one. The head names all that the figures depend on. What
fits in no more is left, and the replica replays the history.

A file is: magic, length of the head, head, arrays at multiples of 64 bytes, seal.
The seal is a digest (HMAC-SHA256 where there is a key, so that only its owner can write one).
Nothing in a file is executed, and whatever is not exactly so is refused.

The version is a digest of the files that decide what the states mean. So any change of code makes
older checkpoints strangers, and nobody has to think of a number.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import logging
import mmap
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.config import Settings
from qserver.records.dataset import DatasetMeta
from qserver.records.state import State
from qserver.storage.histories import Cursor

_ROOMS = (
    "answering",
    "inference",
    "ledger",
    "planning",
    "query",
    "records",
    "storage/encoding",
)


@cache
def code_version() -> str:
    """The digest of the code."""
    found = hashlib.sha256(f"numpy {np.__version__} scipy {version('scipy')}".encode())
    root = Path(__file__).parents[1]
    for room in _ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:32]


MAGIC = b"qserver checkpoint 1\n"
_ALIGNED = 64
_SEAL_BYTES = 32
_TYPES = frozenset(["<f8", "<i8", "<i4", "|u1", "|b1", "|S32"])


class CheckpointError(Exception):
    """A file is no checkpoint, or it was changed. Users never see this error."""


def parts_of(state: State) -> Iterator[bytes | memoryview]:
    """The file's bytes without the seal."""
    arrays = {name: np.require(a, requirements=["C"]) for name, a in state.arrays.items()}
    index: dict[str, list[object]] = {}
    place = 0
    for name, array in arrays.items():
        place += -place % _ALIGNED
        index[name] = [array.dtype.str, list(array.shape), place]
        place += array.nbytes
    head = json.dumps({"head": state.head, "arrays": index}).encode()
    start = MAGIC + len(head).to_bytes(8, "little") + head
    yield start + bytes(-len(start) % _ALIGNED)
    written = 0
    for array in arrays.values():
        yield bytes(-written % _ALIGNED)
        written += -written % _ALIGNED + array.nbytes
        yield array.ravel().view(np.uint8).data


class Seal:
    """The seal of a file, with a key or without."""

    def __init__(self, key: bytes = b"") -> None:
        self._digest: Any = hmac.new(key, digestmod="sha256") if key else hashlib.sha256()

    def update(self, part: bytes | memoryview) -> None:
        """Add the next bytes."""
        self._digest.update(part)

    @property
    def value(self) -> bytes:
        """The seal of all bytes so far."""
        found: bytes = self._digest.digest()
        return found


def state_of(mapped: mmap.mmap | bytes, *, key: bytes = b"") -> State:
    """The state in a file's bytes. Arrays are read-only views of them.

    Raises:
        CheckpointError: it was not written so, or not with this key.
    """
    view = memoryview(mapped)
    body, seal = view[:-_SEAL_BYTES], Seal(key)
    seal.update(body)
    if not hmac.compare_digest(seal.value, bytes(view[-_SEAL_BYTES:])):
        raise CheckpointError("the seal is not that of the content")
    try:
        return _read(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise CheckpointError("the content is of another form") from exc


def _read(body: memoryview) -> State:
    if bytes(body[: len(MAGIC)]) != MAGIC:
        raise CheckpointError("the format is another")
    begin = len(MAGIC) + 8
    length = int.from_bytes(body[len(MAGIC) : begin], "little")
    plain = json.loads(bytes(body[begin : begin + length]))
    start = begin + length
    start += -start % _ALIGNED
    found = {name: _array(body, start, entry) for name, entry in plain["arrays"].items()}
    return State(plain["head"], found)


def _array(body: memoryview, start: int, entry: list[Any]) -> NDArray[Any]:
    kind, shape, place = entry
    if kind not in _TYPES or any(not isinstance(n, int) or n < 0 for n in (*shape, place)):
        raise CheckpointError("an array is of another form")
    array = np.frombuffer(body, kind, count=prod(shape), offset=start + place).reshape(shape)
    array.flags.writeable = False
    return array


_SUFFIX = ".checkpoint"
_ROOM = 4
"""A checkpoint is written only where this many would fit: journal and store need room more."""


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one reader.

    Args:
        path: made at the first write, closed to others.
        key: of the seal; empty for a digest that anybody can form.
    """

    path: Path
    key: bytes = b""

    def load(self, snapshot: str) -> State | None:
        """The newest checkpoint of a snapshot, mapped into memory; None without one.

        Raises:
            CheckpointError: it is damaged, or another's.
        """
        try:
            found = self._files(snapshot)
            if not found:
                return None
            with found[0].open("rb") as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    raise CheckpointError("the file is another user's")
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as exc:
            raise CheckpointError("the file cannot be read") from exc
        return state_of(mapped, key=self.key)

    def keep(self, snapshot: str, name: str, state: State) -> None:
        """Write a checkpoint, durable before it replaces the previous one.

        Args:
            name: of what it was made from; letters and digits.

        Raises:
            OSError: it cannot be written.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = sum(array.nbytes for array in state.arrays.values())
        if shutil.disk_usage(self.path).free < _ROOM * size:
            raise OSError(errno.ENOSPC, "too little room beside a checkpoint", str(self.path))
        path = self.path / f"{_folder_name(snapshot)}-{name}{_SUFFIX}"
        # Two workers of one folder may write the same checkpoint.
        aside = path.with_suffix(f".{os.getpid()}.new")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                seal = Seal(self.key)
                for part in parts_of(state):
                    seal.update(part)
                    file.write(part)
                file.write(seal.value)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        self._sync()
        # Older checkpoints, and halves that a death left.
        for old in self.path.glob(f"{_folder_name(snapshot)}-*"):
            if old != path:
                old.unlink(missing_ok=True)

    def _files(self, snapshot: str) -> list[Path]:
        """The files of a snapshot, newest first. A death between two steps leaves two."""
        found = list(self.path.glob(f"{_folder_name(snapshot)}-*{_SUFFIX}"))
        return sorted(found, key=lambda p: p.stat().st_mtime_ns, reverse=True)

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def shared_folder(state_dir: Path) -> CheckpointFolder:
    """The copies that HTTP processes read: of the same user with the same state folder."""
    return CheckpointFolder(state_dir / "checkpoints")


def name_of(facts: Mapping[str, object]) -> str:
    """A name for a checkpoint of these facts."""
    return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:32]


def _folder_name(snapshot: str) -> str:
    return hashlib.sha256(snapshot.encode()).hexdigest()[:16]


_log = logging.getLogger("qserver.checkpoint")


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint.

    Args:
        cursor: the position in the store's lists up to which everything is in it.
        state: of the replica's parts.
    """

    cursor: Cursor
    state: State


def kept(saved: Saved, folder: CheckpointFolder, meta: DatasetMeta, settings: Settings) -> None:
    """Write a checkpoint; OSError if impossible."""
    cursor = asdict(saved.cursor)
    name = name_of({k: cursor[k] for k in ("head", "charges_head", "paid_head")})
    state = saved.state
    head = {**state.head, "of": facts_of(meta, settings), "cursor": cursor}
    folder.keep(meta.snapshot, name, State(head, state.arrays))


def found(folder: CheckpointFolder | None, meta: DatasetMeta, settings: Settings) -> Saved | None:
    """The checkpoint of a snapshot; None without one of this code and these facts.

    Whether it is of the store's history is for the replica to see.
    """
    if folder is None:
        return None
    try:
        state = folder.load(meta.snapshot)
        if state is None:
            return None
        of, cursor = state.head["of"], Cursor(**state.head["cursor"])
    except (CheckpointError, KeyError, TypeError) as exc:
        note_ignored(meta, str(exc))
        return None
    if of != facts_of(meta, settings):
        note_ignored(meta, "it was made by other code, or for other facts or settings")
        return None
    return Saved(cursor, state)


def note_ignored(meta: DatasetMeta, reason: str) -> None:
    """Log that a checkpoint is useless; only the time that it costs would show it."""
    _log.warning("the checkpoint of snapshot %s is ignored: %s", meta.snapshot, reason)


def facts_of(meta: DatasetMeta, settings: Settings) -> Mapping[str, Any]:
    """The facts behind the figures besides the store's lists."""
    return {"code": code_version(), "meta": meta.to_json(), "max_rows": settings.max_rows}
