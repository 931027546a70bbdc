"""The cost of one analyst's charges: their own cell ledger, and its course over time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qserver.errors import AllowanceExhaustedError, PaceExceededError, StoreError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.forecast import DAY_S
from qserver.ledger.one_person import neighbours_of
from qserver.ledger.population import PopulationLoss, pairs_of
from qserver.records.account import Allowance, payers_of
from qserver.records.charge import AnyCharge, charge_from_json
from qserver.records.dataset import DatasetMeta
from qserver.records.privacy.conversion import Shown


@dataclass(frozen=True)
class ChargeEntry:
    """A charge as the audit log has it.

    Args:
        by: account that pays; '' where there are no accounts.
        at: Unix time in whole seconds.
        text: the whole entry as JSON.
        own_nano: cost of the payer's charges on the snapshot, this job included, if a proof made
            it less than the quick bound; else None.
        group_nano: the same of the charges of all in the payer's group.
    """

    snapshot: str
    job: str
    by: str
    at: int
    text: str
    own_nano: int | None = None
    group_nano: int | None = None
    share_nano: int | None = None

    @classmethod
    def of(cls, text: str) -> ChargeEntry:
        """The entry in a JSON text."""
        plain = json.loads(text)
        who = plain.get("by", "")
        own, group = plain.get("own"), plain.get("own_group")
        share = plain.get("share")
        return cls(plain["snapshot"], plain["job"], who, plain["at"], text, own, group, share)


def entries_of(account: str | None, entries: Iterable[ChargeEntry]) -> Iterator[ChargeEntry]:
    """The charges of an account, of a group for `GROUP/`, or of everybody for None.

    `own_nano` is the cost of these charges, not of the payer's alone.
    """
    for entry in entries:
        if account is None:
            yield replace(entry, own_nano=entry.share_nano)
        elif entry.by == account:
            yield entry
        elif account in payers_of(entry.by):
            yield replace(entry, own_nano=entry.group_nano)


@dataclass(frozen=True)
class Mark:
    """The analyst's spending just after a job was charged, in nano-epsilon."""

    at: int
    spent_nano: int


@dataclass(frozen=True)
class OwnSpend:
    """An analyst's spending after some charges, in nano-epsilon.

    Args:
        spent_nano: on all snapshots.
        share_nano: on the charged snapshot alone. The charge must record it, as a search may have
            found it.
    """

    spent_nano: int
    share_nano: int


class OwnLedger:
    """The charges of one analyst on one population. Costs of snapshots add up.

    Args:
        metas: the facts of every snapshot by its id; may grow.
    """

    def __init__(self, metas: Mapping[str, DatasetMeta]) -> None:
        self._metas = metas
        self.by_snapshot: dict[str, CellLedger] = {}
        self.marks: list[Mark] = []
        self.n_charges = 0

    @property
    def spent_nano(self) -> int:
        """An upper bound of the greatest loss caused by the analyst's charges."""
        return self._spent({k: ledger.spent_nano for k, ledger in self.by_snapshot.items()})

    @property
    def shown(self) -> Shown:
        """How losses are shown: as the population's, whose datasets are of one kind."""
        return next((self._meta(one).shown for one in self.by_snapshot), Shown())

    def spent_after(self, snapshot: str, charges: Sequence[AnyCharge]) -> OwnSpend:
        """The spending with these charges added. Changes nothing."""
        share = self._ledger(snapshot).settled_after(charges)
        shares = {k: own.spent_nano for k, own in self.by_snapshot.items()}
        return OwnSpend(self._spent({**shares, snapshot: share}), share)

    def extend(self, entries: Iterable[ChargeEntry]) -> None:
        """Add entries in their order."""
        for _job, group in itertools.groupby(entries, key=lambda entry: entry.job):
            members = list(group)
            for snapshot, own in itertools.groupby(members, key=lambda entry: entry.snapshot):
                ledger, charges = self._ledger(snapshot), list(map(self._charge, own))
                after = members[0].own_nano
                if after is None:
                    after = ledger.spent_after(charges)
                    if members[0].share_nano is not None:
                        # Some of the charges cost no more than all of them.
                        after = min(after, members[0].share_nano)
                ledger.extend(charges)
                # The allowance was checked against this figure. On a wide domain it is a bound, and
                # adding the charges may give a looser one.
                ledger.cap(after)
            self.n_charges += len(members)
            self.marks.append(Mark(members[-1].at, self.spent_nano))

    def spent_at(self, moment: int) -> int:
        """The spending at a Unix time, in nano-epsilon."""
        before = [mark.spent_nano for mark in self.marks if mark.at <= moment]
        # Later declared pairs lower earlier spending as well.
        return min(before[-1], self.spent_nano) if before else 0

    def _spent(self, shares: Mapping[str, int]) -> int:
        apart = {k: self._meta(k).disjoint_from for k in shares}
        return PopulationLoss(shares, pairs_of(apart)).spent_nano

    def _ledger(self, snapshot: str) -> CellLedger:
        found = self.by_snapshot.get(snapshot)
        if found is None:
            meta = self._meta(snapshot)
            found = self.by_snapshot[snapshot] = CellLedger.like(
                meta.domain.sizes, neighbours_of(meta)
            )
        return found

    def _charge(self, entry: ChargeEntry) -> AnyCharge:
        sizes = self._meta(entry.snapshot).domain.sizes
        found = charge_from_json(entry.text, snapshot=entry.snapshot, sizes=sizes)
        if found is None:
            raise StoreError("A charge of the audit log loads another snapshot than it says.")
        return found

    def _meta(self, snapshot: str) -> DatasetMeta:
        found = self._metas.get(snapshot)
        if found is None:
            raise StoreError("The audit log has a charge of a snapshot that was never attached.")
        return found


