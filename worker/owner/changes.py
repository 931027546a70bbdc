"""Changes of a population by its owner, on the trusted side: each is a line of the journal first.

*Top-up* raises a population's limit. *Declare* says, after they were attached, that the files of
two datasets have no person in common: that lowers what a person may have lost. *Measure* chooses
what is measured for questions on a dataset that do not say: themselves only, or also tables.
*Expect* says how many questions are expected on it until the limit. Both decide which purchases are
made, never what a person may lose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from qserver.config import Settings
from qserver.errors import ConfigError, JournalError
from qserver.ledger.population import pair
from qserver.query.requirement import Measure
from qserver.records.charge import epsilon_text
from qserver.records.dataset import expected_of
from qserver.records.privacy.conversion import Shown, limit_nano
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.journal import Journal
from worker.journal.records import DeclaredDisjoint, ExpectedSet, LimitRaised, MeasureSet
from worker.owner.checks.population import MAX_LIMIT, changing, check_name, snapshots_so_far
from worker.private.registry import Registry
from worker.private.spark_place import SparkCodes


@dataclass(frozen=True)
class TopUp:
    """The limit before and after, in nano-epsilon; under zcdp at the population's delta."""

    population: str
    before_nano: int
    after_nano: int


def top_up(population: str, limit: Fraction, *, settings: Settings, registry: Registry) -> TopUp:
    """Raise a population's limit to `limit` epsilon, for ever.

    Raises:
        ConfigError: the limit is out of range, or no more than the present one.
        JournalError: there is no journal of this population.
        StoreBehindError: the journal has charges that the store lacks.
    """
    check_name("population", population)
    if not 0 < limit <= MAX_LIMIT:
        raise ConfigError("limit", "be more than 0 and at most 1e6 epsilon", str(limit))
    with changing(population, settings=settings, registry=registry) as (store, journal):
        old = journal.state.limit_nano
        if old is None:
            raise JournalError("The journal has no limit yet. Attach a dataset first.")
        delta, shown = journal.state.delta, Shown(journal.state.delta)
        new = limit_nano(limit, delta)
        present = f"be more than {epsilon_text(shown.nano(old))} epsilon"
        if new < old:
            raise ConfigError("limit", present, str(limit))
        if new > old:
            journal.append(LimitRaised(old, new))
        more = {} if delta is None else {"delta": delta}
        raised = store.owner.raise_limit(population, limit_nano=new, **more)
    if not raised and new == old:
        raise ConfigError("limit", present, str(limit))
    return TopUp(population, shown.nano(old), shown.nano(new))


@dataclass(frozen=True)
class Declared:
    """What was declared.

    Args:
        n_pairs: pairs of snapshots that have no person in common by the owner's word.
        n_new: those that were not declared before.
    """

    population: str
    n_pairs: int
    n_new: int


def declare_disjoint(
    population: str, one: str, other: str, *, settings: Settings, registry: Registry
) -> Declared:
    """Declare that nobody in any file of dataset `one` is in any file of dataset `other`.

    The files are those that the datasets have or had so far. If both are the same dataset, no
    person is in two of its files.

    Raises:
        ConfigError: a dataset was never attached under the population, or has one file only.
        JournalError: there is no journal of this population.
        StoreBehindError: the journal knows of spending that the store does not.
    """
    check_name("population", population)
    reader = Store.open(settings, role="worker-reader")
    with changing(population, settings=settings, registry=registry) as (store, journal):
        # An attach that died half-way, or was refused, has left a line in the journal.
        firsts, seconds = (
            [k for k in known if store.owner.knows_snapshot(population, k)]
            for known in (_known(name, population, journal, reader) for name in (one, other))
        )
        for field, name, found in (("dataset", one, firsts), ("other", other, seconds)):
            if not found:
                names = f"It has had: {', '.join(journal.state.snapshots) or 'none'}."
                raise ConfigError(field, "name a dataset of the population", name, hint=names)
        pairs = {pair(a, b) for a in firsts for b in seconds if a != b}
        if not pairs:
            raise ConfigError("other", "be another dataset: this one has had one file only", other)
        unknown = sorted(pairs - journal.state.declared)
        if unknown:
            journal.append(DeclaredDisjoint(tuple(unknown)))
        n_new = store.owner.declare_disjoint(population, sorted(pairs))
    return Declared(population, len(pairs), n_new)


