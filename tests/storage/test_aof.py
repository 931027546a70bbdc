"""Append-only files: the scan is held to files built here and to the server's own check tool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import StoreCorruptError
from qserver.storage.server.aof import AofScan, last_increment, scan_aof, trim_torn_tail
from qserver.storage.server.embedded_store import server_binary


def encode(*words: bytes) -> bytes:
    """One command as the protocol writes it."""
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%s" % (len(words), b"".join(parts))


SELECT = encode(b"SELECT", b"0")
SET = encode(b"SET", b"population:1", b"some value")
TRANSACTION = encode(b"MULTI") + SET + encode(b"HSET", b"h", b"f", b"1") + encode(b"EXEC")
UNITS = (SELECT, SET, TRANSACTION, SET, TRANSACTION)
FILE = b"".join(UNITS)
BOUNDARIES = [len(b"".join(UNITS[:n])) for n in range(len(UNITS) + 1)]
SWALLOWING = b"$99999\r\nsome value\r\n"  # a length that reaches past the end


def tool_boundary(path: Path) -> int:
    """Where the server's check tool would cut."""
    result = subprocess.run(
        ["valkey-check-aof", str(path)],
        executable=server_binary(),
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"ok_up_to=(\d+)", result.stdout)
    assert match, result.stdout
    return int(match[1])


def trim(path: Path, *, found_end: bool = True) -> Path:
    """Copy of the file that a repair made."""
    repair = trim_torn_tail(
        path, binary=server_binary(), copies=path.parent / "copies", found_end=found_end
    )
    return repair.copy


def test_every_cut_of_a_file_is_torn_back_to_the_last_whole_unit() -> None:
    for n_bytes in range(len(FILE) + 1):
        n_whole = max(boundary for boundary in BOUNDARIES if boundary <= n_bytes)
        state = "whole" if n_bytes == n_whole else "torn"
        assert scan_aof(FILE[:n_bytes]) == AofScan(
            state=state,  # type: ignore[arg-type]
            n_whole=n_whole,
            n_zeros=0,
        )


def test_cuts_agree_with_the_check_tool_of_the_server(tmp_path: Path) -> None:
    path = tmp_path / "appendonly.aof.1.incr.aof"
    for n_bytes in range(1, len(FILE), 7):
        path.write_bytes(FILE[:n_bytes])
        assert scan_aof(FILE[:n_bytes]).n_whole == tool_boundary(path)


@given(values=st.lists(st.binary(max_size=40), min_size=1, max_size=6), n_cut=st.integers(1, 9))
def test_any_bytes_may_stand_in_a_value(values: list[bytes], n_cut: int) -> None:
    whole = b"".join(encode(b"SET", b"k", value) for value in values)
    assert scan_aof(whole) == AofScan(state="whole", n_whole=len(whole), n_zeros=0)
    last = len(encode(b"SET", b"k", values[-1]))
    cut = whole[: -min(n_cut, last - 1)].rstrip(b"\0")
    assert scan_aof(cut).n_whole == len(whole) - last


def test_zero_bytes_behind_whole_or_torn_commands_belong_to_the_tail() -> None:
    for n_bytes in (BOUNDARIES[2], BOUNDARIES[2] + 5, len(FILE)):
        scan = scan_aof(FILE[:n_bytes] + bytes(70_000))
        assert scan.state == "torn"
        assert scan.n_whole == max(boundary for boundary in BOUNDARIES if boundary <= n_bytes)
        assert scan.n_zeros == 70_000


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(SET.replace(b"$10", b"$11"), id="a length one too long"),
        pytest.param(SET.replace(b"$10", b"$09"), id="a length one too short"),
        pytest.param(SET.replace(b"*3", b"*4"), id="an argument too many"),
        pytest.param(SET.replace(b"*3", b"*2"), id="an argument too few"),
        pytest.param(SET.replace(b"*3", b"*0"), id="no argument"),
        pytest.param(SET.replace(b"*3", b"+3"), id="a wrong mark"),
        pytest.param(SET.replace(b"$10\r\nsome value\r\n", SWALLOWING), id="a length past the end"),
        pytest.param(SET.replace(b"$10", b"$9999999999"), id="a length beyond the protocol"),
        pytest.param(SET + bytes(64), id="zeros in the middle"),
        pytest.param(encode(b"EXEC"), id="an EXEC alone"),
        pytest.param(encode(b"MULTI") + encode(b"MULTI"), id="a MULTI inside a MULTI"),
    ],
)
def test_damage_before_a_whole_command_is_broken_not_torn(damaged: bytes) -> None:
    scan = scan_aof(SELECT + damaged + SET + SET[:-3])
    assert scan.state == "broken"
    assert scan.n_whole <= len(SELECT + SET)


