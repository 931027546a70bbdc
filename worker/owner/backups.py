"""One file with store, journals and private data of one moment, and the way back.

The file of a backup: a tar of pieces, a note with their digests, and a digest of the whole.

store/...                     what a server loads from its `appendonlydir`
worker/fingerprint.key, worker/datasets.json, worker/journals/...
worker/seals/..., worker/parts/...      the private data as codes, unless they were left out
backup.json                   the note
64 hexadecimal digits and a newline behind the tar: SHA-256 of all bytes before

`qserver-worker backup`: store, journals and private data as of one moment, in one file.

The moment is one at which no journal is being written to: a crash there would leave the same files.
Then all files are open, so workers and commands go on while they are copied. A store of its own
server is asked for a snapshot just before, so it may know less than the journals, as after any
restore.

`qserver-worker restore FILE`: make a state folder of a backup, checked before it can serve.

A backup has store and journal of one moment, so neither notices what was charged since. What was
drawn since must never become free to spend again. So a population is *closed* unless something from
outside speaks for its journal: a witness, or the owner's word, which the journal then has. Of a
closed population history is answered, and nothing is drawn any more (`docs/guarantee.md`, 9).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import resource
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

import qserver
from qserver.config import Settings
from qserver.errors import ConfigError, JournalError, StoreCorruptError
from qserver.records.charge import epsilon_text
from qserver.storage.keys import Keys
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.store_snapshot import (
    FOLDER,
    Piece,
    files_of_embedded,
    snapshot_of_server,
)
from worker.journal.append_only_files import sync_folder
from worker.journal.journal import Journal
from worker.journal.records import Restored
from worker.journal.witness import WitnessSettings
from worker.owner.checks.audit import audit, examine
from worker.owner.restore import restore
from worker.private.registry import Registry, RegistryEntry

FORMAT = 1
_NOTE = "backup.json"
_SEAL_BYTES = 65
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Kept:
    """The backup of one population: its journal's length, last digest and sums.

    Args:
        spent_nano, limit_nano: in 1e-9 of the unit, which is `rho` under zcdp.
    """

    n_lines: int
    head: str
    spent_nano: int
    limit_nano: int | None
    unit: str = "epsilon"


@dataclass(frozen=True)
class Note:
    """The backup's word on itself.

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
    """A file that digests its writes."""

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
    """The bytes of a piece from its start, digested as they are read."""

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
        partial.unlink(missing_ok=True)  # left by a killed run
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
    """The note of a backup whose every byte is as written.

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
    """The part that differs from the note; the frame if all agree."""
    try:
        with tarfile.open(source, mode="r:") as tar:
            for member, file in _members(tar):
                digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
                if member.name != _NOTE and plain["files"].get(member.name) != digest:
                    return member.name
    except (OSError, tarfile.TarError, StoreCorruptError):
        pass
    return "The note, or the frame of a part,"


def back_up(
    target: Path,
    *,
    settings: Settings,
    registry: Registry,
    with_data: bool,
    say: Callable[[str], None],
) -> Note:
    """Write one file, from which `qserver-worker restore` makes a state folder.

    Args:
        target: a file that is not there yet.
        with_data: put the private data in as well.
        say: shows a line about what cannot be in the file.

    Raises:
        ConfigError: the file is there, or there is nothing to back up.
        StoreError, JournalError: store or a journal cannot be read.
    """
    if target.exists():
        raise ConfigError("file", "not be there yet", str(target))
    names = registry.populations()
    if not names:
        raise ConfigError("state", "hold an attached dataset", hint="Its worker folder is empty.")
    _allow_open_files()
    with ExitStack() as stack:
        pieces = snapshot_of_server(settings.redis_url, stack) if settings.redis_url else []
        journals = {name: registry.journal(name, create=False) for name in names}
        with ExitStack() as held:
            held.enter_context(registry.still())
            for journal in journals.values():
                held.enter_context(journal.exclusive())
            made_at = int(time.time())
            pieces = pieces or files_of_embedded(settings.state_dir, stack)
            pieces = [Piece(f"store/{one.name}", one.file, one.n_bytes) for one in pieces]
            pieces += _of_worker(registry, journals, stack)
            if with_data:
                pieces += _of_data(registry, stack, say)
            populations = {name: _kept(journal) for name, journal in journals.items()}
        return write_archive(
            target, pieces, populations=populations, made_at=made_at, with_data=with_data
        )


def _kept(journal: Journal) -> Kept:
    said = journal.testimony
    unit = "epsilon" if journal.state.delta is None else "rho"
    return Kept(said.number, said.head.hex(), said.spent_nano, journal.state.limit_nano, unit)


def _of_worker(
    registry: Registry, journals: dict[str, Journal], stack: ExitStack
) -> Iterator[Piece]:
    registry.key()
    for name in ("fingerprint.key", "datasets.json"):
        if (registry.folder / name).exists():  # without a dataset the store has no list of them
            yield Piece.of_file(f"worker/{name}", registry.folder / name, stack)
    for name, journal in journals.items():
        yield Piece.of_file(f"worker/journals/{name}.journal", journal.path, stack)


def _of_data(registry: Registry, stack: ExitStack, say: Callable[[str], None]) -> Iterator[Piece]:
    for entry in registry.entries().values():
        if entry.spark is not None:
            say(f"warning: the codes of {entry.name} are on Spark, and not in the backup")
            continue
        for path in _data_files(registry, entry):
            name = path.relative_to(registry.folder).as_posix()
            try:
                yield Piece.of_file(f"worker/{name}", path, stack)
            except FileNotFoundError:
                say(f"warning: {path} of {entry.name} is missing, and not in the backup")


def _data_files(registry: Registry, entry: RegistryEntry) -> list[Path]:
    if entry.sealed:
        return [registry.seal_path(entry)]
    folder = registry.folder / "parts" / entry.snapshot
    # Parts get their names once they are whole.
    return sorted(folder.glob("*.part")) if folder.is_dir() else []


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


_ASKED = ("journal of ", "books of ", "released answers of ", "witness of ")
"""The checks of the worker's doctor that a restored folder must pass."""