def _known(dataset: str, population: str, journal: Journal, reader: Store) -> list[str]:
    """The snapshots that the dataset has or had, be it attached now or not."""
    if reader.datasets().get(dataset) == population:
        return snapshots_so_far(reader.meta(dataset), journal, reader)
    return journal.state.snapshots.get(dataset, [])


@dataclass(frozen=True)
class ChosenMeasure:
    """The choice for a dataset, before and after."""

    dataset: str
    before: Measure
    after: Measure


def set_measure(
    name: str, measure: Measure, *, settings: Settings, registry: Registry
) -> ChosenMeasure:
    """Choose for all questions on the dataset that do not say; those that wait stay as quoted.

    Raises:
        NotFoundError: there is no such dataset.
        JournalError: there is no journal of its population.
        StoreBehindError: the journal has charges that the store lacks.
        StaleVersionError: the dataset got another file meanwhile.
    """
    reader = Store.open(settings, role="worker-reader")
    meta = reader.meta(name)
    before = reader.stamp(meta).measure
    with changing(meta.population, settings=settings, registry=registry) as (store, journal):
        if before != measure:
            journal.append(MeasureSet(meta.snapshot, measure))
        store.owner.set_measure(meta, measure)
    return ChosenMeasure(name, before, measure)


@dataclass(frozen=True)
class ChosenExpected:
    """How many questions are expected on a dataset, before and after; 0 where nobody says."""

    dataset: str
    before: int
    after: int


def set_expected(
    name: str, expected: int, *, settings: Settings, registry: Registry
) -> ChosenExpected:
    """Say about how many questions are expected until the limit; 0 takes the word back.

    Raises:
        InputError: the number is out of range.
        NotFoundError, JournalError, StoreBehindError, StaleVersionError: as `set_measure`.
    """
    reader = Store.open(settings, role="worker-reader")
    meta = reader.meta(name)
    before = reader.stamp(meta).expected
    with changing(meta.population, settings=settings, registry=registry) as (store, journal):
        if before != expected_of(expected):
            journal.append(ExpectedSet(meta.snapshot, expected))
        store.owner.set_expected(meta, expected)
    return ChosenExpected(name, before, expected)


def _unsaid(_line: str) -> None:
    """For a detachment that nobody watches."""


def detach(
    name: str,
    *,
    settings: Settings,
    registry: Registry,
    log: logging.Logger,
    say: Callable[[str], None] = _unsaid,
) -> None:
    """Take a dataset off the list, and end the questions on it that wait.

    A worker that holds the population ends them. If there is none, they are ended here. The part
    files of data that arrived over time are deleted: they are copies of the owner's files.

    Raises:
        NotFoundError: there is none of this name.
        BusyError: an append is under way; the dataset is off the list, and its parts stay.
        JournalError: the population's journal cannot be read; the dataset is off the list.
    """
    entry = registry.entry(name)
    store = SpendingStore.open(settings)
    store.detach(name, population=entry.population, snapshot=entry.snapshot)
    registry.remove(name)
    if entry.grows:
        registry.parts(entry).remove()
    if entry.spark is not None:
        say(f"the codes stay in {SparkCodes.of_plain(entry.spark).path}: delete them")
    population = entry.population
    waiting = [taken for taken in store.queue.waiting(population) if taken.dataset == name]
    lease = store.acquire(population) if waiting else None
    if lease is None:
        return
    try:
        # What ends jobs loads the planner, and a top-up does without.
        from worker.spending.spend import Spender

        spender = Spender.without_data(
            {population: registry.journal(population, create=False)},
            reader=Store.open(settings, role="worker-reader"),
            writer=store,
            settings=settings,
            log=log,
        )
        # Those that were charged end as the journal decides, and the others as not found.
        spender.settle(lease)
        while waiting:
            waiting = spender.work(lease, waiting)
    finally:
        store.release(lease)
