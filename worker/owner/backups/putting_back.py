"""`qserver-worker restore FILE`: make a state folder of a backup, checked before it can serve.

A backup has store and journal of one moment, so neither notices what was charged since. What was
drawn since must never become free to spend again. So a population is *closed* unless something from
outside speaks for its journal: a witness, or the owner's word, which the journal then has. Of a
closed population history is answered, and nothing is drawn any more (`docs/guarantee.md`, 9).
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError, JournalError, StoreCorruptError
from qserver.records.charge import epsilon_text
from qserver.storage.keys import Keys
from qserver.storage.operation.backup import FOLDER
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from worker.journal.files import sync_folder
from worker.journal.journal import Journal
from worker.journal.records import Restored
from worker.journal.witness import WitnessSettings
from worker.owner.backups.archive import Note, extract, read_note
from worker.owner.checks.audit import audit, examine
from worker.owner.restore import restore
from worker.private.registry import Registry

_ASKED = ("journal of ", "books of ", "released answers of ", "witness of ")
"""The checks of the worker's doctor that a restored folder must pass."""


@dataclass(frozen=True)
class PutBack:
    """What to put back, and on whose word.

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
    """Make the state folder of the settings, which must be empty or not there.

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
    """A folder that takes the name `target` once the block has ended; else nothing is left."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # one that was killed left it
    partial.mkdir(mode=0o700, parents=True)
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(target.parent, fsync=os.fsync)


def _take_places(folder: Path) -> None:
    """Move the store's files to where a server looks for them."""
    (folder / FOLDER).parent.mkdir(mode=0o700)
    (folder / "store").rename(folder / FOLDER)


def _take_later(registry: Registry, copies: Path, say: Callable[[str], None]) -> None:
    """Let later copies of journals stand for those of the backup, where they go on from these.

    Raises:
        JournalError: a copy has other lines.
    """
    for copy in sorted(copies.glob("*.journal")):
        name, here = copy.stem, registry.journals / copy.name
        # Also of a population that came later: what was spent on its people stays known.
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
    """Whether the population may go on; what nobody proves is written into its journal.

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
    """Bring the store up to the journals, and let the books see both; StoreCorruptError."""
    with EmbeddedServer.start(settings.state_dir) as server:
        client = connect(server.url, role="restore")
        # The workers that held them are not of this store.
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
    """What a backup has, in words."""
    return [
        f"  population {name}: {kept.n_lines:,} lines, the last {kept.head[:16]}, "
        f"{epsilon_text(kept.spent_nano)} of {epsilon_text(kept.limit_nano or 0)} epsilon spent"
        for name, kept in note.populations.items()
    ]
