"""The worker's private folder: its key, what is attached, and the journals. Mode 0700.

It holds where the private files are and the keyed fingerprints of their contents. Nothing of it
ever goes to the store.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from qserver.errors import ConfigError, NotFoundError
from worker.journal import Journal

_KEY_BYTES = 32


@dataclass(frozen=True)
class Entry:
    """One attached dataset: its private file and the fingerprint that the file must have."""

    name: str
    population: str
    snapshot: str
    data: str
    domain: Mapping[str, object]
    records_per_person: int
    fingerprint: str


class Registry:
    """What is attached at this worker.

    Args:
        state_dir: the folder that the server's settings name; private files live in `worker/`.
    """

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "worker"
        for folder in (self.folder, self.folder / "journals"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.folder.stat().st_mode & 0o077:
            raise ConfigError(
                "state_dir", "keep its worker folder closed to others", hint="Run chmod 700 on it."
            )

    @property
    def log_path(self) -> Path:
        """The worker's own log, private."""
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

    def entries(self) -> dict[str, Entry]:
        """The attached datasets by name."""
        path = self.folder / "datasets.json"
        if not path.exists():
            return {}
        plain = json.loads(path.read_text(encoding="utf-8"))
        return {name: Entry(**fields) for name, fields in plain.items()}

    def entry(self, name: str) -> Entry:
        """One attached dataset.

        Raises:
            NotFoundError: there is none of this name.
        """
        found = self.entries().get(name)
        if found is None:
            raise NotFoundError("attached dataset", name)
        return found

    def data_path(self, entry: Entry) -> Path:
        """Where a dataset's private file is."""
        return Path(entry.data)

    def put(self, entry: Entry) -> None:
        """Remember a dataset; durable when this returns."""
        self._write({**self.entries(), entry.name: entry})

    def remove(self, name: str) -> None:
        """Forget a dataset. Its population's journal stays."""
        self._write({k: v for k, v in self.entries().items() if k != name})

    def journal(self, population: str, *, create: bool) -> Journal:
        """The journal of a population.

        Raises:
            JournalError: it is missing (without `create`), damaged or another population's.
        """
        path = self.folder / "journals" / f"{population}.journal"
        return Journal.open(path, population=population, create=create)

    def _write(self, entries: Mapping[str, Entry]) -> None:
        path = self.folder / "datasets.json"
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump({name: asdict(entry) for name, entry in entries.items()}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(0o600)
        new.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
