"""The worker's private folder: its key, the attached datasets, and the journals. Mode 0700.

It knows the paths of the private files and the keyed fingerprints of their contents. Nothing in it
ever goes to the store.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from qserver.answering.checkpoint import CheckpointFolder
from qserver.errors import ConfigError, NotFoundError
from qserver.query.domain_file import domain_from_document
from qserver.records.codec import ALWAYS, plain, read
from worker.journal.journal import Journal
from worker.journal.witness import Witness, WitnessSettings
from worker.private.parts import PartFolder, sweep_folders
from worker.private.seal_file import SUFFIX, NewSeal
from worker.private.truncation import PeriodRule, PersonRule

_KEY_BYTES = 32


@dataclass(frozen=True)
class RegistryEntry:
    """One attached snapshot: the source of its data, and the fingerprint of its seal.

    Args:
        data: path or address of the source, without secrets; '' where data arrive over time, in
            parts.
        person_column: column that names the person of a record; '' if k is only declared.
        by_period: what is kept of a person by period, as `PeriodRule.to_plain`; None where the file
            is truncated as a whole.
        late: what becomes of records of sealed periods where `append` does not say.
        sealed: whether the sorted codes are in this folder, and the fingerprint is theirs. An
            earlier version read the file at each start, and had the fingerprint of its order.
        spark: where its codes are on Spark, as `SparkCodes.to_plain`; None where they are here.
        person_type: what the column of persons held when it was sealed, in words; '' where nobody
            knows, and None of an earlier version, which named the same person otherwise in
            columns of other types.
        as_it_is: whether the owner said that columns may be lost.
        content: what the file held, where the journal does not have it: see `Content.details`.
    """

    name: str
    population: str
    snapshot: str
    data: str
    domain: Mapping[str, object]
    records_per_person: int
    fingerprint: str
    person_column: str = field(default="", metadata=ALWAYS)
    by_period: Mapping[str, int | None] | None = None
    late: Literal["drop", "move"] = "drop"
    sealed: bool = False
    content: Mapping[str, str] | None = None
    spark: Mapping[str, object] | None = None
    person_type: str | None = None
    as_it_is: bool = False

    @property
    def grows(self) -> bool:
        """Whether data arrive over time, in parts."""
        return not self.data

    @property
    def person_rule(self) -> PersonRule | None:
        """The rule for records of one person; None keeps all."""
        if not self.person_column:
            return None
        by_period = None if self.by_period is None else read(PeriodRule, self.by_period)
        return PersonRule(self.person_column, self.records_per_person, by_period)


class Registry:
    """The datasets that are attached at this worker.

    Args:
        state_dir: the state folder of the settings; the private folder is its `worker/`.
        witness: where the witnesses of the journals are; None for none.
    """

    def __init__(self, state_dir: Path, *, witness: WitnessSettings | None = None) -> None:
        self._witness = witness
        self.folder = state_dir / "worker"
        self.journals = self.folder / "journals"
        self.seals = self.folder / "seals"
        for folder in (self.folder, self.journals, self.seals):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.folder.stat().st_mode & 0o077:
            raise ConfigError(
                "state_dir", "keep its worker folder closed to others", hint="Run chmod 700 on it."
            )

    @property
    def log_path(self) -> Path:
        """The worker's private log."""
        return self.folder / "worker.log"

    def key(self) -> bytes:
        """The secret key of the fingerprints, made on first use."""
        path = self.folder / "fingerprint.key"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_bytes()
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        return path.read_bytes()

    def checkpoints(self) -> CheckpointFolder:
        """The worker's own checkpoints, sealed with a key that follows from the secret one."""
        key = hmac.digest(self.key(), b"checkpoints", "sha256")
        return CheckpointFolder(self.folder / "checkpoints", key)

    def plans(self) -> CheckpointFolder:
        """The last plan of each snapshot, sealed likewise."""
        key = hmac.digest(self.key(), b"plans", "sha256")
        return CheckpointFolder(self.folder / "plans", key)

    def mark(self) -> tuple[int, int] | None:
        """A mark that changes with each change of the attached datasets."""
        try:
            found = (self.folder / "datasets.json").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, RegistryEntry]]:
        """The entries, for one command at a time to change; durable at the end."""
        with self._locked("datasets.lock"):
            entries = self.entries()
            yield entries
            self._write(entries)
            self._sweep_seals(entries)

    def _sweep_seals(self, entries: Mapping[str, RegistryEntry]) -> None:
        """Delete the seals of detached snapshots: they are copies of private data."""
        named = {self.seal_path(entry) for entry in entries.values()}
        for path in self.seals.iterdir():
            if path not in named:
                path.unlink(missing_ok=True)

    def still(self) -> contextlib.AbstractContextManager[None]:
        """Keep other commands from changing the attached datasets and their seals."""
        return self._locked("datasets.lock")

    def comparing(self) -> contextlib.AbstractContextManager[None]:
        """Keep other commands from writing down a new snapshot during a comparison."""
        return self._locked("content.lock")

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        descriptor = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def entries(self) -> dict[str, RegistryEntry]:
        """The attached snapshots by dataset name, and by `NAME/SNAPSHOT` for the next ones.

        During a rotation both snapshots of a dataset are here, as either may be the store's.
        """
        path = self.folder / "datasets.json"
        if not path.exists():
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: RegistryEntry(**fields) for name, fields in found.items()}

    def entry(self, name: str) -> RegistryEntry:
        """One attached dataset; NotFoundError for an unknown name."""
        found = self.entries().get(name)
        if found is None:
            raise NotFoundError("attached dataset", name)
        return found

    def by_snapshot(self, entry: RegistryEntry) -> RegistryEntry:
        """The present entry of the same snapshot; NotFoundError if detached."""
        for found in self.entries().values():
            if found.snapshot == entry.snapshot:
                return found
        raise NotFoundError("attached snapshot", entry.snapshot)

    def put(self, entry: RegistryEntry, seal: NewSeal | None = None) -> None:
        """Remember a dataset and keep its seal; durable when this returns."""
        with self._changing() as entries:
            self._keep(entry, seal)
            entries[entry.name] = entry

    def put_next(self, entry: RegistryEntry, seal: NewSeal | None = None) -> None:
        """Remember the next snapshot of a dataset and keep its seal; durable when this returns."""
        with self._changing() as entries:
            _forget_next(entries, entry.name)
            self._keep(entry, seal)
            entries[f"{entry.name}/{entry.snapshot}"] = entry

    def put_seal(self, entry: RegistryEntry, seal: NewSeal) -> None:
        """Keep the seal of a snapshot of an earlier version, if still attached.

        Args:
            entry: as it is from now on.
        """
        with self._changing() as entries:
            for key, found in entries.items():
                if found.snapshot == entry.snapshot and not found.sealed:
                    self._keep(entry, seal)
                    entries[key] = entry
                    return

    def _keep(self, entry: RegistryEntry, seal: NewSeal | None) -> None:
        if seal is not None:
            # One that died before its registration; the snapshot may be the same.
            self.seal_path(entry).unlink(missing_ok=True)
            seal.keep_as(self.seal_path(entry))

    def seal_path(self, entry: RegistryEntry) -> Path:
        """The path of a snapshot's seal."""
        return self.seals / (entry.snapshot + SUFFIX)

    def settle(self, name: str, *, snapshot: str) -> None:
        """Keep only this snapshot of a dataset, as the store has decided.

        Raises:
            NotFoundError: the snapshot is not here.
        """
        with self._changing() as entries:
            found = [e for e in entries.values() if (e.name, e.snapshot) == (name, snapshot)]
            if not found:
                raise NotFoundError("attached snapshot", snapshot)
            _forget_next(entries, name)
            entries[name] = found[0]

    def remove(self, name: str) -> None:
        """Forget a dataset. Its population's journal stays."""
        with self._changing() as entries:
            _forget_next(entries, name)
            entries.pop(name, None)

    def parts(self, entry: RegistryEntry) -> PartFolder:
        """The part files of a dataset whose data arrive over time."""
        folder = self.folder / "parts" / entry.snapshot
        return PartFolder(folder, domain_from_document(entry.domain), key=self.key())

    def sweep_parts(self) -> None:
        """Delete the parts of detached snapshots."""
        sweep_folders(
            self.folder / "parts",
            named=lambda: {entry.snapshot for entry in self.entries().values()},
        )

    def populations(self) -> list[str]:
        """Every population with a journal here, also those without a dataset now."""
        found = self.journals.glob("*.journal")
        # An attach that died at once may have left an empty file.
        return sorted(path.stem for path in found if path.stat().st_size)

    def has_journal(self, population: str) -> bool:
        """Whether the population has a journal file, sound or not."""
        return self._journal_path(population).exists()

    def journal(self, population: str, *, create: bool) -> Journal:
        """The journal of a population.

        Raises:
            JournalError: it is missing (without `create`), damaged or another population's.
        """
        path = self._journal_path(population)
        journal = Journal.open(path, population=population, create=create)
        if self._witness is not None:
            journal.witness = Witness(self._witness, population=population, key=self.key())
        return journal

    def _journal_path(self, population: str) -> Path:
        return self.journals / f"{population}.journal"

    def _write(self, entries: Mapping[str, RegistryEntry]) -> None:
        path = self.folder / "datasets.json"
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump({name: plain(entry) for name, entry in entries.items()}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(0o600)
        new.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _forget_next(entries: dict[str, RegistryEntry], name: str) -> None:
    """Remove the next snapshots of a dataset."""
    for key in [key for key in entries if key.startswith(f"{name}/")]:
        del entries[key]
