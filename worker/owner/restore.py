"""`qserver-worker restore`: the owner runs it on a restored store before any draw.

Bring a restored store up to the journal, before anything can be drawn again.

A backup of the store is older than the journal. The charges since then are made again, line by line
as the journal has them. The answers since then are published again, bit for bit. Nothing is drawn,
and nothing new is charged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from qserver.config import Settings
from qserver.errors import (
    BudgetExhaustedError,
    ConfigError,
    JournalError,
    StoreBehindError,
    StoreCorruptError,
)
from qserver.ledger.population import pair
from qserver.query.requirement import measure_of
from qserver.records.charge import epsilon_text
from qserver.records.claim import claims_from_json, claims_json
from qserver.records.dataset import DatasetMeta
from qserver.records.privacy.conversion import Shown
from qserver.storage.charging import Charging, Lease
from qserver.storage.encoding.digests import ADVICE, reading
from qserver.storage.owner import Forgotten
from qserver.storage.population_facts import StoredFacts, shown_of
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.constants import WORKER
from worker.journal.journal import Journal
from worker.journal.records import (
    Adopted,
    Attached,
    ClaimsSet,
    DeclaredDisjoint,
    ExpectedSet,
    LaterWord,
    LimitRaised,
    MeasureSet,
    Record,
    Reserved,
)
from worker.journal.sections import Replay
from worker.owner.snapshot_line import plain_facts
from worker.owner.store_damage import Damage, lost_texts
from worker.private.registry import Registry
from worker.spending.histories import Histories
from worker.spending.spend import Spender


@dataclass(frozen=True)
class Recovered:
    """The facts that a population's store got back.

    Args:
        n_attached, n_charged: snapshots and charged jobs that the store had forgotten.
        ledger_version: the store's ledger version afterwards.
        spent_nano: the spending afterwards, as it is shown, in 1e-9 epsilon.
        n_mended: snapshots whose released answers were not the journal's.
        changed: parts of the store that were not the journal's, in words. All was given back anew,
            unless `left` has them still.
        left: parts that the journal cannot give back.
    """

    population: str
    n_attached: int
    n_charged: int
    ledger_version: int
    spent_nano: int
    n_mended: int
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Script:
    """The steps in the journal's order, and the facts of every snapshot.

    A step that is a text is the id of a job that the store knows.
    """

    steps: list[Record | str]
    metas: Mapping[str, DatasetMeta]

    @property
    def delta(self) -> Fraction | None:
        """At which the population's rho is shown as epsilon; None under pure privacy."""
        return next((meta.delta for meta in self.metas.values()), None)

    @property
    def n_attached(self) -> int:
        return sum(isinstance(step, Attached) for step in self.steps)

    @property
    def n_charged(self) -> int:
        return sum(isinstance(step, Reserved) for step in self.steps)

    def meta(self, snapshot: str) -> DatasetMeta:
        """The facts of a snapshot; StoreBehindError if the journal is too old."""
        found = self.metas.get(snapshot)
        if found is None:
            raise StoreBehindError(
                "The store has forgotten a dataset, and the journal is too old to tell it. Restore "
                "a later backup."
            )
        return found


