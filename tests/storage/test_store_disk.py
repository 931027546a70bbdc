"""The store's disk: which setting a start has, and what is done when there is room again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from qserver.storage.server import embedded_store
from qserver.storage.server.embedded_store import FULL, ROOM_AGAIN, StoreDisk, has_room


class Server:
    """A server that has what a test says, and writes down what it is told."""

    def __init__(self, **persistence: Any) -> None:
        self.persistence: Mapping[str, Any] = {
            "aof_last_write_status": "ok",
            "aof_last_bgrewrite_status": "ok",
            "aof_rewrite_in_progress": 0,
            "aof_current_size": 1,
            **persistence,
        }
        self.told: list[str] = []

    def info(self, _section: str) -> Mapping[str, Any]:
        return self.persistence

    def set(self, key: str, _value: str) -> None:
        self.told.append(f"set {key}")
        raise redis.ResponseError("MISCONF")

    def delete(self, key: str) -> None:
        self.told.append(f"delete {key}")

    def config_set(self, name: str, value: str) -> None:
        self.told.append(f"{name} {value}")

    def bgrewriteaof(self) -> None:
        self.told.append("rewrite")


def tended(disk: StoreDisk, server: Server) -> str:
    return disk.tend(server)  # type: ignore[arg-type]


def test_a_disk_with_room_syncs_each_write_and_needs_nothing(tmp_path: Path) -> None:
    disk, server = StoreDisk(tmp_path), Server()
    assert disk.appendfsync() == "always"
    assert tended(disk, server) == ""
    assert server.told == []
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_once_and_left_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = [False, False, True]
    monkeypatch.setattr(embedded_store, "has_room", lambda _folder: rooms.pop(0))
    disk, server = StoreDisk(tmp_path), Server()
    assert disk.appendfsync() == "everysec"
    assert tended(disk, server) == FULL
    assert tended(disk, server) == ""
    assert server.told == ["set qserver:room"]
    assert tended(disk, server) == ROOM_AGAIN
    assert server.told[1:] == ["delete qserver:room", "appendfsync always"]
    assert tended(disk, server) == ""


def test_a_server_whose_last_write_failed_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_store, "has_room", lambda _folder: not tmp_path.exists())
    disk, server = StoreDisk(tmp_path), Server(aof_last_write_status="err")
    disk.appendfsync()
    tended(disk, server)
    monkeypatch.setattr(embedded_store, "has_room", lambda _folder: True)
    assert tended(disk, server) == ""
    assert server.told == ["set qserver:room"]


@pytest.mark.parametrize(
    ("persistence", "told"),
    [
        ({"aof_last_bgrewrite_status": "err"}, ["rewrite"]),
        ({"aof_last_bgrewrite_status": "err", "aof_rewrite_in_progress": 1}, []),
        ({"aof_last_bgrewrite_status": "err", "aof_current_size": 1 << 62}, []),
    ],
)
def test_a_rewrite_that_failed_is_repeated_where_it_fits(
    tmp_path: Path, persistence: Mapping[str, Any], told: list[str]
) -> None:
    disk, server = StoreDisk(tmp_path), Server(**persistence)
    disk.appendfsync()
    assert tended(disk, server) == ""
    assert server.told == told


def test_a_folder_that_cannot_be_written_has_no_room(tmp_path: Path) -> None:
    assert has_room(tmp_path)
    assert not has_room(tmp_path / "missing")
