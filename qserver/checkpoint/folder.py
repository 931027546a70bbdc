"""Where checkpoints are: a folder of one's own, with one file for each snapshot at most."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qserver.checkpoint.file import CheckpointError, Seal, parts_of, state_of
from qserver.records.state import State

_SUFFIX = ".checkpoint"
_ROOM = 4
"""A checkpoint is written only where this many would fit: journal and store need room more."""
_OPEN_TO_OTHERS = 0o077


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
        """The newest checkpoint of a snapshot, mapped into memory; None if there is none.

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
        """Write a checkpoint, durable before it takes the place of the one before.

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
        # Two workers of one folder may write the same one.
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
        # Older ones, and what a death left half written.
        for old in self.path.glob(f"{_folder_name(snapshot)}-*"):
            if old != path:
                old.unlink(missing_ok=True)

    def _files(self, snapshot: str) -> list[Path]:
        """The files of a snapshot, the newest first. A death between two leaves two."""
        found = list(self.path.glob(f"{_folder_name(snapshot)}-*{_SUFFIX}"))
        return sorted(found, key=lambda p: p.stat().st_mtime_ns, reverse=True)

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def shared_folder(state_dir: Path) -> CheckpointFolder:
    """The copies that HTTP processes read: those of the same user with the same state folder."""
    return CheckpointFolder(state_dir / "checkpoints")


def name_of(facts: Mapping[str, object]) -> str:
    """A name for a checkpoint of these facts."""
    return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:32]


def _folder_name(snapshot: str) -> str:
    return hashlib.sha256(snapshot.encode()).hexdigest()[:16]
