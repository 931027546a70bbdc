"""Ask the owner when a new file holds another population's data.

The same people under two populations would get two limits. Only the owner knows whether they are
the same people, so an equal file is refused until the owner has said that they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from qserver.errors import ConfigError
from worker.journal.records import Attached, Sealed
from worker.private.content_digests import Content
from worker.private.present_content import content_now
from worker.private.registry import Registry


@dataclass(frozen=True)
class NewData:
    """The owner's words on the data that a command brings.

    Args:
        name: of the dataset.
        same_data_other_people: the owner's word that nobody in this file is in another population
            that has the same data. Without it such a file is refused.
        empty: the owner's word that a period without records is meant.
        as_it_is: the owner's word that a column may be lost, also in appends and rotations to come;
            of these, as attach said where it is False.
    """

    name: str
    same_data_other_people: bool = field(default=False, kw_only=True)
    empty: bool = field(default=False, kw_only=True)
    as_it_is: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class SameData:
    """A population with the same data.

    Args:
        dataset: the dataset that has or had them.
        shared: what is the same, in words.
    """

    population: str
    dataset: str
    shared: str


def ask_for_other_people(
    content: Content,
    *,
    fingerprints: Collection[str] = (),
    population: str,
    registry: Registry,
    other_people: bool,
    say: Callable[[str], None],
) -> tuple[str, ...]:
    """The other populations with the same data but, by the owner's word, other people.

    Use it within `Registry.comparing`, and write the new snapshot down in the same section.

    Args:
        content: what the file holds.
        fingerprints: of its records, sorted and in the order of the file; the latter is all that
            older lines have.
        other_people: whether the owner gave that word.
        say: takes what the owner should know, for the terminal only.

    Raises:
        ConfigError: another population has the same data, and there is no such word.
    """
    found: dict[str, SameData] = {}
    entries = {entry.snapshot: entry for entry in registry.entries().values()}
    for name in registry.populations():
        if name == population:
            continue
        for known in _known(registry, name):
            theirs = Content.of_details(known.details)
            if theirs is None:
                entry = entries.get(known.snapshot)
                theirs = None if entry is None else content_now(registry, entry)
            shared = content.shared_with(theirs or Content())
            if content != Content() and known.fingerprint in fingerprints:
                shared = shared or ["the same records"]
            if shared:
                found[name] = SameData(name, known.dataset, " and ".join(shared))
            elif theirs is None and not known.is_first_part:
                say(_unknown_text(name, known.dataset))
    if found and not other_people:
        raise _refused(list(found.values()))
    if other_people:
        say(_declared_text(list(found.values())))
    return tuple(sorted(found))


@dataclass(frozen=True)
class _Known:
    """A file on record: a snapshot, or a part of one."""

    dataset: str
    snapshot: str
    details: Mapping[str, str | int]
    fingerprint: str

    @property
    def is_first_part(self) -> bool:
        """Whether the snapshot's own line, written with it, tells its content."""
        return not self.details


def _known(registry: Registry, population: str) -> list[_Known]:
    """Every file that a population has or had."""
    with registry.journal(population, create=False).exclusive() as journal:
        names = {s: record.dataset for s, record in journal.state.by_snapshot.items()}
        return [
            _Known(names[one.snapshot], one.snapshot, one.details, one.fingerprint_hex)
            for one in journal.records()
            if isinstance(one, Attached | Sealed)
        ]


def _refused(found: list[SameData]) -> ConfigError:
    where = "; ".join(
        f"dataset {f.dataset} of population {f.population} has {f.shared}" for f in found
    )
    return ConfigError(
        "data",
        "hold other data than every other population",
        hint=f"Already {where}. The same people must share one limit: if they are the same, attach "
        f"the file with --population {found[0].population}. If they are other people who happen "
        "to have the same data, declare it with --same-data-other-people.",
    )


def _declared_text(found: list[SameData]) -> str:
    if not found:
        return "No other population has this data: --same-data-other-people declares nothing here."
    names = " and ".join(f.population for f in found)
    return (
        f"You declared that nobody in this file is in population {names}, which has the same data; "
        "else that person can lose the limit of each population."
    )


def _unknown_text(population: str, dataset: str) -> str:
    return (
        f"note: dataset {dataset} of population {population} was attached by an earlier version, "
        "and its file is gone or was changed. Only you know whether its people are in this file."
    )
