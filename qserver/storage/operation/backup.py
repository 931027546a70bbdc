"""Backups of the embedded store: a copy of its files that was loaded and checked.

    BACKUP/backup.json            its contents, with the files' digests
    BACKUP/redis/appendonlydir/   the data, as in a state folder

A backup holds released answers, charges and accounts, as the store does. It holds nothing of the
worker's folder; keep the journal there apart from the store and its backups.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qserver.errors import ConfigError, StoreCorruptError, StoreUnavailableError
from qserver.storage.constants import STORE
from qserver.storage.keys import DATASETS, SCHEMA, Keys
from qserver.storage.server.aof import MANIFEST, manifest_entries, scan_aof, sync
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.state_folder import StateFolder

BACKUP_VERSION = 1
_FOLDER = Path("redis") / "appendonlydir"


@dataclass(frozen=True)
class PopulationFacts:
    """The facts of one population in a store.

    Args:
        version: number of the ledger's last charge.
        spent_nano, limit_nano: in 1e-9 epsilon.
        n_charges: lines of the ledger.
    """

    version: int
    spent_nano: int
    limit_nano: int
    n_charges: int


@dataclass(frozen=True)
class Backup:
    """A backup that was checked.

    Args:
        made_at: Unix time in whole seconds.
        schema: the store's schema version, '' of an unused store.
        populations: facts by name.
        files: SHA-256 in hexadecimal by name.
    """

    made_at: int
    schema: str
    populations: Mapping[str, PopulationFacts]
    files: Mapping[str, str]


def make_backup(state_dir: Path, target: Path) -> Backup:
    """Copy the store on `state_dir`, running or not, into a new folder, and load the copy.

    Raises:
        ConfigError: `target` exists, or there is no store on `state_dir`.
        StoreUnavailableError: the running store does not answer, or rewrites its files too long.
        StoreCorruptError: the copy cannot be loaded.
    """
    if target.exists():
        raise ConfigError("to", "be a folder that is not there yet", str(target))
    source = StateFolder(state_dir.absolute())
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    with _files_at_rest(source):
        _copy_files(source.data / "appendonlydir", partial / _FOLDER)
    facts = _load(partial)
    backup = Backup(
        made_at=int(time.time()),
        schema=facts.schema,
        populations=facts.populations,
        files=_digests(partial / _FOLDER),
    )
    _write_note(partial, backup)
    partial.rename(target)
    return backup


def restore_backup(source: Path, state_dir: Path) -> Backup:
    """Put a backup on a state folder that has no store yet, and load it there.

    Nothing may be drawn before the worker's journal has been compared: `qserver-worker restore`.

    Raises:
        ConfigError: `source` is no backup, or `state_dir` has a store.
        StoreCorruptError: the backup was changed, or cannot be loaded.
    """
    backup = read_note(source)
    if _digests(source / _FOLDER) != dict(backup.files):
        raise StoreCorruptError(f"The files of {source} are not those that were backed up.")
    folder = StateFolder.prepare(state_dir)
    if (folder.data / "appendonlydir").exists():
        raise ConfigError(
            "state", "have no store yet; move its folder `redis` away", str(state_dir)
        )
    fd = folder.lock(timeout_s=STORE.lock_wait_s)
    try:
        _copy_files(source / _FOLDER, folder.data / "appendonlydir")
    finally:
        os.close(fd)
    found = _load(folder.root, keep=True)
    if found.populations != dict(backup.populations) or found.schema != backup.schema:
        raise StoreCorruptError(f"The store in {source} is not the one that was backed up.")
    return backup


def read_note(source: Path) -> Backup:
    """The facts in the note of a backup.

    Raises:
        ConfigError: it is no backup, or one of a newer qserver.
    """
    try:
        plain = json.loads((source / "backup.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError("from", "be a backup made by `qserver backup`", str(source)) from exc
    if plain.get("version") != BACKUP_VERSION:
        raise ConfigError("from", "be a backup of this version of qserver", plain.get("version"))
    populations = {name: PopulationFacts(**f) for name, f in plain["populations"].items()}
    return Backup(plain["made_at"], plain["schema"], populations, plain["files"])


@contextmanager
def _files_at_rest(source: StateFolder) -> Iterator[None]:
    """Within the block, the store only appends to its last file, or is not running."""
    if not (source.data / "appendonlydir").is_dir():
        raise ConfigError("state", "hold a store", str(source.root))
    url = source.running_url()
    if url is None:
        fd = source.lock(timeout_s=STORE.lock_wait_s)
        try:
            yield
        finally:
            os.close(fd)
        return
    client = connect(url, role="backup")
    try:
        with _no_rewrite(client):
            yield
    finally:
        client.close()


@contextmanager
def _no_rewrite(client: StoreClient) -> Iterator[None]:
    setting = "auto-aof-rewrite-percentage"
    before = str(client.config_get(setting)[setting])
    client.config_set(setting, "0")
    try:
        deadline = time.monotonic() + STORE.rewrite_wait_s
        while _rewrites(client.info("persistence")):
            if time.monotonic() > deadline:
                raise StoreUnavailableError("The store has rewritten its files for ten minutes.")
            time.sleep(STORE.rewrite_poll_s)
        yield
    finally:
        client.config_set(setting, before)


def _rewrites(info: Mapping[str, Any]) -> bool:
    return bool(info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])


def _copy_files(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700, parents=True)
    shutil.copyfile(source / MANIFEST, target / MANIFEST)
    for entry in manifest_entries(target):
        if entry.get("type") != "h":  # `h` is history, which the server is about to delete
            shutil.copyfile(source / entry["file"], target / entry["file"])
            if entry.get("type") == "i":
                _cut_torn_tail(target / entry["file"])
    for path in [*target.iterdir(), target]:
        path.chmod(0o700 if path.is_dir() else 0o600)
        sync(path)


def _cut_torn_tail(path: Path) -> None:
    """Cut an append that was under way during the copy: it was not acknowledged yet."""
    scan = scan_aof(path.read_bytes())
    if scan.state == "broken":
        raise StoreCorruptError(f"{path} is damaged behind byte {scan.n_whole}.")
    if scan.state == "torn":
        os.truncate(path, scan.n_whole)


@dataclass(frozen=True)
class _Facts:
    schema: str
    populations: dict[str, PopulationFacts]


def _load(root: Path, *, keep: bool = False) -> _Facts:
    """Load a store from `root`, read its facts, and stop it again."""
    with EmbeddedServer.start(root) as server:
        client = connect(server.url, role="backup")
        facts = _facts(client)
        client.close()
    if not keep:
        for path in (root / "redis").iterdir():
            if path.name != "appendonlydir":
                path.unlink()
    return facts


def _facts(client: StoreClient) -> _Facts:
    names = sorted({str(name) for name in client.hvals(DATASETS)})
    populations = {}
    for name in names:
        keys = Keys(name)
        found: list[Any] = client.hmget(keys.ledger, ["version", "spent", "limit"])
        if None in found:
            raise StoreCorruptError(f"The store has no ledger of population {name}.")
        version, spent, limit = map(int, found)
        n_charges = int(client.llen(keys.charges))
        populations[name] = PopulationFacts(version, spent, limit, n_charges)
    return _Facts(str(client.get(SCHEMA) or ""), populations)


def _digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def _write_note(folder: Path, backup: Backup) -> None:
    plain = {
        "version": BACKUP_VERSION,
        "made_at": backup.made_at,
        "schema": backup.schema,
        "populations": {name: vars(facts) for name, facts in backup.populations.items()},
        "files": dict(backup.files),
    }
    path = folder / "backup.json"
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    path.chmod(0o600)
    sync(path)
    sync(folder)
