"""The trail of charges: every charge names its payer and the previous entry.

The journal keeps the last entry's digest. So if anybody changes, moves, adds or removes a charge in
the store, and cannot rewrite the journal too, the worker notices before it spends anything more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qserver.errors import StoreBehindError, StoreError
from qserver.ledger.account_ledger import (
    ChargeEntry,
    OwnLedger,
    check_allowance,
    entries_of,
    follow_metas,
)
from qserver.records.account import Allowance, payers_of
from qserver.records.charge import AnyCharge, charge_json
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import GENESIS, check_links, digest_of, linked
from qserver.storage.store import Store
from worker.journal.journal import Journal

_PROVEN = ("own", "own_group")
"""Where a charge says what is proven of its payer's spending, and of the group's."""


@dataclass(frozen=True)
class TrailEntries:
    """New charges as JSON texts, each linked to the previous one, and the last digest.

    Args:
        changes: entries of the audit log since the population's last charge. A store that forgot
            them gets them back with the charge.
    """

    texts: tuple[str, ...]
    digest: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class ChargePayment:
    """The payer of charges, and the time.

    Args:
        by: account; '' where there are no accounts.
        at: Unix time in whole seconds.
        share_nano: what all charges of the snapshot cost then, in nano-epsilon.
    """

    by: str
    snapshot: str
    charges: Sequence[AnyCharge]
    at: int
    share_nano: int


class Trail:
    """The charges of one population in the store; use it under the lease."""

    def __init__(self, population: str) -> None:
        self._population = population
        self._n_changes = 0
        self._changes_digest = self._charges_digest = GENESIS
        self._digests: set[str] = set()
        self._changes: list[str] = []
        self._entries: list[ChargeEntry] = []
        self._metas: dict[str, DatasetMeta] = {}
        self._own: dict[str, OwnLedger] = {}
        self._n_taken: dict[str, int] = {}

    def read(self, reader: Store, *, account: str = "", anchor: str = "") -> tuple[Allowance, ...]:
        """Read the new entries; returns the allowances of `payers_of(account)`.

        Args:
            anchor: the digest in the journal, '' for none.

        Raises:
            StoreBehindError: an entry was changed, moved, added or removed.
        """
        news = reader.audit.news(
            self._population,
            n_charges=len(self._entries),
            n_changes=self._n_changes,
            accounts=payers_of(account),
        )
        try:
            self._changes_digest = check_links(
                news.changes, name="the audit log", prev=self._changes_digest
            )
            self._charges_digest = check_links(
                news.charges, name="the charges", prev=self._charges_digest
            )
        except StoreError as exc:
            raise StoreBehindError(
                f"{exc} Nothing is measured until its owner restores it."
            ) from exc
        self._n_changes += len(news.changes)
        self._changes += news.changes
        follow_metas(self._metas, news.changes)
        self._entries += map(ChargeEntry.of, news.charges)
        self._digests.update(map(digest_of, [*news.charges, *news.changes]))
        if not self._has(anchor) or not self._has(self._last_changes):
            raise StoreBehindError(
                "The store's charges, or its audit log, are not those of the journal. Nothing is "
                "measured until its owner restores the store."
            )
        return news.allowances

    def _has(self, digest: str) -> bool:
        """Whether an entry of this digest was read; the beginning always was."""
        return digest == GENESIS or digest in self._digests

    @property
    def _last_changes(self) -> str:
        """The digest of the change before the last charge."""
        if not self._entries:
            return GENESIS
        return str(json.loads(self._entries[-1].text).get("changes", GENESIS))

    def check(self, payment: ChargePayment, allowances: Sequence[Allowance]) -> dict[str, int]:
        """The proven spending of the payer and of its group, for the charges to state.

        Args:
            allowances: of `payers_of(payment.by)`.

        Raises:
            AllowanceExhaustedError: an allowance or pace of either cannot pay.
        """
        shares = {
            name: self._share(payment, payer, allowance)
            for name, payer, allowance in zip(
                _PROVEN, payers_of(payment.by), allowances, strict=False
            )
        }
        return {name: share for name, share in shares.items() if share is not None}

    def _share(self, payment: ChargePayment, payer: str, allowance: Allowance) -> int | None:
        if not payer or allowance == Allowance():
            return None
        ledger = self._ledger(payer)
        after = ledger.spent_after(payment.snapshot, payment.charges)
        check_allowance(ledger, allowance, spent_after_nano=after.spent_nano, at=payment.at)
        return after.share_nano

    def entries(
        self, payment: ChargePayment, *, proven: Mapping[str, int] | None = None
    ) -> TrailEntries:
        """The entries of a payment, which follow those read; changes nothing.

        Args:
            proven: as `check` returns it.
        """
        prev, texts = self._charges_digest, list[str]()
        for charge in payment.charges:
            facts = json.loads(charge_json(charge, snapshot=payment.snapshot, at=payment.at))
            # The digest of the changes ties the owner's earlier changes to the same chain.
            facts |= {"by": payment.by, "changes": self._changes_digest, **(proven or {})}
            facts["share"] = payment.share_nano
            text = linked(facts, prev=prev)
            prev = digest_of(text)
            texts.append(text)
        return TrailEntries(tuple(texts), prev, self._since_last_charge())

    def expect(self, texts: Sequence[str]) -> None:
        """Count on these entries: the next ones follow them."""
        self._entries += map(ChargeEntry.of, texts)
        self._digests.update(map(digest_of, texts))
        self._charges_digest = digest_of(texts[-1])

    def _since_last_charge(self) -> tuple[str, ...]:
        last, found = self._last_changes, list[str]()
        for text in reversed(self._changes):
            if digest_of(text) == last:
                break
            found.append(text)
        return tuple(reversed(found))

    def _ledger(self, account: str) -> OwnLedger:
        found = self._own.setdefault(account, OwnLedger(self._metas))
        n_taken = self._n_taken.get(account, 0)
        found.extend(entries_of(account, self._entries[n_taken:]))
        self._n_taken[account] = len(self._entries)
        return found


class Trails:
    """The trails of all populations of a worker, each checked against its journal."""

    def __init__(self, reader: Store, journals: Mapping[str, Journal]) -> None:
        self._reader = reader
        self._journals = journals
        self._trails: dict[str, Trail] = {}

    def entries(self, population: str, payment: ChargePayment) -> TrailEntries:
        """The entries of a payment, after a check of the trail and of the payer's allowance.

        Raises:
            StoreBehindError: an entry was changed, moved, added or removed.
            AllowanceExhaustedError: the payer's allowance or pace cannot pay.
        """
        trail = self._trails.setdefault(population, Trail(population))
        anchor = self._journals[population].state.charges_digest
        allowances = trail.read(self._reader, account=payment.by, anchor=anchor)
        return trail.entries(payment, proven=trail.check(payment, allowances))

    def expect(self, population: str, entries: TrailEntries) -> None:
        """Count on these entries: the next ones follow them."""
        self._trails[population].expect(entries.texts)

    def forget(self, population: str) -> None:
        """Read the population's trail again, as expected entries were not made."""
        self._trails.pop(population, None)
