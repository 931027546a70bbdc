"""The witness of a journal: what it notices, and what it says to bad input."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from qserver.errors import JournalError
from worker.journal.journal import Journal
from worker.journal.records import Burnt
from worker.journal.witness import Witness, WitnessAwayError, WitnessSettings

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "a witness that is missing, a folder, full, read-only, changed, torn, or another's is "
        "refused or mended, and says what to do",
    ),
]

KEY = b"k" * 32


class Place:
    """A journal on one disk, and its witness on another."""

    def __init__(self, folder: Path) -> None:
        self.disk, self.other_disk = folder / "disk", folder / "other"
        for made in (self.disk, self.other_disk):
            made.mkdir()
        self.path = self.disk / "town.journal"
        self.witness_path = self.other_disk / "town.witness"

    def witness(
        self, *, population: str = "town", key: bytes = KEY, required: bool = True
    ) -> Witness:
        settings = WitnessSettings(self.other_disk, required)
        return Witness(settings, population=population, key=key)

    def journal(self, *, required: bool = True) -> Journal:
        found = Journal.open(self.path, population="town", create=True)
        found.witness = self.witness(required=required)
        return found

    def grow(self, job: str, *, required: bool = True) -> bool:
        """Add a line to the journal, and show it to the witness."""
        with self.journal(required=required).exclusive() as journal:
            journal.append(Burnt(job))
            return journal.attest()

    def check(self, *, required: bool = True) -> bool:
        with self.journal(required=required).exclusive() as journal:
            return journal.check_witness()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    with found.journal().exclusive() as journal:
        assert found.witness().begin(journal.testimony)
    return found


def test_it_is_begun_once(place: Place) -> None:
    with place.journal().exclusive() as journal:
        assert not place.witness().begin(journal.testimony)


def test_what_it_saw_of_a_growing_journal_is_accepted(place: Place) -> None:
    for i in range(3):
        assert place.grow(f"job-{i}")
        assert place.check()
    assert place.witness_path.read_bytes().count(b"\n") == 4


def test_a_journal_that_went_on_without_it_is_accepted(place: Place) -> None:
    """So it is when a worker died between the two."""
    with place.journal().exclusive() as journal:
        journal.append(Burnt("unseen"))
    assert place.check()


def test_an_older_copy_of_the_journal_is_refused(place: Place) -> None:
    copy = place.path.read_bytes()
    place.grow("job")
    place.path.write_bytes(copy)
    with pytest.raises(JournalError, match=r"has seen 2 lines .* which has 1 now: an older copy"):
        place.check()


def test_an_older_copy_that_went_on_is_refused(place: Place) -> None:
    """It has as many lines as the witness saw, and more, but not the same."""
    copy = place.path.read_bytes()
    place.grow("first")
    place.path.write_bytes(copy)
    with Journal.open(place.path, population="town", create=False).exclusive() as journal:
        journal.append(Burnt("second"))
        journal.append(Burnt("third"))
    with pytest.raises(JournalError, match="went on from an older copy"):
        place.check()


def test_nothing_is_written_down_of_a_journal_that_is_refused(place: Place) -> None:
    copy = place.path.read_bytes()
    place.grow("job")
    before = place.witness_path.read_bytes()
    place.path.write_bytes(copy)
    with pytest.raises(JournalError, match="older copy"):
        place.grow("other")
    assert place.witness_path.read_bytes() == before


def test_an_older_copy_of_the_witness_is_accepted(place: Place) -> None:
    """It says less, not otherwise."""
    copy = place.witness_path.read_bytes()
    place.grow("job")
    place.witness_path.write_bytes(copy)
    assert place.check()
    assert place.grow("more")


@pytest.mark.parametrize("n_bytes", [1, 40, 150])
def test_a_torn_last_line_is_cut_off_by_the_next(place: Place, n_bytes: int) -> None:
    place.grow("job")
    whole = place.witness_path.read_bytes()
    first = whole.index(b"\n") + 1
    place.witness_path.write_bytes(whole[: first + n_bytes])
    assert place.check()
    place.grow("more")
    lines = place.witness_path.read_bytes().split(b"\n")
    assert (len(lines), lines[-1]) == (3, b"")
    assert place.check()


def test_blocks_that_were_never_written_are_a_torn_line(place: Place) -> None:
    with place.witness_path.open("ab") as file:
        file.write(b"\0" * 100 + b"\n")
    assert place.grow("job")
    assert b"\0" not in place.witness_path.read_bytes()


@pytest.mark.parametrize(
    "change", ["a digit", "a zero", "a line less", "two lines swapped", "no json"]
)
def test_a_changed_witness_is_refused(place: Place, change: str) -> None:
    for i in range(3):
        place.grow(f"job-{i}")
    lines = place.witness_path.read_bytes().splitlines(keepends=True)
    changed = {
        "a digit": [lines[0].replace(b'"number":1', b'"number":2'), *lines[1:]],
        "a zero": [*lines[:3], lines[3].replace(b'"mac"', b'"\0ac"')],
        "a line less": [lines[0], *lines[2:]],
        "two lines swapped": [lines[0], lines[2], lines[1], lines[3]],
        "no json": [b"[" * 5000 + b"\n", *lines],
    }[change]
    place.witness_path.write_bytes(b"".join(changed))
    with pytest.raises(JournalError, match="was changed, or is another worker's"):
        place.check()


@pytest.mark.parametrize("other", [{"population": "village"}, {"key": b"z" * 32}])
def test_the_witness_of_another_population_or_worker_is_refused(
    place: Place, other: dict[str, object]
) -> None:
    place.witness_path.unlink()
    stranger = place.witness(**other)  # type: ignore[arg-type]
    with place.journal().exclusive() as journal:
        stranger.begin(journal.testimony)
    stranger.path.replace(place.witness_path)
    with pytest.raises(JournalError, match="another worker's or population's"):
        place.check()


def spoil_by(place: Place, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.witness_path
    if how == "missing":
        path.unlink()
    elif how == "a folder":
        path.unlink()
        path.mkdir()
    elif how == "its folder is a file":
        path.unlink()
        place.other_disk.rmdir()
        place.other_disk.write_text("")
    else:
        error = {"read-only": errno.EROFS, "not answering": errno.EIO}[how]
        usual = os.open

        def opened(name: object, flags: int, *more: int) -> int:
            if name == path and flags & os.O_RDWR:
                raise OSError(error, os.strerror(error))
            return usual(name, flags, *more)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", opened)


AWAY = ["missing", "a folder", "its folder is a file", "read-only", "not answering"]


@pytest.mark.parametrize("how", AWAY)
def test_a_required_witness_that_is_away_says_what_to_do(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    spoil_by(place, how, monkeypatch)
    with pytest.raises(WitnessAwayError, match=r"missing, read-only or no file\. Mount"):
        place.check()
    with pytest.raises(WitnessAwayError):
        place.grow("job")


@pytest.mark.parametrize("how", AWAY)
def test_a_wished_witness_that_is_away_is_told_and_work_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    spoil_by(place, how, monkeypatch)
    assert not place.check(required=False)
    assert not place.grow("job", required=False)


def test_a_wished_witness_refuses_an_older_copy_too(place: Place) -> None:
    copy = place.path.read_bytes()
    place.grow("job")
    place.path.write_bytes(copy)
    with pytest.raises(JournalError, match="older copy"):
        place.check(required=False)


def test_a_full_disk_is_noticed_before_a_charge(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs(place.other_disk)
    full = os.statvfs_result((*found[:4], 0, *found[5:]))
    monkeypatch.setattr(os, "fstatvfs", lambda _descriptor: full)
    with pytest.raises(WitnessAwayError, match="is full"):
        place.check()


def test_a_line_that_could_not_be_made_durable_is_read_again(place: Place) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with place.journal().exclusive() as journal:
        journal.append(Burnt("job"))
        witness = Witness(
            WitnessSettings(place.other_disk, required=True),
            population="town",
            key=KEY,
            fsync=fails,
        )
        with pytest.raises(WitnessAwayError):
            witness.attest(journal.testimony, journal.heads)
        assert journal.attest()
    assert place.check()


def test_an_empty_file_is_begun_by_the_owner_only(place: Place) -> None:
    place.witness_path.write_bytes(b"")
    with pytest.raises(JournalError, match="is empty"):
        place.grow("job")
    with place.journal().exclusive() as journal:
        assert place.witness().begin(journal.testimony)
    assert place.check()
