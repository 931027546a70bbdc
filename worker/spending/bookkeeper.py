"""Ask the books before every reservation: about the store's facts, and about the plan.

The answers come from the journal alone, by code that shares nothing with the ledger that made the
plan. A difference refuses the plan with one constant public error. The worker's log and `doctor`
name it.

*The store's copy of the facts that fix a price* is held against the journal's. The store is not
trusted: who writes to it could lower k, swap labels or take a guard away, and so make answers
cheaper than they are. A store that has less than the journal allows (a lower limit, a pair that is
not there yet) costs nobody anything: a command that died half-way leaves it so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, replace

from qserver.errors import BooksError, ClosedError, InputError, StoreCorruptError
from qserver.ledger.population import pair
from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.digests import PAID, read_meta, sealed, unsealed
from qserver.storage.encoding.queued_requests import Reservation
from qserver.storage.population_facts import StoredFacts
from qserver.storage.standings import (
    claims_field,
    expected_field,
    measure_field,
    read_expected,
    read_measure,
    retired_field,
    sealed_field,
)
from qserver.storage.store import Store
from worker.books.accountant import Accountant, Finding
from worker.books.journal_lines import BookFaultError
from worker.journal.journal import Journal
from worker.journal.state import JournalState


def differences(
    stored: StoredFacts,
    state: JournalState,
    *,
    shares: Mapping[str, int],
    paid: Mapping[str, Sequence[str]],
) -> list[str]:
    """The differences between a population's facts in store and journal, in words for its owner.

    Args:
        shares: the greatest share of each snapshot that the journal has, in nano-epsilon.
        paid: the paid questions of each snapshot that the journal has.
    """
    return [
        *_of_ledger(stored, state),
        *_of_shares(stored, state, shares),
        *_of_datasets(stored, state),
        *_of_periods(stored, state),
        *_of_jobs(stored, state),
        *_of_paid(stored, state, paid),
    ]


def meta_differences(found: DatasetMeta, state: JournalState) -> list[str]:
    """The differences between a dataset's facts and the attached ones."""
    record = state.by_snapshot.get(found.snapshot)
    if record is None:
        return [f"dataset {found.name} is not one that was attached"]
    text = record.details.get("meta")
    if text is None:
        # The first versions wrote fewer facts down.
        return []
    try:
        known = DatasetMeta.from_json(str(text))
    except InputError as exc:
        return [f"the journal's facts of dataset {found.name} do not go together: {exc}"]
    names = [f.name for f in fields(known) if getattr(found, f.name) != getattr(known, f.name)]
    return [f"`{name}` of dataset {found.name} is not what was attached" for name in names]


def _of_ledger(stored: StoredFacts, state: JournalState) -> Iterator[str]:
    ledger = stored.ledger
    if int(ledger.get("limit", 0)) > (state.limit_nano or 0):
        yield "the limit is more than the journal's"
    # A snapshot that never reached the store may be of a relation that the store refused.
    known = [r for s, r in state.by_snapshot.items() if f"spent:{s}" in ledger]
    if any(record.neighbours != ledger.get("relation") for record in known):
        yield "the neighbour relation is not the journal's"
    if int(ledger.get("spent", 0)) < state.spent_nano:
        yield "less is spent than the journal says"
    if {pair(*text.split(" ")) for text in stored.pairs} - state.declared:
        yield "snapshots are disjoint that nobody declared so"


def _of_shares(
    stored: StoredFacts, state: JournalState, shares: Mapping[str, int]
) -> Iterator[str]:
    found = {k[6:]: int(v) for k, v in stored.ledger.items() if k.startswith("spent:")}
    for snapshot in sorted(found.keys() - state.by_snapshot.keys()):
        if state.adopted_version is None:
            yield f"snapshot {snapshot} is not one that was attached"
    for snapshot, share in sorted(shares.items()):
        if found.get(snapshot, 0) < share:
            yield f"the share of snapshot {snapshot} is less than the journal's"


