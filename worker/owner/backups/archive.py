"""The file of a backup: a tar of pieces, a note with their digests, and a digest of the whole.

store/...                     what a server loads from its `appendonlydir`
worker/fingerprint.key, worker/datasets.json, worker/journals/...
worker/seals/..., worker/parts/...      the private data as codes, unless they were left out
backup.json                   the note
64 hexadecimal digits and a newline behind the tar: SHA-256 of all bytes before
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import qserver
from qserver.errors import ConfigError, StoreCorruptError
from qserver.storage.operation.backup import Piece
from worker.journal.files import sync_folder

FORMAT = 1
_NOTE = "backup.json"
_SEAL_BYTES = 65
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Kept:
    """What a backup has of one population: how long its journal is, its last digest, its sums."""

    n_lines: int
    head: str
    spent_nano: int
    limit_nano: int | None


@dataclass(frozen=True)
class Note:
    """What a backup says of itself.

    Args:
        version: of the qserver that made it.
        made_at: Unix time in whole seconds.
        populations: by name.
        files: SHA-256 in hexadecimal by name.
        with_data: whether seals and parts are in it.
    """

    version: str
    made_at: int
    populations: Mapping[str, Kept]
    files: Mapping[str, str]
    with_data: bool


class _Sealing:
    """A file that digests what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, text: bytes) -> int:
        self._digest.update(text)
        return self._file.write(text)

    def seal(self) -> None:
        self._file.write(self._digest.hexdigest().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


class _Beginning:
    """The bytes of a piece from its first one on, digested as they are read."""

    def __init__(self, piece: Piece) -> None:
        piece.file.seek(0)
        self._file = piece.file
        self.digest = hashlib.sha256()

    def read(self, n_bytes: int) -> bytes:
        text = self._file.read(n_bytes)
        self.digest.update(text)
        return text


def write_archive(
    target: Path,
    pieces: Sequence[Piece],
    *,
    populations: Mapping[str, Kept],
    made_at: int,
    with_data: bool,
) -> Note:
    """Write a new file, whole or not at all; durable when this returns. Mode 0600.

    Raises:
        ConfigError: there is a file of this name, or its folder cannot be written to.
    """
    partial = target.with_name(target.name + ".partial")
    try:
        partial.unlink(missing_ok=True)  # one that was killed left it
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                sealing = _Sealing(file)
                note = _write_pieces(sealing, pieces, populations, made_at, with_data=with_data)
                sealing.seal()
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(target.parent, fsync=os.fsync)
    except OSError as exc:
        raise ConfigError("file", f"be writable ({exc.strerror})", str(target)) from exc
    return note


def _write_pieces(
    sealing: _Sealing,
    pieces: Sequence[Piece],
    populations: Mapping[str, Kept],
    made_at: int,
    *,
    with_data: bool,
) -> Note:
    files = dict[str, str]()
    with tarfile.open(fileobj=sealing, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for piece in pieces:
            source = _Beginning(piece)
            tar.addfile(_info(piece, made_at), source)
            files[piece.name] = source.digest.hexdigest()
        note = Note(qserver.__version__, made_at, populations, files, with_data)
        text = json.dumps({"format": FORMAT, **asdict(note)}, indent=1).encode()
        piece = Piece.of_text(_NOTE, text)
        tar.addfile(_info(piece, made_at), piece.file)
    return note


def _info(piece: Piece, made_at: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(piece.name)
    info.size, info.mode, info.mtime = piece.n_bytes, 0o600, made_at
    return info


def read_note(source: Path) -> Note:
    """The note of a backup, every byte of which is as it was written.

    Raises:
        ConfigError: it is no backup, or one of a newer qserver.
        StoreCorruptError: it was changed or cut; it names the part.
    """
    try:
        is_whole = _is_whole(source)
        with tarfile.open(source, mode="r:") as tar:
            plain = json.load(tar.extractfile(_NOTE))  # type: ignore[arg-type]
    except (OSError, tarfile.TarError, ValueError, KeyError, AttributeError) as exc:
        raise ConfigError(
            "file",
            "be a whole backup made by `qserver-worker backup`",
            str(source),
            hint="It is no such file, or it was cut or changed: take another copy.",
        ) from exc
    if plain.get("format") != FORMAT:
        raise ConfigError(
            "file", "be a backup of this qserver", hint="A newer one wrote it: use that one."
        )
    if not is_whole:
        raise StoreCorruptError(
            f"{_changed_part(source, plain)} of the backup {source} is not as it was written. "
            "Nothing was put back: take another copy of the backup."
        )
    populations = {name: Kept(**fields) for name, fields in plain["populations"].items()}
    return Note(plain["version"], plain["made_at"], populations, plain["files"], plain["with_data"])


def extract(source: Path, note: Note, folder: Path) -> None:
    """Write the parts of a backup below a new folder; durable when this returns.

    Raises:
        StoreCorruptError: a part is not the one that the note names.
    """
    found = dict[str, str]()
    with tarfile.open(source, mode="r:") as tar:
        for member, file in _members(tar):
            path = folder / _safe(member.name, source)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            digest = hashlib.sha256()
            with os.fdopen(descriptor, "wb") as target:
                while text := file.read(_CHUNK):
                    digest.update(text)
                    target.write(text)
                target.flush()
                os.fsync(descriptor)
            found[member.name] = digest.hexdigest()
    found.pop(_NOTE, None)
    if found != dict(note.files):
        raise StoreCorruptError(f"The parts of the backup {source} are not those of its note.")
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            sync_folder(path, fsync=os.fsync)


def _safe(name: str, source: Path) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise StoreCorruptError(f"The backup {source} names a file outside of its folder, {name}.")
    return Path(path)


def _members(tar: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    for member in tar:
        file = tar.extractfile(member) if member.isreg() else None
        if file is None:
            raise StoreCorruptError(f"The backup holds {member.name}, which is no file.")
        yield member, file


def _is_whole(source: Path) -> bool:
    left = source.stat().st_size - _SEAL_BYTES
    digest = hashlib.sha256()
    with source.open("rb") as file:
        while left > 0 and (text := file.read(min(_CHUNK, left))):
            digest.update(text)
            left -= len(text)
        return file.read() == digest.hexdigest().encode() + b"\n"


def _changed_part(source: Path, plain: Any) -> str:
    """Which part differs from the note; the frame where all of them agree."""
    try:
        with tarfile.open(source, mode="r:") as tar:
            for member, file in _members(tar):
                digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
                if member.name != _NOTE and plain["files"].get(member.name) != digest:
                    return member.name
    except (OSError, tarfile.TarError, StoreCorruptError):
        pass
    return "The note, or the frame of a part,"