def test_a_broken_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file.aof"
    content = SELECT + SET.replace(b"$10\r\nsome value\r\n", SWALLOWING) + SET
    path.write_bytes(content)
    assert tool_boundary(path) == len(SELECT)  # the tool alone would cut a whole command away
    with pytest.raises(StoreCorruptError, match=r"damaged behind byte 23.*Restore.*backup"):
        trim(path)
    assert path.read_bytes() == content


def test_a_torn_file_is_copied_then_cut(tmp_path: Path) -> None:
    path = tmp_path / "file.aof"
    path.write_bytes(FILE[:-1])
    copy = trim(path)
    assert copy.read_bytes() == FILE[:-1]
    assert path.read_bytes() == FILE[: BOUNDARIES[-2]]


def test_a_second_repair_keeps_the_first_copy(tmp_path: Path) -> None:
    path = tmp_path / "file.aof"
    path.write_bytes(FILE[:-1])
    first = trim(path)
    path.write_bytes(FILE[:-2])
    second = trim(path)
    assert (first.read_bytes(), second.read_bytes()) == (FILE[:-1], FILE[:-2])


def test_a_tail_of_zeros_is_cut_whatever_the_server_complained_of(tmp_path: Path) -> None:
    path = tmp_path / "file.aof"
    path.write_bytes(FILE + bytes(100))
    trim(path, found_end=False)
    assert path.read_bytes() == FILE


def test_an_open_transaction_is_kept_when_the_server_stumbled_over_something_else(
    tmp_path: Path,
) -> None:
    """A damaged EXEC makes all that follows look like one unfinished transaction."""
    path = tmp_path / "file.aof"
    content = SELECT + TRANSACTION.replace(b"EXEC", b"EXEB") + SET + SET[:-1]
    path.write_bytes(content)
    assert scan_aof(content).state == "torn"
    with pytest.raises(StoreCorruptError, match="before its last command"):
        trim(path, found_end=False)
    assert path.read_bytes() == content


def test_a_whole_file_that_does_not_load_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.aof"
    path.write_bytes(FILE)
    with pytest.raises(StoreCorruptError, match="every command in it is whole"):
        trim(path)


def test_a_check_tool_that_does_not_cut_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file.aof"
    path.write_bytes(FILE[:-1])
    with pytest.raises(StoreCorruptError, match="would not cut"):
        trim_torn_tail(path, binary=Path("/bin/true"), copies=tmp_path / "copies", found_end=True)
    assert path.read_bytes() == FILE[:-1]


def test_the_last_increment_is_the_last_one_in_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    assert last_increment(tmp_path) is None
    manifest = folder / "appendonly.aof.manifest"
    manifest.write_text("file base.rdb seq 2 type b\n")
    assert last_increment(tmp_path) is None
    manifest.write_text(
        "file base.rdb seq 2 type b\nfile old.aof seq 1 type h\n"
        "file one.aof seq 2 type i\nfile two.aof seq 3 type i\n"
    )
    assert last_increment(tmp_path) == folder / "two.aof"
