"""The digests of the append-only files: any changed byte is found before the files are loaded."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qserver.errors import StoreCorruptError
from qserver.storage.server import aof
from qserver.storage.server.aof import NOTE, AofDigests, check_digests
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.state_folder import StateFolder

N_BYTES = 40


@pytest.fixture
def written(state_dir: Path) -> StateFolder:
    """A folder that a server wrote to, rewrote, wrote to again, and left."""
    with EmbeddedServer.start(state_dir) as server:
        client = connect(server.url, role="test")
        client.rpush("numbers", *range(1000, 1040))
        client.bgrewriteaof()
        while client.info("persistence")["aof_rewrite_in_progress"]:
            pass
        client.rpush("numbers", *range(1040, 1080))
        client.close()
    return StateFolder(state_dir)


def test_files_as_they_were_left_are_loaded(written: StateFolder) -> None:
    """Again and again: each start goes on where the last one ended."""
    for _ in range(2):
        with EmbeddedServer.start(written.root) as server:
            client = connect(server.url, role="test")
            assert client.lrange("numbers", 0, -1) == [str(n) for n in range(1000, 1080)]
            client.close()


def test_every_changed_byte_is_found(written: StateFolder, tmp_path: Path) -> None:
    rng = random.Random(5)
    folder = written.data / "appendonlydir"
    places = [(path.name, i) for path in folder.iterdir() for i in range(path.stat().st_size)]
    for name, place in rng.sample(places, min(N_BYTES, len(places))):
        copy = tmp_path / "copy"
        shutil.copytree(written.data, copy)
        data = bytearray((copy / "appendonlydir" / name).read_bytes())
        data[place] ^= rng.randrange(1, 256)
        (copy / "appendonlydir" / name).write_bytes(data)
        with pytest.raises(StoreCorruptError, match="qserver-worker restore"):
            check_digests(copy)
        shutil.rmtree(copy)


def test_files_that_stay_as_they_are_are_not_opened_again(
    written: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle server costs a look at sizes and times; what was replaced is read again."""
    digests, note = AofDigests(written.data), written.data / NOTE
    digests.note()
    before, opened = note.read_text(), list[Path]()
    with monkeypatch.context() as patched:
        patched.setattr(aof, "_files", opened.append)
        patched.setattr(aof._Growing, "read_on", lambda _self, path: opened.append(path))
        digests.note()
    assert opened == []
    manifest = written.data / "appendonlydir" / aof.MANIFEST
    manifest.with_suffix(".new").write_bytes(manifest.read_bytes()[:-1] + b" \n")
    manifest.with_suffix(".new").replace(manifest)
    digests.note()
    assert note.read_text() != before
    check_digests(written.data)


def test_a_start_on_changed_files_is_refused(written: StateFolder) -> None:
    """The changed number would load without an error."""
    (path,) = (written.data / "appendonlydir").glob("*.incr.aof")
    path.write_bytes(path.read_bytes().replace(b"1077", b"9077"))
    with pytest.raises(StoreCorruptError, match="not as the server wrote it"):
        EmbeddedServer.start(written.root)
    (written.data / NOTE).unlink()
    with EmbeddedServer.start(written.root) as server:
        client = connect(server.url, role="test")
        assert client.lindex("numbers", -3) == "9077"
        client.close()


def _cut(data: Path) -> None:
    (path,) = (data / "appendonlydir").glob("*.incr.aof")
    path.write_bytes(path.read_bytes()[:-1])


def _without_a_file(data: Path) -> None:
    (path,) = (data / "appendonlydir").glob("*.base.rdb")
    path.unlink()


@pytest.mark.parametrize("harm", [_cut, _without_a_file])
def test_a_cut_or_missing_file_is_found(written: StateFolder, harm: Callable[[Path], None]) -> None:
    harm(written.data)
    with pytest.raises(StoreCorruptError):
        check_digests(written.data)


def test_what_came_after_the_last_note_is_taken_as_it_is(written: StateFolder) -> None:
    """A crash leaves bytes that were never noted, and perhaps a rewrite with its new manifest."""
    folder = written.data / "appendonlydir"
    (path,) = folder.glob("*.incr.aof")
    path.write_bytes(path.read_bytes() + b"*1\r\n$4\r\nPING\r\n")
    check_digests(written.data)
    shutil.copy(path, folder / "appendonly.aof.9.incr.aof")
    (folder / "appendonly.aof.manifest").write_text("file appendonly.aof.9.incr.aof seq 9 type i\n")
    path.unlink()
    check_digests(written.data)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": {}, "sha256": "0"}'])
def test_a_note_that_cannot_be_read_says_nothing(written: StateFolder, text: str) -> None:
    (written.data / NOTE).write_text(text)
    check_digests(written.data)


def test_an_empty_folder_and_one_whose_files_were_moved_away_pass(written: StateFolder) -> None:
    shutil.rmtree(written.data / "appendonlydir")
    check_digests(written.data)
    AofDigests(written.data).note()
