"""The journal on disk: what is read back, after crashes, damage and tampering."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from pathlib import Path

import pytest

from qserver.errors import JournalError
from tests.worker.journal.on_disk import opened, written
from worker.journal.journal import Journal, JournalFullError
from worker.journal.records import (
    GENESIS,
    SCHEMA_VERSION,
    Attached,
    Burnt,
    ChargeLine,
    LimitRaised,
    Opened,
    Record,
    Released,
    ReleasedRow,
    Reserved,
    write_line,
)

ATTACHED = Attached(
    dataset="census",
    snapshot="s1",
    limit_nano=10**9,
    neighbours="add-remove",
    fingerprint_hex="00ff",
    details={"records_per_person": 1},
)


def reserved(job: str, version: int, *, spent_nano: int = 100) -> Reserved:
    charges = (ChargeLine(scope="row-a", nano=60), ChargeLine(scope="row-b", nano=40))
    return Reserved(job, ledger_version=version, spent_nano_after=spent_nano, charges=charges)


def released(job: str) -> Released:
    return Released(job, rows=(ReleasedRow("row-a", (-(2**70),)), ReleasedRow("row-b", (3, 4))))


HISTORY: tuple[Record, ...] = (
    ATTACHED,
    reserved("j1", 1),
    released("j1"),
    reserved("j2", 2, spent_nano=200),
    Burnt("j2"),
    LimitRaised(old_limit_nano=10**9, new_limit_nano=2 * 10**9),
    reserved("j3", 5, spent_nano=300),
)


def test_what_was_appended_is_read_back_by_another_object(path: Path) -> None:
    for journal in (written(path, *HISTORY), opened(path)):
        assert journal.n_records == len(HISTORY) + 1
        assert journal.state.attached.get("census") == ATTACHED
        assert journal.state.attached.get("other") is None
        assert journal.state.reserved.get("j1") == reserved("j1", 1)
        assert journal.state.released.get("j1") == released("j1")
        assert journal.state.reserved.get("j4") is None
        assert journal.state.released.get("j3") is None
        assert "j2" in journal.state.burnt
        assert "j1" not in journal.state.burnt
        assert tuple(journal.state.open_jobs) == ("j3",)
        assert journal.state.ledger_version == 5
        assert journal.state.last_reserved_job == "j3"
        assert journal.state.spent_nano == 300
        assert journal.state.limit_nano == 2 * 10**9


def test_a_new_journal_knows_of_no_charge(path: Path) -> None:
    journal = written(path)
    assert journal.state.last_reserved_job is None
    assert journal.state.ledger_version == journal.state.spent_nano == 0
    assert journal.state.limit_nano is None
    assert tuple(journal.state.open_jobs) == ()


def test_a_new_journal_is_the_owners_only(path: Path) -> None:
    written(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_opening_with_create_keeps_a_journal_that_is_there(path: Path) -> None:
    written(path, *HISTORY)
    assert opened(path, create=True).n_records == len(HISTORY) + 1


@pytest.mark.parametrize("last", HISTORY[1:], ids=lambda record: type(record).__name__)
def test_an_append_torn_at_any_byte_is_as_if_it_had_not_begun(path: Path, last: Record) -> None:
    """The file is cut at every length within its last line; then work goes on."""
    n_before = HISTORY.index(last)
    written(path, *HISTORY[:n_before])
    start = path.stat().st_size
    with opened(path).exclusive() as journal:
        journal.append(last)
    whole = path.read_bytes()
    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        recovered = opened(path)
        assert recovered.n_records == n_before + 1
        assert path.read_bytes() == whole[:start]
        with recovered.exclusive():
            recovered.append(last)
        assert path.read_bytes() == whole


def test_a_first_line_torn_at_any_byte_is_begun_again_only_on_create(path: Path) -> None:
    written(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(JournalError, match="is empty"):
            opened(path)
        assert opened(path, create=True).n_records == 1
        assert path.read_bytes() == whole


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_refused(path: Path) -> None:
    """The last newline too, which a torn append would lack; nothing is cut off."""
    written(path, *HISTORY[:4])
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 7
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match="damaged"):
            opened(path)
        assert path.read_bytes() == damaged


@pytest.mark.slow
def test_a_zero_byte_anywhere_is_refused(path: Path) -> None:
    """A crash leaves zeros by whole blocks, never one alone."""
    written(path, *HISTORY[:4])
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = whole[:place] + b"\0" + whole[place + 1 :]
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match="damaged"):
            opened(path)
        assert path.read_bytes() == damaged


def test_blocks_of_the_last_line_that_were_never_written_are_a_torn_append(path: Path) -> None:
    """Any of its blocks, the first from the line's beginning on."""
    written(path, *HISTORY[:4])
    start = path.stat().st_size
    with opened(path).exclusive() as journal:
        journal.append(Reserved("far", 99, 500, (ChargeLine("s", 1),), replay="x" * 1500))
    whole = path.read_bytes()
    borders = [start, *range(-(-start // 512) * 512, len(whole), 512)]
    for begin, end in itertools.pairwise(borders):
        path.write_bytes(whole[:begin] + bytes(end - begin) + whole[end:])
        assert opened(path).n_records == 5
        assert path.read_bytes() == whole[:start]


@pytest.mark.parametrize("byte", [b"\r", b"\n", b"\0", b"\xff", b" "])
def test_a_control_byte_in_the_middle_is_refused(path: Path, byte: bytes) -> None:
    """Also one that some readers take for the end of a line."""
    written(path, *HISTORY)
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged in (
        whole[:middle] + byte + whole[middle:],
        whole[:middle] + byte + whole[middle + 1 :],
    ):
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match="damaged"):
            opened(path)
        assert path.read_bytes() == damaged


def test_lines_swapped_repeated_removed_or_from_elsewhere_are_refused(path: Path) -> None:
    written(path, *HISTORY)
    first, second, third, *rest = path.read_bytes().splitlines(keepends=True)
    forged = write_line(Burnt("j9"), sequence=2, previous=GENESIS).text
    for lines in (
        [first, third, second, *rest],
        [first, second, second, third, *rest],
        [first, third, *rest],
        [second, third, *rest],
        [first, second, forged, *rest],
    ):
        path.write_bytes(b"".join(lines))
        with pytest.raises(JournalError, match="damaged"):
            opened(path)


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\0" * 4096 + b'"}\n', b'{"body":'])
def test_blocks_that_were_never_written_are_cut_off_the_end(path: Path, tail: bytes) -> None:
    """After a power cut a file may be longer than what reached the disk."""
    written(path, *HISTORY)
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert opened(path).n_records == len(HISTORY) + 1
    assert path.read_bytes() == whole


def test_a_damaged_last_line_that_is_whole_is_refused(path: Path) -> None:
    """It may have been acknowledged, so it must not be forgotten without a word."""
    written(path, *HISTORY)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + b"x" + whole[-8:])
    with pytest.raises(JournalError, match=f"record {len(HISTORY)} is damaged"):
        opened(path)


def test_a_line_longer_than_a_read_is_taken_whole(path: Path) -> None:
    table = Released("j1", rows=(ReleasedRow("table", tuple(range(300_000))),))
    written(path, ATTACHED, reserved("j1", 1), table, reserved("j2", 2))
    assert path.stat().st_size > 1 << 20
    journal = opened(path)
    assert journal.state.released.get("j1") == table
    assert tuple(journal.state.open_jobs) == ("j2",)


def test_a_missing_journal_is_refused_unless_created(path: Path) -> None:
    with pytest.raises(JournalError, match="is missing"):
        opened(path)
    with pytest.raises(JournalError, match="cannot be created"):
        opened(path.parent / "no-folder" / "journal", create=True)


def test_another_populations_journal_is_refused(path: Path) -> None:
    written(path)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another population"):
        opened(path, population="others", create=True)
    assert path.read_bytes() == before


def test_a_newer_journal_is_refused_and_left_alone(path: Path) -> None:
    newer = Opened("people", schema_version=SCHEMA_VERSION + 1)
    line = write_line(newer, sequence=0, previous=GENESIS)
    text = line.text + b'{"a form that only the newer version knows"}\n'
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(JournalError, match="`schema_version` of the journal must be at most 1"):
        opened(path)
    assert path.read_bytes() == text


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_journal_that_others_may_touch_is_refused(path: Path, mode: int) -> None:
    written(path)
    path.chmod(mode)
    with pytest.raises(JournalError, match="accessible to its owner only"):
        opened(path)


def test_a_journal_replaced_or_shortened_while_in_use_is_refused(path: Path) -> None:
    """A backup put back under a running worker would forget charges."""
    journal = written(path, *HISTORY)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(JournalError, match="replaced or shortened"), journal.exclusive():
        pass
    path.rename(path.with_suffix(".old"))
    path.write_bytes(whole)
    path.chmod(0o600)
    with pytest.raises(JournalError, match="replaced or shortened"), journal.exclusive():
        pass


def test_only_new_bytes_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before is not read again, by another object's section or one's own."""
    reader = written(path, *HISTORY[:4])
    n_known = path.stat().st_size
    with opened(path).exclusive() as writer:
        writer.append(HISTORY[4])
    places: list[int] = []
    pread = os.pread

    def noted(descriptor: int, n_bytes: int, place: int) -> bytes:
        places.append(place)
        return pread(descriptor, n_bytes, place)

    monkeypatch.setattr(os, "pread", noted)
    with reader.exclusive():
        assert "j2" in reader.state.burnt
    with reader.exclusive():
        pass
    assert places == [n_known]


def test_without_room_for_a_charge_the_journal_says_so_before_one_is_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(path, population="town", create=True)
    with journal.exclusive():
        journal.check_room()
        left = os.statvfs_result((4096, 4096, 100, 9, 9, *os.statvfs(path)[5:]))
        monkeypatch.setattr("worker.journal.journal.os.fstatvfs", lambda _fd: left)
        with pytest.raises(JournalFullError, match="is full"):
            journal.check_room()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_an_append_that_finds_no_room_is_told_apart_from_a_broken_disk(
    path: Path, number: int
) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(number, "no room")

    Journal.open(path, population="town", create=True)
    journal = Journal.open(path, population="town", create=False)
    journal._fsync = fails
    with journal.exclusive(), pytest.raises(JournalFullError, match="is full"):
        journal.append(Burnt("j-1"))
    with pytest.raises(JournalError, match="open the journal anew"), journal.exclusive():
        pass
