"""A model of spends, crashes and older copies put back, on real journals and witnesses.

What the witness promises is held against what really happened, which no copy can take back: every
draw, and every answer that was shown.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from qserver.errors import JournalError
from tests.sweeps import n_of, share
from worker.journal.journal import Journal
from worker.journal.records import Attached, Burnt, ChargeLine, Released, ReleasedRow, Reserved
from worker.journal.witness import Witness, WitnessSettings

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "with a witness no older copy of journal and store is spent on: each draw has its charge "
        "there, and each shown answer is there, through crashes and copies put back at every step",
    ),
]

N_TOWNS, N_MOVES = n_of(8, share=4), 60
SEEDS = (11, 12, 13)
LIMIT = 10**12


class Town:
    """One worker's folder with its copies, the witness, and the truth."""

    def __init__(self, folder: Path, *, chance: random.Random, witnessed: bool = True) -> None:
        self.chance, self.witnessed = chance, witnessed
        self.folder, self.copies, self.other_disk = (folder / n for n in ("state", "old", "other"))
        for made in (self.folder, self.copies, self.other_disk):
            made.mkdir()
        self.drawn: set[str] = set()
        self.shown: dict[str, int] = {}
        self.n_jobs = 0
        self.seen: Counter[str] = Counter()
        with self.opened().exclusive() as journal:
            journal.append(Attached("people", "s0", LIMIT, "add-remove", "00"))
            if journal.witness is not None:
                journal.witness.begin(journal.testimony)

    def opened(self) -> Journal:
        def no_disk(_descriptor: int) -> None:
            """Copies are taken of whole files here."""

        path = self.folder / "journal"
        found = Journal.open(path, population="town", create=True, fsync=no_disk)
        if self.witnessed:
            settings = WitnessSettings(self.other_disk, required=True)
            found.witness = Witness(settings, population="town", key=b"k" * 32, fsync=no_disk)
        return found

    def spend(self) -> Iterator[str]:
        """One spend in the order of the worker's; a crash ends it at any of its steps."""
        self.n_jobs += 1
        job, journal = f"job-{self.n_jobs}", self.opened()
        with journal.exclusive():
            journal.check_witness()
        yield "checked"
        with journal.exclusive():
            state = journal.state
            version, spent = state.ledger_version + 1, state.spent_nano + 1
            journal.append(Reserved(job, version, spent, (ChargeLine("row", 1),)))
        yield "reserved"
        with journal.exclusive():
            journal.attest()
        yield "witnessed"
        self.drawn.add(job)
        answer = self.chance.randrange(10**9)
        yield "drawn"
        with journal.exclusive():
            journal.append(Released(job, (ReleasedRow("row", (answer,)),)))
        yield "released"
        self.publish(journal, job, answer)
        yield "shown"

    def publish(self, journal: Journal, job: str, answer: int) -> None:
        with journal.exclusive():
            journal.attest()
        assert self.shown.setdefault(job, answer) == answer
        self.shown[job] = answer

    def start(self) -> None:
        """A worker's start: refuse, or settle what was left open."""
        journal = self.opened()
        with journal.exclusive():
            journal.check_witness()
            self.hold_promises(journal)
            open_jobs, released = list(journal.state.open_jobs), dict(journal.state.released)
            for job in open_jobs:
                journal.append(Burnt(job))
        for job, found in released.items():
            self.publish(journal, job, found.rows[0].indices[0])

    def hold_promises(self, journal: Journal) -> None:
        """Whatever was drawn is charged, and whatever was shown is there, bit for bit."""
        assert self.drawn <= set(journal.state.reserved)
        for job, answer in self.shown.items():
            assert journal.state.released[job].rows[0].indices == (answer,)

    def move(self) -> None:
        """A spend, whole or cut by a crash, with copies taken or put back at any of its steps."""
        if self.chance.random() < 0.25 and any(self.copies.iterdir()):
            self.put_an_older_copy_back()
        crash_at = self.chance.randrange(12)
        try:
            self.start()
            for at, step in enumerate(self.spend()):
                self.seen[step] += 1
                if self.chance.random() < 0.1:
                    shutil.copy(self.folder / "journal", self.copies / str(at))
                if at == crash_at:
                    self.tear()
                    return
        except JournalError:
            self.seen["refused"] += 1
            shutil.copy(self.newest, self.folder / "journal")
        finally:
            shutil.copy(self.folder / "journal", self.newest)

    def put_an_older_copy_back(self) -> None:
        shutil.copy(self.chance.choice(sorted(self.copies.iterdir())), self.folder / "journal")

    def tear(self) -> None:
        """A crash leaves the beginning of a line of the witness."""
        path = self.other_disk / "town.witness"
        if self.witnessed and self.chance.random() < 0.5:
            with path.open("ab") as file:
                file.write(b'{"head":"7fdb'[: self.chance.randrange(1, 13)])

    @property
    def newest(self) -> Path:
        """The owner's newest copy, to put back after a refusal."""
        return self.folder / "newest"


def play(folder: Path, seed: int, *, witnessed: bool) -> Counter[str]:
    """How often each thing happened in some towns; AssertionError where a promise broke."""
    chance, seen = random.Random(seed), Counter[str]()
    for i in range(N_TOWNS):
        (folder / str(i)).mkdir()
        town = Town(folder / str(i), chance=chance, witnessed=witnessed)
        for _ in range(N_MOVES):
            town.move()
        seen += town.seen
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", share(SEEDS, 1))
def test_no_start_lacks_the_charge_of_a_draw_or_an_answer_that_was_shown(
    tmp_path: Path, seed: int
) -> None:
    seen = play(tmp_path, seed, witnessed=True)
    assert seen["refused"] > N_TOWNS
    assert seen["shown"] > N_TOWNS * N_MOVES / 10


def test_without_the_witness_older_copies_lack_charges(tmp_path: Path) -> None:
    """Negative control: the model does put copies back that tell."""
    with pytest.raises(AssertionError):
        play(tmp_path, SEEDS[0], witnessed=False)
