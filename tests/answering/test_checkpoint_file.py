"""The format of checkpoints: what was written is read, and nothing else is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.answering.checkpoint import (
    MAGIC,
    CheckpointError,
    CheckpointFolder,
    Seal,
    parts_of,
    state_of,
)
from qserver.records.state import State

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "a process that goes on from a checkpoint prices, plans and answers as one that replayed,"
        " to the last bit; what came after is appended; one that is damaged, another's, of other "
        "code or ahead of the store is ignored",
    ),
]

KEY = b"k" * 32
STATE = State(
    {"n": 3, "of": {"name": "umlaut ü"}},
    {
        "floats": np.array([[0.1, -np.inf], [np.pi, 1e-300]]),
        "whole": np.arange(5, dtype=np.int64),
        "small": np.array([-7], dtype=np.int32),
        "text": np.frombuffer(b"a line\nanother", dtype=np.uint8),
        "flags": np.array([True, False]),
        "keys": np.array([b"f" * 32, b"0"], dtype="S32"),
        "nothing": np.zeros((0, 4)),
    },
)


def _bytes(state: State = STATE, key: bytes = KEY) -> bytes:
    body = b"".join(map(bytes, parts_of(state)))
    return body + _seal(body, key)


def _seal(body: bytes, key: bytes) -> bytes:
    seal = Seal(key)
    seal.update(body)
    return seal.value


@pytest.mark.parametrize("key", [b"", KEY])
def test_what_was_written_is_read_to_the_last_bit(tmp_path: Path, key: bytes) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoints", key)
    folder.keep("s1", "first", STATE)
    found = folder.load("s1")
    assert found is not None
    assert found.head == STATE.head
    assert found.arrays.keys() == STATE.arrays.keys()
    for name, array in STATE.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert np.array_equal(found.arrays[name], array)
        assert found.arrays[name].ctypes.data % 64 == 0 or not array.size
        assert not found.arrays[name].flags.writeable


def test_every_flipped_byte_is_refused() -> None:
    whole = _bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        with pytest.raises(CheckpointError):
            state_of(bytes(changed), key=KEY)


def test_every_shortened_file_is_refused() -> None:
    whole = _bytes()
    for length in range(len(whole)):
        with pytest.raises(CheckpointError):
            state_of(whole[:length], key=KEY)


def test_a_seal_without_the_key_or_with_another_is_refused() -> None:
    """Who can write to the folder cannot make a file that its owner trusts."""
    for other in (b"", b"o" * 32):
        with pytest.raises(CheckpointError, match="seal"):
            state_of(_bytes(key=other), key=KEY)


@pytest.mark.parametrize(
    "head",
    [
        b"{}",
        b"[1, 2]",
        b'{"head": {}, "arrays": {"a": ["|O", [1], 0]}}',
        b'{"head": {}, "arrays": {"a": ["<f8", [-1], 0]}}',
        b'{"head": {}, "arrays": {"a": ["<f8", [1], -8]}}',
        b'{"head": {}, "arrays": {"a": ["<f8", [1099511627776], 0]}}',
        b'{"head": {}, "arrays": {"a": ["<f8", ["1"], 0]}}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_sealed_file_of_another_form_is_refused(head: bytes) -> None:
    """A digest that anybody can form is no reason to believe what is inside."""
    body = MAGIC + len(head).to_bytes(8, "little") + head + bytes(64)
    with pytest.raises(CheckpointError):
        state_of(body + _seal(body, b""))


def test_another_format_is_refused() -> None:
    body = b"".join(map(bytes, parts_of(STATE))).replace(MAGIC, b"qserver checkpoint 9\n")
    with pytest.raises(CheckpointError, match="format"):
        state_of(body + _seal(body, b""))


def test_a_folder_keeps_the_newest_file_of_each_snapshot_closed_to_others(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for name in ("one", "two"):
        folder.keep("s1", name, State({"name": name}))
    folder.keep("s2", "one", State({"name": "other"}))
    files = list(folder.path.iterdir())
    assert len(files) == 2
    assert all(f.stat().st_mode & 0o777 == 0o600 for f in files)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    heads = [found.head for s in ("s1", "s2") if (found := folder.load(s))]
    assert heads == [{"name": "two"}, {"name": "other"}]


def test_a_failed_write_leaves_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.keep("s1", "one", State({"name": "one"}))

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        folder.keep("s1", "two", State({"name": "two"}))
    found = folder.load("s1")
    assert found is not None
    assert found.head == {"name": "one"}
    assert len(list(tmp_path.iterdir())) == 1


def test_none_is_written_where_room_is_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal and the store need the rest more."""
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(OSError, match="room"):
        CheckpointFolder(tmp_path).keep("s1", "one", STATE)
    assert not list(tmp_path.iterdir())


def test_a_half_written_file_goes_with_the_next(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.keep("s1", "one", STATE)
    (path,) = tmp_path.iterdir()
    path.with_name(path.name.replace("one", "two")).with_suffix(".new").write_bytes(b"half")
    assert folder.load("s1") is not None
    folder.keep("s1", "three", STATE)
    assert len(list(tmp_path.iterdir())) == 1


def test_two_processes_that_write_the_same_one_do_not_mix_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = CheckpointFolder(tmp_path), State({"name": "other"}, {"n": np.arange(9999)})

    def in_pieces(state: State) -> Iterator[Any]:
        parts = list(parts_of(state))
        yield parts[0]
        monkeypatch.setattr("qserver.answering.checkpoint.parts_of", parts_of)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(os, "getpid", lambda: 4242)
            folder.keep("s1", "one", other)
        yield from parts[1:]

    monkeypatch.setattr("qserver.answering.checkpoint.parts_of", in_pieces)
    with pytest.raises(FileNotFoundError):
        folder.keep("s1", "one", STATE)
    found = folder.load("s1")
    assert found is not None
    assert found.head == {"name": "other"}


def test_a_folder_without_files_has_none(tmp_path: Path) -> None:
    assert CheckpointFolder(tmp_path / "nowhere").load("s1") is None


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.keep("s1", "one", STATE)
    next(tmp_path.iterdir()).write_bytes(b"")
    with pytest.raises(CheckpointError):
        folder.load("s1")