@dataclass(frozen=True)
class PutBack:
    """What to restore, and on whose word.

    Args:
        file: the backup.
        journals: a folder with later copies of journals; None for none.
        nothing_since: populations of which nothing was charged since, by the owner's word.
    """

    file: Path
    journals: Path | None = None
    nothing_since: Sequence[str] = ()


def put_back(
    request: PutBack,
    *,
    settings: Settings,
    witness: WitnessSettings | None,
    log: logging.Logger,
    say: Callable[[str], None],
) -> bool:
    """Make the state folder of the settings, which must be empty or missing.

    Returns:
        Whether every population may go on spending.

    Raises:
        ConfigError: the folder has something, or the file is no backup.
        StoreCorruptError: the backup was changed, or its books do not agree. Nothing is left.
        JournalError: a witness, or a later copy, has another journal. Nothing is left.
    """
    target = settings.state_dir.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError("state", "be an empty folder, or one that is not there yet", str(target))
    note = read_note(request.file)
    for name in set(request.nothing_since) - note.populations.keys():
        raise ConfigError("nothing_since", "name a population of the backup", name)
    with _becoming(target) as folder:
        extract(request.file, note, folder)
        _take_places(folder)
        registry = Registry(folder, witness=witness)
        if request.journals is not None:
            _take_later(registry, request.journals, say)
        names = registry.populations()
        is_open = [_decide(registry, name, request) for name in names]
        _check(replace(settings, redis_url="", state_dir=folder), registry, note, log, say)
    for name, may_spend in zip(names, is_open, strict=True):
        say(_outcome(name, may_spend=may_spend))
    return all(is_open)