class Recovery:
    """Brings one population's store up to its journal; for one thread.

    Args:
        reader: the store's read side.
        writer: the store's spending side.
        spender: settles the jobs that are charged again.
        pause: sleeps for a number of seconds.
    """

    def __init__(
        self,
        *,
        reader: Store,
        writer: SpendingStore,
        spender: Spender,
        registry: Registry,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._spender = spender
        self._registry = registry
        self._pause = pause

    def bring_up(self, population: str, journal: Journal) -> Recovered:
        """Give the store everything of the journal that it lacks; may be repeated.

        Where the store has something else than the journal, all is given back anew.

        Raises:
            StoreBehindError: the two have parted (each has charges that the other lacks), or the
                journal's lines are too old for a replay. Nothing is drawn then.
            JournalError: the journal cannot be read.
        """
        self.put_back_log(journal)
        damage = Damage(population, reader=self._reader, writer=self._writer, journal=journal)
        found, changed = None, damage.of_ledger()
        if not changed:
            try:
                with reading("records"):
                    found = self._give_back(population, journal)
                changed = damage.found(self._registry)
            except (StoreCorruptError, StoreBehindError, BudgetExhaustedError) as exc:
                if not damage.can_be_forgotten():
                    raise
                changed = [str(exc)]
        if found is not None and not changed:
            return found
        if not damage.can_be_forgotten():
            if found is None:
                raise StoreCorruptError(f"{changed[0]} The journal lacks plans: restore a backup.")
            return replace(found, left=tuple(changed))
        self._forget(population, damage.everything())
        found = self._give_back(population, journal)
        left = tuple(damage.found(self._registry))
        return replace(found, changed=tuple(changed), left=left)

    def _forget(self, population: str, everything: Forgotten) -> None:
        if not self._writer.has_ledger(population):
            self._writer.owner.forget(population, everything, nonce="")
            return
        lease = self._acquire(population)
        try:
            self._writer.owner.forget(population, everything, nonce=lease.nonce)
        finally:
            self._writer.release(lease)

    def _give_back(self, population: str, journal: Journal) -> Recovered:
        """Give the store what it lacks of the journal."""
        with journal.exclusive():
            script = self._script(population, journal)
        if not self._writer.has_ledger(population):
            self._attach_first(script)
        self._writer.queue.make_queue(population)
        lease, histories = self._acquire(population), Histories(self._writer, {population: journal})
        try:
            n_mended = histories.mend(lease, whole=False)
            self._spender.settle_open(lease)
            for step in script.steps:
                self._writer.renew(lease)
                self._do(lease, step, script)
            histories.mend(lease, whole=True)
            # This compares store and journal once more, as before every spend.
            self._spender.settle(lease)
        finally:
            self._writer.release(lease)
        self._detach_again(script)
        budget = self._writer.owner.budget(population)
        return Recovered(
            population,
            script.n_attached,
            script.n_charged,
            budget.version,
            Shown(script.delta).nano(budget.spent_nano),
            n_mended=n_mended,
        )

    def put_back_log(self, journal: Journal) -> None:
        """Give the store the part of the audit log that the journal's charges name.

        All populations share one log: if there are several, do this for each of them first.

        Raises:
            StoreBehindError: the store's log has grown since the backup was restored.
            JournalError: the journal cannot be read.
        """
        with journal.exclusive():
            changes = [
                text
                for record in journal.records()
                if isinstance(record, Reserved) and record.replay
                for text in Replay.from_json(record.replay).changes
            ]
        self._writer.audit.put_back(changes)

    def _script(self, population: str, journal: Journal) -> _Script:
        """The steps in the order of the journal."""
        store, steps = self._writer.owner, list[Record | str]()
        metas: dict[str, DatasetMeta] = {}
        for record in journal.records():
            if isinstance(record, Attached):
                meta = _meta_of(record)
                if meta is not None:
                    metas[record.snapshot] = meta
                if not store.knows_snapshot(population, record.snapshot):
                    steps.append(record)
            elif isinstance(record, Reserved):
                is_known = self._writer.knows_reservation(population, record.job)
                steps.append(record.job if is_known else record)
            elif isinstance(record, LaterWord):
                steps.append(record)
        settled = {e.snapshot for name, e in self._registry.entries().items() if name == e.name}
        return _Script(_without_the_undone(steps, settled), metas)

    def _attach_first(self, script: _Script) -> None:
        """The ledger comes with the first dataset, and the lease with the ledger."""
        for step in script.steps:
            if isinstance(step, Attached):
                self._attach(step, script)
                return

    def _do(self, lease: Lease, step: Record | str, script: _Script) -> None:
        population = lease.population
        if isinstance(step, str):
            self._end(lease, step)
        elif isinstance(step, Reserved):
            self._charge(lease, step)
        elif isinstance(step, LaterWord):
            self._repeat_word(population, step, script)
        elif isinstance(step, Attached):
            if self._writer.owner.knows_snapshot(population, step.snapshot):
                return
            if "replaces" in step.details:
                self._rotate(lease, step, script)
            else:
                self._attach(step, script)
        self._writer.await_durable()

    def _repeat_word(self, population: str, step: LaterWord, script: _Script) -> None:
        """Tell the store the owner's later words."""
        owner = self._writer.owner
        match step:
            case DeclaredDisjoint():
                owner.declare_disjoint(population, step.pairs)
            case MeasureSet() if owner.has_snapshot(meta := script.meta(step.snapshot)):
                owner.set_measure(meta, measure_of(step.measure))
            case ExpectedSet() if owner.has_snapshot(meta := script.meta(step.snapshot)):
                owner.set_expected(meta, step.expected)
            case ClaimsSet() if owner.has_snapshot(meta := script.meta(step.snapshot)):
                owner.set_claims(meta, claims_from_json(step.claims))
            case LimitRaised():
                if self._writer.limit_nano(population) < step.new_limit_nano:
                    delta = script.delta
                    owner.raise_limit(population, limit_nano=step.new_limit_nano, delta=delta)

    def _attach(self, record: Attached, script: _Script) -> None:
        meta = script.meta(record.snapshot)
        if self._writer.is_attached(meta.name):
            self._detach(meta)  # an earlier snapshot under the same name
        limit_nano = self._writer.limit_nano(meta.population) or record.limit_nano
        public_row = str(record.details.get("public_row", ""))
        self._writer.attach(meta, limit_nano=limit_nano, public_row=public_row)
        self._writer.await_durable()

    def _rotate(self, lease: Lease, record: Attached, script: _Script) -> None:
        self._writer.owner.rotate(
            script.meta(str(record.details["replaces"])),
            script.meta(record.snapshot),
            nonce=lease.nonce,
            fence=lease.fence,
            limit_nano=self._writer.limit_nano(lease.population),
            public_row=str(record.details.get("public_row", "")),
        )

    def _detach(self, meta: DatasetMeta) -> None:
        self._writer.detach(meta.name, population=meta.population, snapshot=meta.snapshot)

    def _detach_again(self, script: _Script) -> None:
        """Detach the datasets that were detached; only their charges had to return."""
        kept = {entry.snapshot for entry in self._registry.entries().values()}
        for step in script.steps:
            if isinstance(step, Attached) and step.snapshot not in kept:
                meta = script.meta(step.snapshot)
                if self._writer.owner.has_snapshot(meta):
                    self._detach(meta)

    def _charge(self, lease: Lease, record: Reserved) -> None:
        version = self._writer.ledger_version(lease.population)
        if version != record.ledger_version - 1 or not record.replay:
            raise StoreBehindError(
                f"The store and the journal of population {lease.population} have parted at "
                f"charge {record.ledger_version}: the store cannot be brought up to the journal. "
                "Restore another backup."
            )
        replay = Replay.from_json(record.replay)
        self._writer.owner.readmit(replay.reservation, population=lease.population)
        charging = Charging(replay.reservation, replay.charges)
        self._writer.reserve(lease, [charging], ledger_version=version, again=True)
        self._writer.await_durable()
        self._spender.settle_open(lease)

    def _end(self, lease: Lease, job: str) -> None:
        """End a job that an earlier recovery published and did not end."""
        if self._reader.job_state(job) in ("queued", "running"):
            self._spender.settle_job(lease, job)

    def _acquire(self, population: str) -> Lease:
        for _ in range(WORKER.recovery_tries):
            lease = self._writer.acquire(population)
            if lease is not None:
                return lease
            self._pause(WORKER.recovery_pause_s)
        raise StoreBehindError(f"Population {population} is held by a worker. Stop it first.")


def _meta_of(record: Attached) -> DatasetMeta | None:
    text = record.details.get("meta")
    return DatasetMeta.from_json(text) if isinstance(text, str) else None


def _without_the_undone(steps: list[Record | str], settled: set[str]) -> list[Record | str]:
    """The steps without snapshots that never reached the store.

    Attach and rotate write the journal first, so one that died half-way has left a line. A
    snapshot reached the store if the registry says so, if a job was charged on it, or if a snapshot
    that reached the store replaced it.
    """
    needed = set(settled)
    for step in steps:
        if isinstance(step, Reserved) and step.replay:
            needed.add(Replay.from_json(step.replay).reservation.request.snapshot)
    for step in reversed(steps):
        if isinstance(step, Attached) and step.snapshot in needed:
            needed.add(str(step.details.get("replaces", "")))
    return [s for s in steps if not isinstance(s, Attached) or s.snapshot in needed]


def adopt(population: str, *, reader: Store, writer: SpendingStore, registry: Registry) -> Adopted:
    """Begin a journal in place of a lost one, on the owner's word that the store forgot nothing.

    Raises:
        JournalError: there is a journal.
    """
    if registry.has_journal(population):
        raise JournalError(f"Population {population} has a journal; nothing has to be accepted.")
    budget = writer.owner.budget(population)
    adopted = Adopted(ledger_version=budget.version, spent_nano=budget.spent_nano)
    journal = registry.journal(population, create=True)
    with journal.exclusive():
        for entry in registry.entries().values():
            if entry.population == population:
                meta = reader.meta(entry.name)
                journal.append(
                    Attached(
                        dataset=entry.name,
                        snapshot=entry.snapshot,
                        limit_nano=budget.limit_nano,
                        neighbours=meta.relation,
                        fingerprint_hex=entry.fingerprint,
                        details={
                            **plain_facts(meta),
                            "meta": meta.to_json(),
                            "public_row": writer.owner.public_row(population, entry.snapshot),
                        },
                    )
                )
                stamp = reader.stamp(meta)
                journal.append(MeasureSet(entry.snapshot, stamp.measure))
                if stamp.expected != meta.expected:
                    journal.append(ExpectedSet(entry.snapshot, stamp.expected))
                if stamp.claims != meta.claims:
                    journal.append(ClaimsSet(entry.snapshot, claims_json(stamp.claims)))
        declared = StoredFacts.read(reader.client, population).pairs
        if declared:
            pairs = {pair(*text.split(" ")) for text in declared}
            journal.append(DeclaredDisjoint(tuple(sorted(pairs))))
        journal.append(adopted)
    return adopted


_SHOWN = 5
_UNKNOWN = """\
Population {population} has no journal. The store says that {spent} of {limit} epsilon are spent,
after {version} charges. Without the journal nobody can know
  - whether more was charged, in a store that was lost since: then more than {spent} is spent;
  - which answers were released beyond the {version} charges: asked again, they would be drawn
    again, and two draws tell more than one;
  - whether the store's {version} charges are those that were made.
Put the journal back if it is anywhere to be found. If you know that this store forgot nothing (it
was never restored from a backup, or nothing was asked since the backup), say so:
  qserver-worker restore --accept-loss {population}
Your word is then written into a new journal. Otherwise leave the population as it is: history is
still answered, and nothing is drawn."""


def restore(
    settings: Settings,
    *,
    registry: Registry,
    accept_loss: Sequence[str],
    log: logging.Logger,
    say: Callable[[str], None],
) -> bool:
    """Bring the store up to every journal; False if a population lacks its journal.

    Args:
        accept_loss: populations whose journal is lost, where the owner vouches for the store.

    Raises:
        ConfigError: nothing is attached here, or an accepted population is not.
        StoreBehindError: the store and a journal have parted.
    """
    populations = sorted({entry.population for entry in registry.entries().values()})
    if not populations:
        raise ConfigError("state", "hold an attached dataset", hint="Its worker folder is empty.")
    for name in accept_loss:
        if name not in populations:
            raise ConfigError("accept-loss", "name a population of this worker", name)
    reader, writer = Store.open(settings, role="worker-reader"), SpendingStore.open(settings)
    lost = [name for name in populations if not registry.has_journal(name)]
    for name in set(lost) & set(accept_loss):
        _check_whole(registry, name)
        adopt(name, reader=reader, writer=writer, registry=registry)
        say(f"Population {name}: a new journal begins, on your word.")
    held = [name for name in populations if registry.has_journal(name)]
    journals = {name: registry.journal(name, create=False) for name in held}
    spender = Spender.without_data(
        journals, reader=reader, writer=writer, settings=settings, log=log
    )
    recovery = Recovery(reader=reader, writer=writer, spender=spender, registry=registry)
    for journal in journals.values():
        recovery.put_back_log(journal)
    for name, journal in journals.items():
        say(_recovered_text(recovery.bring_up(name, journal)))
    for name in sorted(set(populations) - set(held)):
        say(_unknown_text(name, writer, shown_of(reader.client, name)))
    for text in lost_texts(reader, populations):
        say(f"Changed in the store, and in no journal: the {text}. Restore it from a backup.")
    return len(held) == len(populations)


def _check_whole(registry: Registry, population: str) -> None:
    """Return unless the journal alone says which periods of a dataset are sealed; JournalError."""
    for entry in registry.entries().values():
        if entry.population == population and entry.grows:
            raise JournalError(
                f"Dataset {entry.name} has data that arrive over time: only the journal says which "
                "parts are sealed. Restore it, or detach the dataset first."
            )


def _recovered_text(found: Recovered) -> str:
    mended = f" Changed answers were mended: {found.n_mended} snapshots." if found.n_mended else ""
    if found.changed:
        mended = (
            f" All was given back anew, as this was not the journal's: {_listed(found.changed)}."
        )
    if found.left:
        mended += f" NOT given back, as the journal cannot: {_listed(found.left)}."
    return (
        f"Population {found.population}: {found.n_attached} datasets and {found.n_charged} charged "
        f"jobs were given back.{mended} The store agrees with the journal: {found.ledger_version} "
        f"charges, {epsilon_text(found.spent_nano)} epsilon spent."
    )


def _listed(parts: Sequence[str]) -> str:
    more = f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    # The reader has just run what the advice says.
    return "; ".join(part.removesuffix(ADVICE).rstrip(" .") for part in parts[:_SHOWN]) + more


def _unknown_text(population: str, writer: SpendingStore, shown: Shown) -> str:
    if not writer.has_ledger(population):
        return (
            f"Population {population} has neither a journal nor a ledger in the store: what was "
            "spent is lost. Restore one of them; nothing is drawn until then."
        )
    budget = writer.owner.budget(population)
    return _UNKNOWN.format(
        population=population,
        spent=epsilon_text(shown.nano(budget.spent_nano)),
        limit=epsilon_text(shown.nano(budget.limit_nano)),
        version=budget.version,
    )
