"""Attach: validate and convert a private file once, and register its public facts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_to_document
from qserver.query.requirement import DEFAULT_PHI, Measure
from qserver.records.charge import NANO, Relation, epsilon_text
from qserver.records.claim import Claim, guard_nano
from qserver.records.codec import plain
from qserver.records.dataset import DatasetMeta, Growth, expected_of
from qserver.records.declared_unit import check_together
from qserver.records.privacy import Privacy
from qserver.records.privacy.conversion import check_privacy, limit_nano
from qserver.records.privacy.noise_law import law_of
from qserver.records.unit import THE_PERSON, Unit
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.records import Attached
from worker.owner.arrivals.findings import Late
from worker.owner.arrivals.part import read_part
from worker.owner.arrivals.sealing import arriving_first, growth_of, seal_first
from worker.owner.changes import check_claims, claim_lines
from worker.owner.checks.capacity import MAX_CAPACITY, check_capacity, check_slot
from worker.owner.checks.population import (
    MAX_LIMIT,
    check_name,
    check_store_remembers,
    snapshots_so_far,
)
from worker.owner.same_data import NewData, ask_for_other_people
from worker.owner.snapshot_line import DemandOf, attached_record, demand_of_dataset, public_row
from worker.owner.witness import begin_for_new_population
from worker.private.present_content import read_where_it_stays
from worker.private.registry import Registry, RegistryEntry
from worker.private.snapshot import Snapshot, empty_snapshot
from worker.private.spark_place import SparkPlace
from worker.private.truncation import PeriodRule, PersonRule
from worker.sources.address import Address

MIN_PHI, MAX_PHI = 0.05, 20.0


@dataclass(frozen=True)
class AttachRequest(NewData):
    """The options of an attach.

    Args:
        population: the people behind it; datasets about the same people share one.
        limit: the population's epsilon.
        records_per_person: most records that one person owns, as declared.
        phi: budget for single rows before tables are bought; see DatasetMeta.
        person_column: column of the file that names the person of a record; '' leaves
            `records_per_person` a declaration.
        disclosure_cap: most probability at which a cell's count may be known; None for no guard.
        disjoint_from: datasets of the population. The owner declares that nobody in this file is in
            any file that they have or had.
        capacity: most records that the dataset may ever have, public; None declares nothing.
        measure: what is measured for a question whose asker does not choose.
        demand_of: a dataset of the population and domain whose questions are planned for; '' for
            none.
        claims: what must not be known too well.
        unit: which records of a person count together, for a domain with periods.
        to: the last period that this file seals, where data arrive over time; '' where all are
            there. Then `capacity` is that of one period.
        place: where on Spark its codes stay and are counted; None for the worker's own folder.
        late: what an append does with records of sealed periods unless it says otherwise; None to
            drop them.
        time: the ordered attribute that tables tell apart value by value, where all data are there;
            '' for none.
        expect: about how many questions are expected until the limit; 0 says nothing.
        privacy: what the limit bounds: epsilon, or rho, of which the limit is epsilon at `delta`.
        delta: with that probability the people may lose more; None under pure privacy.

    Raises:
        ConfigError, InputError: a value is out of range.
        QueryError, CapacityError: a claim is no question on the domain.
    """

    data: Path | Address
    domain: Domain
    limit: Fraction
    relation: Relation
    population: str
    records_per_person: int
    phi: float = DEFAULT_PHI
    person_column: str = ""
    disclosure_cap: float | None = None
    disjoint_from: tuple[str, ...] = ()
    capacity: int | None = None
    measure: Measure = "auto"
    demand_of: str = ""
    claims: tuple[Claim, ...] = ()
    unit: Unit = THE_PERSON
    to: str = ""
    late: Late | None = None
    time: str = ""
    place: SparkPlace | None = None
    expect: int = 0
    privacy: Privacy = "pure"
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_name("population", self.population)
        if not Fraction(1, NANO) <= self.limit <= MAX_LIMIT:
            raise ConfigError("limit", "be from 1e-9 to 1e6 epsilon", str(self.limit))
        if self.relation not in ("add-remove", "replace-one"):
            raise ConfigError("neighbours", "be add-remove or replace-one", self.relation)
        if not MIN_PHI <= self.phi <= MAX_PHI:
            raise ConfigError("phi", f"be from {MIN_PHI:g} to {MAX_PHI:g}", self.phi)
        if self.person_column in {a.source for a in self.domain.attributes}:
            raise ConfigError("person_id", "name a column that is no attribute of the domain")
        check_together(
            self.unit,
            records_per_person=self.records_per_person,
            domain=self.domain,
            relation=self.relation,
            enforced=bool(self.person_column),
        )
        self._check_size()
        self._check_arrivals()
        check_privacy(self.privacy, self.delta)
        if self.disclosure_cap is not None:
            guard_nano(self.disclosure_cap, law_of(self.privacy))
        expected_of(self.expect)
        for claim in self.claims:
            claim.row(self.domain)

    def _check_size(self) -> None:
        if self.capacity is not None and not 1 <= self.capacity <= MAX_CAPACITY:
            raise ConfigError("capacity", "be from 1 to 2^40", self.capacity)
        if self.place is not None and (self.to or self.capacity is not None):
            raise ConfigError(
                "codes",
                "be left out with --to and --capacity",
                hint="Data that arrive over time are counted on this machine, and --slot says how "
                "long a count on Spark may take, whatever the number of records.",
            )

    def _check_arrivals(self) -> None:
        if self.late and not self.to:
            raise ConfigError("late", "be left out where data do not arrive over time")
        if self.time:
            self._check_time()

    def _check_time(self) -> None:
        if self.time not in self.domain.names:
            raise ConfigError("time", "name an attribute of the domain", self.time)
        if self.to:
            raise ConfigError("time", "be left out with --to, whose periods are the time")
        if self.demand_of:
            raise ConfigError(
                "time",
                "be left out with --demand-of",
                hint="Earlier questions are not planned for where tables tell a time apart.",
            )

    @property
    def person_rule(self) -> PersonRule | None:
        """The rule for records of one person; None keeps all."""
        if not self.person_column:
            return None
        return PersonRule(self.person_column, self.records_per_person, self._by_period)

    @property
    def _by_period(self) -> PeriodRule | None:
        axis, k = self.domain.period_axis, self.records_per_person
        if axis is None:
            return None
        return PeriodRule(axis, self.unit.most_in_period(k), self.unit.most_in_all(k))

    @property
    def growth(self) -> Growth | None:
        """How the data arrive over time; None if all are there."""
        return growth_of(self.domain, self.capacity) if self.to else None

    @property
    def limit_nano(self) -> int:
        """The limit in nano-epsilon, or in nano-rho under zcdp; rounded down."""
        return limit_nano(self.limit, self.delta)


def attach(
    request: AttachRequest,
    *,
    settings: Settings,
    registry: Registry,
    progress: Callable[[str], None],
    clock: Callable[[], float] = time.perf_counter,
) -> DatasetMeta:
    """Read and convert the file, then register the dataset; returns its public facts.

    Raises:
        PrivateDataError: the file cannot be read as the domain says.
        ConfigError: the name is taken, or the population has another limit or relation, or another
            population has the same data, or the records or a scan of them pass the capacity.
        StoreBehindError: the journal has charges that the store lacks.
    """
    store = SpendingStore.open(settings)
    if store.is_attached(request.name):
        raise ConfigError("name", "not be attached already", request.name)
    growth, key = request.growth, registry.key()
    progress("reading and converting the data")
    # The word is about the present files, not about one that arrives during this read.
    disjoint_from = _disjoint_from(request, registry, settings)
    if growth is None:
        first = None
        snapshot = read_where_it_stays(
            request.data,
            request.domain,
            request.place,
            key=key,
            folder=registry.seals,
            person=request.person_rule,
            say=progress,
            empty=request.empty,
            as_it_is=request.as_it_is,
        )
    else:
        arriving = arriving_first(request.to, request.domain, growth, request.person_rule, key=key)
        first = read_part(
            request.data,
            replace(arriving, empty=request.empty, as_it_is=request.as_it_is),
            folder=registry.seals,
            say=progress,
        )
        snapshot = empty_snapshot(
            request.domain, content=first.content, key=key, person_type=first.person_type
        )
    meta = _meta(request, disjoint_from, _demand_of(request, settings))
    check_claims(meta)
    check_capacity(meta.capacity, snapshot.n_records)
    if request.capacity is not None:
        progress("timing a scan of as many records as the capacity")
        check_slot(request.capacity, meta.domain, slot_ms=settings.slot_ms, clock=clock)
    progress("registering the dataset")
    _write_down(request, meta, snapshot, store=store, registry=registry, say=progress)
    # The registry first: after a crash between the two, the owner can attach again.
    entry = _entry(request, meta, snapshot)
    registry.put(entry, snapshot.seal)
    store.attach(meta, limit_nano=request.limit_nano, public_row=public_row(meta, snapshot))
    store.queue.make_queue(request.population)
    store.await_durable()
    if first is not None:
        seal_first(meta, first, entry, settings=settings, registry=registry, say=progress)
    return meta


def check_one_privacy(attached: Iterable[Attached], meta: DatasetMeta) -> None:
    """Raise ConfigError unless a population's datasets so far have this privacy and delta."""
    for one in attached:
        if one.delta != meta.delta:
            kept = "pure" if one.delta is None else f"zcdp with delta {float(one.delta):g}"
            raise ConfigError("privacy", f"be that of population {meta.population}: {kept}")


