"""The owner's changes of a population, on the trusted side: each is first a line of the journal.

*Top-up* raises a population's limit. *Declare* says, after they were attached, that the files of
two datasets have no person in common: that lowers what a person may have lost. *Measure* chooses
what is measured for questions on a dataset that do not say: themselves only, or also tables.
*Expect* says how many questions are expected on it until the limit. Both decide which purchases are
made, never what a person may lose. *Claims* are read from a file and checked, at an attach or
later.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError, JournalError
from qserver.ledger.claims import ClaimBounds, claimed_queries
from qserver.ledger.population import pair
from qserver.query.requirement import Measure
from qserver.records.charge import epsilon_text
from qserver.records.claim import (
    Claim,
    claims_from_json,
    claims_from_plain,
    claims_json,
)
from qserver.records.dataset import DatasetMeta, expected_of
from qserver.records.privacy.conversion import Shown, limit_nano
from qserver.records.statement import ClaimStatus
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.journal import Journal
from worker.journal.records import ClaimsSet, DeclaredDisjoint, ExpectedSet, LimitRaised, MeasureSet
from worker.journal.state import JournalState
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
    """The declared pair.

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
        # An attach that died half-way, or was refused, left a line in the journal.
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
    """The present and earlier snapshots of a dataset, attached or not."""
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
    """Choose the default for `measure` on the dataset; waiting questions stay as quoted.

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
    """The number of questions expected on a dataset, before and after; 0 for none."""

    dataset: str
    before: int
    after: int


def set_expected(
    name: str, expected: int, *, settings: Settings, registry: Registry
) -> ChosenExpected:
    """State how many questions are expected until the limit; 0 takes the word back.

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
    """The report of a detachment that nobody watches."""


def detach(
    name: str,
    *,
    settings: Settings,
    registry: Registry,
    log: logging.Logger,
    say: Callable[[str], None] = _unsaid,
) -> None:
    """Take a dataset off the list, and end its waiting questions.

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
        # Ending jobs loads the planner, and a top-up does without.
        from worker.spending.spend import Spender

        spender = Spender.without_data(
            {population: registry.journal(population, create=False)},
            reader=Store.open(settings, role="worker-reader"),
            writer=store,
            settings=settings,
            log=log,
        )
        # Charged jobs end as the journal decides, the others as not found.
        spender.settle(lease)
        while waiting:
            waiting = spender.work(lease, waiting)
    finally:
        store.release(lease)


MAX_BYTES = 1 << 20


def load_claims(path: Path | None) -> tuple[Claim, ...]:
    """The claims in a JSON file, one object or a list; none without a file.

    Raises:
        ConfigError: the file cannot be read, or a claim is wrong.
    """
    if path is None:
        return ()
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError("claims", f"be a file of at most {MAX_BYTES >> 20} MiB")
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigError("claims", f"be a readable JSON file ({type(exc).__name__})") from exc
    return claims_from_plain(plain)


def check_claims(meta: DatasetMeta) -> None:
    """Return if no claim is known before the first question.

    Raises:
        ConfigError: one is; the message names it.
    """
    balanced = meta.has_known_total
    found = claimed_queries(meta.claims, meta.domain, balanced=balanced, law=meta.law)
    for claim, known in ClaimBounds(found).known(every_nano=0):
        if known > claim.p:
            raise ConfigError(
                f"claims.{claim.name}",
                "ask for what is not public anyway: a query that is not the same for all data",
            )


def claims_in_force(meta: DatasetMeta, state: JournalState) -> tuple[Claim, ...]:
    """The owner's last claims on a snapshot, by the journal."""
    later = state.claims.get(meta.snapshot)
    if later is not None:
        return claims_from_json(later)
    attached = state.by_snapshot.get(meta.snapshot)
    text = None if attached is None else attached.details.get("meta")
    # The first versions wrote fewer facts down, and had no claims.
    return () if text is None else DatasetMeta.from_json(str(text)).claims


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    """A sentence for each claim."""
    return [
        f"Claim {claim.name}: within a width of {float(claim.exact_width):.12g} it is known with "
        f"probability {claim.p} at most."
        for claim in claims
    ]


@dataclass(frozen=True)
class ClaimsNow:
    """The claims of a dataset, each with the highest probability that it can be known with now."""

    dataset: str
    claims: tuple[ClaimStatus, ...]


def claims_of(name: str, *, settings: Settings) -> ClaimsNow:
    """The claims in force, and how well each can be known now; NotFoundError."""
    # An attach needs no inference.
    from qserver.answering.replica import Replica

    reader = Store.open(settings, role="worker-reader")
    replica = Replica(reader.meta(name), settings, shown_only=False)
    replica.refresh(reader)
    return ClaimsNow(name, tuple(claim.status(known) for claim, known in replica.known_claims))


def set_claims(
    name: str, claims: Sequence[Claim], *, settings: Settings, registry: Registry
) -> ClaimsNow:
    """Replace the claims in force, for every spend planned from now on.

    The journal comes first. If the command dies before the store has them, nothing is spent on the
    population until it is repeated.

    Raises:
        NotFoundError: there is no such dataset.
        ConfigError: a claim is known from the start; QueryError: one is no question on the domain.
        JournalError: there is no journal of its population.
        StoreBehindError: the journal has charges that the store lacks.
        StaleVersionError: the dataset got another file meanwhile.
    """
    reader = Store.open(settings, role="worker-reader")
    meta = reader.meta(name)
    check_claims(replace(meta, claims=tuple(claims)))
    with changing(meta.population, settings=settings, registry=registry) as (store, journal):
        text = claims_json(claims)
        if claims_json(claims_in_force(meta, journal.state)) != text:
            journal.append(ClaimsSet(meta.snapshot, text))
        if meta.snapshot in journal.state.claims:
            store.owner.set_claims(meta, claims)
    return claims_of(name, settings=settings)


def known_lines(now: ClaimsNow) -> list[str]:
    """A sentence for each claim, with the probability that it can be known with now."""
    if not now.claims:
        return [f"There are no claims about {now.dataset}."]
    return [
        f"Claim {claim.name}: within a width of {claim.width:.12g} it is known with probability "
        f"{claim.known:.6g} at most now, and {claim.p:g} at most ever."
        for claim in now.claims
    ]
