"""`qserver-worker backup`: store, journals and private data as of one moment, in one file.

The moment is one at which no journal is being written to: a crash there would leave the same files.
Then all files are open, so workers and commands go on while they are copied. A store of its own
server is asked for a snapshot just before, so it may know less than the journals, as after any
restore.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.storage.operation.backup import (
    Piece,
    files_of_embedded,
    snapshot_of_server,
)
from worker.journal.journal import Journal
from worker.owner.backups.archive import Kept, Note, write_archive
from worker.private.registry import Registry, RegistryEntry


def back_up(
    target: Path,
    *,
    settings: Settings,
    registry: Registry,
    with_data: bool,
    say: Callable[[str], None],
) -> Note:
    """Write one file that `qserver-worker restore` makes a state folder of.

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
    return Kept(said.number, said.head.hex(), said.spent_nano, journal.state.limit_nano)


def _of_worker(
    registry: Registry, journals: dict[str, Journal], stack: ExitStack
) -> Iterator[Piece]:
    registry.key()
    for name in ("fingerprint.key", "datasets.json"):
        if (registry.folder / name).exists():  # without a dataset there is no list of them
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