def _demand_of(request: AttachRequest, settings: Settings) -> DemandOf:
    if not request.demand_of:
        return ()
    return demand_of_dataset(
        request.demand_of,
        population=request.population,
        domain=request.domain,
        reader=Store.open(settings, role="worker-reader"),
    )


def _meta(
    request: AttachRequest, disjoint_from: tuple[str, ...], demand_of: DemandOf
) -> DatasetMeta:
    return DatasetMeta(
        name=request.name,
        population=request.population,
        snapshot=secrets.token_hex(8),
        domain=request.domain,
        relation=request.relation,
        records_per_person=request.records_per_person,
        records_verified=bool(request.person_column),
        phi=request.phi,
        disclosure_cap=request.disclosure_cap,
        disjoint_from=disjoint_from,
        capacity=None if request.to else request.capacity,
        measure=request.measure,
        demand_of=demand_of,
        claims=request.claims,
        unit=request.unit,
        growth=request.growth,
        time=request.time,
        expected=request.expect,
        privacy=request.privacy,
        delta=request.delta,
    )


def _write_down(
    request: AttachRequest,
    meta: DatasetMeta,
    snapshot: Snapshot,
    *,
    store: SpendingStore,
    registry: Registry,
    say: Callable[[str], None],
) -> None:
    """Write the snapshot to the population's journal, if owner and store allow it."""
    with registry.comparing():
        others = ask_for_other_people(
            snapshot.content,
            fingerprints=(snapshot.fingerprint, snapshot.in_order),
            population=request.population,
            registry=registry,
            other_people=request.same_data_other_people,
            say=say,
        )
        journal = registry.journal(request.population, create=True)
        with journal.exclusive():
            check_store_remembers(store, journal, request.population)
            begin_for_new_population(journal)
            check_one_privacy(journal.state.by_snapshot.values(), meta)
            if journal.state.limit_nano not in (None, request.limit_nano):
                raise ConfigError("limit", f"be the limit that population {request.population} has")
            journal.append(
                attached_record(
                    meta, snapshot, limit_nano=request.limit_nano, other_people_than=others
                )
            )


