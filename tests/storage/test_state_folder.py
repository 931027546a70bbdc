"""The state folder tells its owner where its server is, through a note that nobody can forge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from qserver.config import Settings
from qserver.errors import StateInUseError, StoreUnavailableError
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.state_folder import StateFolder


@pytest.fixture
def held(state_dir: Path) -> Iterator[StateFolder]:
    """A folder whose lock is held, as by a server."""
    folder = StateFolder.prepare(state_dir)
    fd = folder.lock(timeout_s=0)
    yield folder
    os.close(fd)


def note(folder: StateFolder, path: Path) -> None:
    (folder.data / "socket").write_text(str(path))


def test_an_address_by_folder_is_that_of_each_server_that_runs_there(tmp_path: Path) -> None:
    state = tmp_path / "with ? and # and % and" / ("a name too long for a socket " * 6)
    url = Settings(state_dir=state).store_url
    with pytest.raises(StoreUnavailableError, match="No store runs on the state folder"):
        connect(url, role="test")
    addresses = set()
    for i in range(2):
        with EmbeddedServer.start(state) as server:
            client = connect(url, role="test", single_connection=True)
            assert client.incr("starts") == i + 1
            addresses.add(server.url)
            client.close()
    assert len(addresses) == 2


def test_a_given_address_wins_and_children_read_the_same() -> None:
    named = Settings(redis_url="unix:///run/q.sock", state_dir=Path("/s"))
    assert named.store_url == "unix:///run/q.sock"
    by_folder = Settings(state_dir=Path("/s"))
    assert by_folder.store_url == "state:///s"
    for settings in (named, by_folder):
        assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_killed_server_of_an_older_version_left_behind_is_replaced(
    state_dir: Path, tmp_path: Path, is_there: bool
) -> None:
    """It noted the folder of its socket in the same place, and removed neither."""
    with EmbeddedServer.start(state_dir) as server:
        connect(server.url, role="test").set("k", "kept")
    left = tmp_path / "qserver-left"
    if is_there:
        left.mkdir(mode=0o700)
        (left / "redis.sock").touch()
    note(StateFolder(state_dir), left)
    assert StateFolder(state_dir).running_url() is None
    with EmbeddedServer.start(state_dir) as server:
        assert not left.exists()
        assert StateFolder(state_dir).running_url() == server.url
        assert connect(Settings(state_dir=state_dir).store_url, role="test").get("k") == "kept"


def test_a_folder_that_others_put_in_the_place_of_the_noted_one_is_no_store(
    held: StateFolder, tmp_path: Path
) -> None:
    real, forged = tmp_path / "qserver-real", tmp_path / "qserver-forged"
    real.mkdir(mode=0o700)
    note(held, real)
    assert unquote(held.running_url() or "") == f"unix://{real}/redis.sock"
    real.chmod(0o755)
    assert held.running_url() is None
    real.chmod(0o700)
    forged.symlink_to(real)
    note(held, forged)
    assert held.running_url() is None


def test_a_folder_of_another_owner_is_no_store(
    held: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "qserver-foreign"
    foreign.mkdir(mode=0o700)
    note(held, foreign)
    assert held.running_url() is not None
    plain = Path.lstat

    def of_another(path: Path) -> os.stat_result:
        fields = list(plain(path))
        fields[4] += path == foreign
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "lstat", of_another)
    assert held.running_url() is None


def test_a_server_that_stops_is_told_from_one_that_stays(held: StateFolder) -> None:
    other = StateFolder(held.root)
    assert not other.is_stopping
    with pytest.raises(StateInUseError, match="Another server uses the state folder"):
        other.lock(timeout_s=0)
    held.mark_stopping()
    assert other.is_stopping
    with pytest.raises(StateInUseError, match="is stopping: it finishes the questions at hand"):
        other.lock(timeout_s=0)


def test_a_server_that_is_gone_is_not_stopping_and_the_next_one_is_not_either(
    state_dir: Path,
) -> None:
    with EmbeddedServer.start(state_dir) as server:
        server.mark_stopping()
        assert StateFolder(state_dir).is_stopping
    assert not StateFolder(state_dir).is_stopping
    with EmbeddedServer.start(state_dir):
        assert not StateFolder(state_dir).is_stopping


def test_a_state_folder_that_is_closed_to_us_says_so(
    held: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StoreUnavailableError, match=r"closed to us \(Permission denied\)"):
        held.running_url()
