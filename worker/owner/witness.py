"""`qserver-worker witness`: begin witnesses of rollback, check them, or accept a rollback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.errors import ConfigError, JournalError
from worker.journal.journal import Journal
from worker.journal.witness import Witness, WitnessAwayError
from worker.private.registry import Registry

NO_WITNESS = (
    "no witness: a restored copy of the whole state folder cannot be noticed, and what was spent "
    "since could be spent again. Name a folder on another disk or host with --witness"
)
_BEGIN_HINT = "Give --witness FOLDER, or set QSERVER_WITNESS; the folder is on another disk."


@dataclass(frozen=True)
class Witnessed:
    """The state of a population's witness, in words."""

    population: str
    ok: bool
    text: str


def see_to_witnesses(registry: Registry, *, accept: Sequence[str]) -> list[Witnessed]:
    """Begin missing witnesses, and check the others.

    Args:
        accept: populations whose journal is right, by the owner's word, though the witness has
            seen more.

    Raises:
        ConfigError: no folder was named, or an accepted population has no journal here.
    """
    populations = registry.populations()
    for name in accept:
        if name not in populations:
            raise ConfigError("accept", "name a population of this worker", name)
    return [_see_to(registry, name, accept=name in accept) for name in populations]


def _see_to(registry: Registry, population: str, *, accept: bool) -> Witnessed:
    journal = registry.journal(population, create=False)
    witness = journal.witness
    if witness is None:
        raise ConfigError("witness", "name a folder", hint=_BEGIN_HINT)
    with journal.exclusive():
        n_lines = f"{journal.n_records} lines of the journal"
        try:
            if witness.begin(journal.testimony):
                return Witnessed(population, ok=True, text=f"begun; it has seen {n_lines}")
            if accept:
                witness.write(journal.testimony)
                return Witnessed(population, ok=True, text=f"accepted {n_lines}, on your word")
        except JournalError as exc:
            return Witnessed(population, ok=False, text=str(exc))
        return look_at_witness(journal, witness)


def look_at_witness(journal: Journal, witness: Witness) -> Witnessed:
    """Whether the witness agrees with the journal; within a section. Changes nothing."""
    name = str(journal.state.population)
    try:
        witness.check(journal.heads)
    except WitnessAwayError as exc:
        goes_on = "" if witness.required else " It is only wished for: answers are drawn without."
        return Witnessed(name, ok=False, text=f"{exc}{goes_on}")
    except JournalError as exc:
        return Witnessed(name, ok=False, text=str(exc))
    return Witnessed(name, ok=True, text=f"it agrees with the journal's {journal.n_records} lines")


def begin_for_new_population(journal: Journal) -> None:
    """Begin the witness of a population without a dataset yet; within a section.

    Raises:
        WitnessAwayError: the witness is required and cannot be made.
    """
    if journal.witness is None or journal.state.limit_nano is not None:
        return
    try:
        journal.witness.begin(journal.testimony)
    except WitnessAwayError:
        if journal.witness.required:
            raise