def _disjoint_from(
    request: AttachRequest, registry: Registry, settings: Settings
) -> tuple[str, ...]:
    """Every snapshot so far of the datasets that the owner declares to hold other people."""
    found: dict[str, None] = {}
    reader = Store.open(settings, role="worker-reader")
    for name in request.disjoint_from:
        meta = reader.meta(name)
        if meta.population != request.population:
            raise ConfigError("disjoint_from", f"be a dataset of population {request.population}")
        with registry.journal(request.population, create=False).exclusive() as journal:
            found |= dict.fromkeys(snapshots_so_far(meta, journal, reader))
    return tuple(found)


def _entry(request: AttachRequest, meta: DatasetMeta, snapshot: Snapshot) -> RegistryEntry:
    rule = request.person_rule
    by_period = None if rule is None else rule.by_period
    return RegistryEntry(
        name=meta.name,
        population=meta.population,
        snapshot=meta.snapshot,
        data="" if request.to else Address.of(request.data).shown,
        domain=domain_to_document(request.domain),
        records_per_person=meta.records_per_person,
        fingerprint=snapshot.fingerprint,
        person_column=request.person_column,
        by_period=None if by_period is None else plain(by_period),
        late=request.late or "drop",
        sealed=not request.to,
        spark=None if snapshot.spark is None else snapshot.spark.to_plain(),
        person_type=snapshot.person_type,
        as_it_is=request.as_it_is,
    )


def guarantee_lines(meta: DatasetMeta, limit_nano: int) -> list[str]:
    """The parts of the guarantee: enforced by attach, or declared by the owner."""
    how = "enforced" if meta.records_verified else "as declared; not verified"
    lines = [f"Records per person: {meta.records_per_person}, {how}."]
    if meta.delta is not None:
        delta, limit = f"{float(meta.delta):g}", epsilon_text(meta.shown.nano(limit_nano))
        lines.append(
            f"Privacy: zcdp, for ever. The limit is rho {epsilon_text(limit_nano)}, which is "
            f"epsilon {limit} at delta {delta}: with that probability somebody may lose more."
        )
    if meta.unit_status is not None:
        lines.append(f"Protected: {meta.unit_status.text}.")
    if meta.guard_nano is not None:
        allowed = epsilon_text(meta.shown.nano(meta.guard_nano))
        lines.append(
            f"Disclosure guard: a cell may lose {allowed} epsilon, so that "
            f"its count is known with probability {meta.disclosure_cap} at most."
        )
        if meta.guard_nano >= limit_nano:
            lines.append("It cannot bind: the limit is reached first.")
    lines += claim_lines(meta.claims)
    if meta.capacity is not None:
        lines.append(f"Capacity: {meta.capacity:,} records, public; the slot holds their scan.")
    if meta.growth is not None:
        lines.append(
            f"Data arrive over time, by {meta.growth.attribute}: up to {meta.growth.capacity:,} "
            f"records each, public. `qserver-worker append {meta.name}` brings the next."
        )
    if meta.time:
        lines.append(f"Time: every table tells the values of {meta.time} apart.")
    if meta.expected:
        lines.append(f"Expected: about {meta.expected:,} questions until the limit, public.")
    lines += declared_lines(meta)
    return lines


def declared_lines(meta: DatasetMeta) -> list[str]:
    """The owner's declarations, repeated where they are used."""
    if not (n := len(meta.disjoint_from)):
        return []
    files = "the earlier file" if n == 1 else f"any of the {n} earlier files"
    return [f"You declared that nobody in this file is in {files}; else a person can lose twice."]