@contextmanager
def _becoming(target: Path) -> Iterator[Path]:
    """A folder that takes the name `target` at the block's end; after an error nothing is left."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a killed run
    partial.mkdir(mode=0o700, parents=True)
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(target.parent, fsync=os.fsync)


def _take_places(folder: Path) -> None:
    """Move the store's files to where a server expects them."""
    (folder / FOLDER).parent.mkdir(mode=0o700)
    (folder / "store").rename(folder / FOLDER)


def _take_later(registry: Registry, copies: Path, say: Callable[[str], None]) -> None:
    """Replace the backup's journals by later copies that continue them.

    Raises:
        JournalError: a copy has other lines.
    """
    for copy in sorted(copies.glob("*.journal")):
        name, here = copy.stem, registry.journals / copy.name
        # Also of a population that came later: its people's spending stays known.
        before, text = here.read_bytes() if here.exists() else b"", copy.read_bytes()
        if not (text.startswith(before) or before.startswith(text)):
            raise JournalError(
                f"{copy} has other lines than the backup's journal: it is of another folder, or "
                "one of both went on from an older copy."
            )
        if len(text) > len(before):
            here.touch(mode=0o600)
            here.write_bytes(text)
            say(f"Population {name}: the later journal of {copies} is taken.")


def _decide(registry: Registry, name: str, request: PutBack) -> bool:
    """Decide whether the population may continue; unproven words go into its journal.

    Raises:
        JournalError: the witness has seen more than the journal has.
    """
    journal = registry.journal(name, create=False)
    with journal.exclusive():
        # It has a line before each draw and each answer: all of them are in this journal.
        if _has_witness(journal) and journal.check_witness():
            return not journal.state.closed
        if name in request.nothing_since:
            journal.append(Restored("nothing since"))
        else:
            journal.append(Restored("unknown"))
        return not journal.state.closed


def _has_witness(journal: Journal) -> bool:
    return journal.witness is not None and journal.witness.path.exists()


def _check(
    settings: Settings,
    registry: Registry,
    note: Note,
    log: logging.Logger,
    say: Callable[[str], None],
) -> None:
    """Bring the store up to the journals, and let the books examine both; StoreCorruptError."""
    with EmbeddedServer.start(settings.state_dir) as server:
        client = connect(server.url, role="restore")
        # The workers that held them do not belong to this store.
        client.delete(*[Keys(name).lease for name in registry.populations()])
        client.close()
        restore(settings, registry=registry, accept_loss=(), log=log, say=say)
        findings = [(f.check, f.ok, f.text) for f in examine(registry, settings)]
        faults = [f"{check}: {text}" for check, ok, text in findings if not ok and _asked(check)]
        checks = audit(registry, settings)
        faults += [f"{check.subject}: {check.text}" for check in checks if not check.ok]
        if faults:
            raise StoreCorruptError(f"The backup is not put back. {' '.join(faults)}")
        for check, ok, text in findings:
            if check.startswith("data of ") and not ok:
                say(f"warning: {check}: {text if note.with_data else 'not in the backup'}")


def _asked(check: str) -> bool:
    return check.startswith(_ASKED)


def _outcome(name: str, *, may_spend: bool) -> str:
    if may_spend:
        return f"Population {name} goes on where its journal ends."
    return (
        f"Population {name} is CLOSED: nothing tells what was charged since the backup, so nothing "
        "is drawn any more; history is answered. To have it open, restore the file into another "
        "folder with the witness (--witness), or, if you know that nothing was charged since, "
        f"with --nothing-since {name}."
    )


def kept_lines(note: Note) -> list[str]:
    """The content of a backup, in words."""
    return [
        f"  population {name}: {kept.n_lines:,} lines, the last {kept.head[:16]}, "
        f"{epsilon_text(kept.spent_nano)} of {epsilon_text(kept.limit_nano or 0)} {kept.unit} spent"
        for name, kept in note.populations.items()
    ]
