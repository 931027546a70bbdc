"""What an owner is told of the witness of a journal, whatever has become of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.journal.journal import Journal
from worker.journal.records import Burnt
from worker.journal.witness import Witness, WitnessSettings
from worker.owner.witness import Witnessed, look_at_witness


def _looked(folder: Path, *, required: bool = True, is_away: bool = False) -> Witnessed:
    """What is said of a journal of one line that its witness saw, or cannot see any more."""
    other = folder / "other"
    other.mkdir()
    witness = Witness(WitnessSettings(other, required), population="town", key=b"k" * 32)
    journal = Journal.open(folder / "town.journal", population="town", create=True)
    journal.witness = witness
    with journal.exclusive():
        witness.begin(journal.testimony)
        journal.append(Burnt("job"))
        journal.attest()
        if is_away:
            (other / "town.witness").unlink()
            other.rmdir()
        return look_at_witness(journal, witness)


def test_one_that_agrees_says_how_much_it_has_seen(tmp_path: Path) -> None:
    found = _looked(tmp_path)
    assert (found.population, found.ok) == ("town", True)
    assert found.text.startswith("it agrees with the journal's ")


@pytest.mark.parametrize("required", [True, False])
def test_one_that_is_away_is_no_good_and_says_whether_work_goes_on(
    tmp_path: Path, required: bool
) -> None:
    found = _looked(tmp_path, required=required, is_away=True)
    assert (found.population, found.ok) == ("town", False)
    assert found.text.endswith("It is only wished for: answers are drawn without.") != required