def _of_datasets(stored: StoredFacts, state: JournalState) -> Iterator[str]:
    for key, snapshot in sorted(stored.ledger.items()):
        name = key.removeprefix("snapshot:")
        if name == key:
            continue
        if name not in state.attached or name not in stored.metas:
            yield f"dataset {name} is not one that was attached"
            continue
        if name not in stored.listed:
            yield f"dataset {name} is not on the store's list"
        try:
            meta = read_meta(stored.metas[name], name=name)
        except StoreCorruptError:
            yield f"the facts of dataset {name} were changed"
            continue
        yield from meta_differences(meta, state)
        yield from _of_choices(stored, meta, snapshot, state)
        guard = "" if meta.guard_nano is None else str(meta.guard_nano)
        if meta.snapshot != snapshot or meta.name != name:
            yield f"dataset {name} has another snapshot than the ledger says"
        if stored.ledger.get(f"guard:{snapshot}", "") != guard:
            yield f"the disclosure guard of dataset {name} is not what was attached"


def _of_choices(
    stored: StoredFacts, meta: DatasetMeta, snapshot: str, state: JournalState
) -> Iterator[str]:
    """The owner's later choices: a command that died half-way leaves the previous one."""
    measures = {meta.measure, *state.measures.get(meta.snapshot, ())}
    if not _is_among(measures, stored.ledger.get(measure_field(snapshot)), read_measure, meta):
        yield f"what is measured by default for dataset {meta.name} is not its owner's choice"
    numbers = {meta.expected, *state.expected.get(meta.snapshot, ())}
    if not _is_among(numbers, stored.ledger.get(expected_field(snapshot)), read_expected, meta):
        yield f"the questions expected on dataset {meta.name} are not its owner's word"
    if stored.ledger.get(claims_field(snapshot)) != _newest_claims(snapshot, state):
        yield f"the claims of dataset {meta.name} are not those that its owner last set"


def _of_periods(stored: StoredFacts, state: JournalState) -> Iterator[str]:
    """An append that died half-way leaves fewer periods than the journal has."""
    for snapshot, record in sorted(state.by_snapshot.items()):
        if int(stored.ledger.get(sealed_field(snapshot), 0)) > state.n_sealed(snapshot):
            yield f"more periods of dataset {record.dataset} are sealed than the journal says"
        if int(stored.ledger.get(retired_field(snapshot), 0)) > state.n_retired(snapshot):
            yield f"more periods of dataset {record.dataset} are retired than the journal says"


def _newest_claims(snapshot: str, state: JournalState) -> str | None:
    """The expected field of the store; None if the attach's claims are in force.

    If the command that set them died half-way, nothing is spent until it is repeated: before, more
    could be told of a claim than its owner wants by now.
    """
    text = state.claims.get(snapshot)
    return None if text is None else sealed(text, name=claims_field(snapshot))


def _is_among(
    chosen: AbstractSet[object],
    text: str | None,
    read: Callable[[str, str], object],
    meta: DatasetMeta,
) -> bool:
    """Whether the owner ever chose the value of this field, if the store has one."""
    try:
        return text is None or read(text, meta.snapshot) in chosen
    except (StoreCorruptError, InputError):
        return False


def _of_jobs(stored: StoredFacts, state: JournalState) -> Iterator[str]:
    known = state.reserved.keys() | state.burnt
    # A charged job without a journal line is open, and is burnt at the next start.
    before = state.adopted_version or 0
    n_unknown = stored.n_jobs - len(known) - len(stored.open_jobs - known)
    if n_unknown != before:
        yield "the store and the journal have charged jobs that the other lacks"
    if stored.jobs is not None and len(stored.jobs - known - stored.open_jobs) != before:
        yield "jobs are charged that the journal does not know"