def check_allowance(
    ledger: OwnLedger, allowance: Allowance, *, spent_after_nano: int, at: int
) -> None:
    """Raise an error unless an analyst may spend up to `spent_after_nano` at a Unix time.

    An allowance is of losses as they are shown.

    Raises:
        AllowanceExhaustedError: the allowance is passed.
        PaceExceededError: the pace is passed; says from when on it would not be, if ever.
    """
    shown = ledger.shown
    spent, spent_after_nano = shown.nano(ledger.spent_nano), shown.nano(spent_after_nano)
    price = spent_after_nano - spent
    limit, pace = allowance.limit_nano, allowance.pace_nano
    # A job without a cost to the analyst is never refused, even after a limit was lowered.
    if price == 0:
        return
    if limit is not None and spent_after_nano > limit:
        raise AllowanceExhaustedError(price_nano=price, remaining_nano=max(0, limit - spent))
    if pace is None:
        return
    today = spent - shown.nano(ledger.spent_at(at - DAY_S))
    if today + price > pace:
        raise PaceExceededError(
            price_nano=price,
            remaining_nano=max(0, pace - today),
            more_at=_affordable_at(ledger, least_nano=spent_after_nano - pace),
        )


def _affordable_at(ledger: OwnLedger, *, least_nano: int) -> int | None:
    """The first time at which the spending a day earlier is at least `least_nano`, or None."""
    shown = ledger.shown
    late = (m.at + DAY_S for m in ledger.marks if shown.nano(m.spent_nano) >= least_nano)
    return next(late, None)


def attached_metas(changes: Iterable[str]) -> dict[str, DatasetMeta]:
    """The facts of every attached snapshot in the list of changes, by id."""
    metas: dict[str, DatasetMeta] = {}
    follow_metas(metas, changes)
    return metas


def follow_metas(metas: dict[str, DatasetMeta], changes: Iterable[str]) -> None:
    """Add the snapshots and declared pairs of later changes to earlier facts.

    A restored store may log a snapshot twice: the first entry counts. A pair may name a snapshot
    that was journalled and never attached, which nothing was spent on.
    """
    for entry in map(json.loads, changes):
        if entry["kind"] == "dataset attached":
            meta = DatasetMeta.from_json(json.dumps(entry["meta"]))
            metas.setdefault(meta.snapshot, meta)
        elif entry["kind"] == "people declared disjoint":
            for one, other in entry["pairs"]:
                _declare(metas, one, other)


def _declare(metas: dict[str, DatasetMeta], one: str, other: str) -> None:
    if one in metas and other in metas:
        meta = metas[one]
        metas[one] = replace(meta, disjoint_from=(*meta.disjoint_from, other))
