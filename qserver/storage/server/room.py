"""Room on the disk of the embedded store, and what the store does without it.

A server that syncs each write before it replies ends when a write fails. One that syncs once a
second goes on: it answers what it has, refuses writes, and tries again. So a store that starts on a
full disk gets the second setting, and the first one again as soon as there is room. Whatever is
charged waits in any case until the server says that it is on the disk.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Literal

import redis

_PROBE_BYTES = 1 << 16
_LEAST_BYTES = 1 << 22
"""Free bytes below which the disk counts as full: a group of jobs with tables adds megabytes."""
_PROBE_KEY = "qserver:room"
FULL = "The disk of the store is full: history is still answered, and nothing is charged."
ROOM_AGAIN = "The disk of the store has room again."


class StoreDisk:
    """The disk of one embedded store.

    Args:
        folder: the server's working folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_full = self._is_told = False

    def appendfsync(self) -> Literal["always", "everysec"]:
        """The setting for a server that starts now."""
        self._is_full, self._is_told = not has_room(self._folder), False
        return "everysec" if self._is_full else "always"

    def tend(self, client: redis.Redis) -> str:
        """Do what is due while the server runs; returns a line for people, '' for none."""
        with contextlib.suppress(redis.RedisError):
            if self._is_full:
                return self._tend_full(client)
            self._repeat_rewrite(client)
        return ""

    def _tend_full(self, client: redis.Redis) -> str:
        if not self._is_told:
            # The server notices it by a write, and acknowledges none from then on.
            with contextlib.suppress(redis.ResponseError):
                client.set(_PROBE_KEY, "0" * _PROBE_BYTES)
            self._is_told = True
            return FULL
        info: Any = client.info("persistence")
        if info["aof_last_write_status"] != "ok" or not has_room(self._folder):
            return ""
        client.delete(_PROBE_KEY)
        client.config_set("appendfsync", "always")
        self._is_full = False
        return ROOM_AGAIN

    def _repeat_rewrite(self, client: redis.Redis) -> None:
        """Rewrite the server's files if that failed and fits now; until then nothing is charged."""
        info: Any = client.info("persistence")
        if info["aof_last_bgrewrite_status"] == "ok" or info["aof_rewrite_in_progress"]:
            return
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize > 2 * info["aof_current_size"] + _PROBE_BYTES:
            client.bgrewriteaof()


def has_room(folder: Path) -> bool:
    """Whether the disk of this folder has free bytes, and a small file is durable there."""
    path = folder / "room"
    try:
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < _LEAST_BYTES:
            return False
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            is_whole = os.write(descriptor, bytes(_PROBE_BYTES)) == _PROBE_BYTES
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            path.unlink()
    except OSError:
        return False
    return is_whole