def _of_paid(
    stored: StoredFacts, state: JournalState, paid: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Paid questions decide when tables are bought. Compared where the journal has every job."""
    if stored.jobs != state.reserved.keys():
        return
    for snapshot, texts in sorted(stored.paid.items()):
        try:
            found = [unsealed(text, name=PAID) for text in texts]
        except StoreCorruptError:
            found = []
        if found != list(paid.get(snapshot, ())):
            yield f"the paid questions of snapshot {snapshot} are not the journal's"


class Bookkeeper:
    """Keeps the books of all populations of a worker; for one thread.

    Args:
        log: the worker's private log.
    """

    def __init__(self, reader: Store, journals: Mapping[str, Journal], log: logging.Logger) -> None:
        self._reader = reader
        self._journals = journals
        self._log = log
        self._accountants: dict[str, Accountant] = {}
        self._at_start: dict[str, list[str]] = {}
        # By population: the store's differences when the present group began.
        self._differ: dict[str, list[str]] = {}

    def begin(self, population: str) -> None:
        """Begin a group of plans: the store is compared with the journal once for all of them."""
        self._differ.pop(population, None)
        self._accountant(population).expect_nothing()

    def expect(self, population: str) -> None:
        """Count the plan judged last as charged: the next ones come after it."""
        self._accountants[population].expect()

    def judge(
        self, population: str, reservation: Reservation, meta: DatasetMeta, *, nominal_nano: int
    ) -> str:
        """The books' word on a plan: `verified` or `not verified`; under the lease.

        Args:
            meta: the facts that the plan was made with.
            nominal_nano: what all tables of a secret sample cost one record of it.

        Raises:
            ClosedError: the population came from a backup, and nothing tells what was drawn since.
            BooksError: the store's facts are not the journal's, or the plan costs somebody more
                than it says.
        """
        if self._journals[population].state.closed:
            raise ClosedError
        try:
            if population not in self._differ:
                self._differ[population] = self.faults(population)
            found = self._at_start.get(population, []) + self._differ[population]
            found += meta_differences(meta, self._journals[population].state)
            if not found:
                accountant = self._accountants[population]
                return accountant.judge(reservation.to_json(), nominal_nano=nominal_nano)
        except BookFaultError as exc:
            found = [str(exc)]
        self._say(population, found)
        raise BooksError

    def compare(self, population: str) -> None:
        """Compare everything with the journal, as at a start, and log differences.

        They refuse whatever is to be charged until the next start.
        """
        try:
            found = self.faults(population, with_jobs=True)
        except BookFaultError as exc:
            found = [str(exc)]
        self._at_start[population] = found
        if found:
            self._say(population, found)

    def faults(self, population: str, *, with_jobs: bool = False) -> list[str]:
        """The differences between store and journal, in words for the owner.

        Raises:
            BookFaultError: a line of the journal is wrong.
        """
        accountant, journal = self._accountant(population), self._journals[population]
        stored = StoredFacts.read(self._reader.client, population, with_jobs=with_jobs)
        # The journal after the store, so that charges made meanwhile are in it.
        with journal.exclusive():
            accountant.read()
            accounts = accountant.accounts
            shares = {k: account.share for k, account in accounts.items()}
            paid = {k: account.paid for k, account in accounts.items() if not account.unknown}
            stored = replace(stored, paid={k: v for k, v in stored.paid.items() if k in paid})
            return differences(stored, journal.state, shares=shares, paid=paid)

    def examine(self, population: str) -> list[Finding]:
        """The books' word on every snapshot; BookFaultError."""
        return Accountant(self._journals[population].path, proves=True).examine()

    def _say(self, population: str, found: Sequence[str]) -> None:
        self._log.error("the books of population %s: %s", population, "; ".join(found))

    def _accountant(self, population: str) -> Accountant:
        if population not in self._accountants:
            self._accountants[population] = Accountant(self._journals[population].path)
        return self._accountants[population]
