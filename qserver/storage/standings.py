"""Standings of snapshots in the store: a ledger's fields, and the declared pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from qserver.errors import NotFoundError, StoreCorruptError
from qserver.ledger.population import PopulationLoss, pair
from qserver.query.requirement import Measure, measure_of
from qserver.records.charge import Standing
from qserver.records.claim import Claim, claims_from_json, claims_json
from qserver.records.dataset import DatasetMeta, expected_of
from qserver.records.privacy.conversion import Shown
from qserver.storage.encoding.digests import (
    checked,
    checked_fields,
    reading,
    sealed,
    unsealed,
    with_seals,
)
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient

N_REPLIES = 2
"""Replies that `Standings.ask` adds to a pipeline."""


@dataclass(frozen=True)
class Budget:
    """The population's budget at one moment, in nano-epsilon, with the ledger's version."""

    limit_nano: int
    spent_nano: int
    version: int

    @property
    def remaining_nano(self) -> int:
        """The rest of the limit."""
        return max(0, self.limit_nano - self.spent_nano)


@dataclass(frozen=True)
class Stamp:
    """The facts that change whenever an answer may change.

    Args:
        n_shown: events of the history that may be shown.
        standing: of the snapshot in its population's budget.
        head: digest of the last event of the history; None in a store of an earlier version.
        measure: what is measured for a question whose asker did not choose.
        claims: what the owner does not want to be known too well.
        charges_head: digest of the population's last charge; likewise.
        n_sealed: periods that have their data, where data arrive over time; else None.
        n_retired: periods whose records are erased.
        expected: about how many questions are expected until the limit; 0 where nobody said.
        loss: shares and pairs of the whole population, which `standing` follows from.
        shown: how losses are shown; those of `budget` and `standing` are as they are charged.
    """

    budget: Budget
    snapshot: str
    n_shown: int
    standing: Standing
    head: str | None = None
    measure: Measure = "auto"
    claims: tuple[Claim, ...] = ()
    charges_head: str | None = None
    n_sealed: int | None = None
    n_retired: int = 0
    expected: int = 0
    loss: PopulationLoss = field(default_factory=lambda: PopulationLoss({}), compare=False)
    shown: Shown = field(default_factory=Shown)

    def charged(self, snapshot: str, after: Standing) -> Stamp:
        """The stamp after a charge that left `snapshot` at this standing."""
        budget = self.budget
        loss = self.loss.with_share(snapshot, after.share_nano)
        own = loss.shares[self.snapshot]
        standing = _standing(budget.limit_nano, after.spent_nano, loss, self.snapshot, own)
        budget = Budget(budget.limit_nano, standing.spent_nano, budget.version + 1)
        return replace(self, budget=budget, standing=standing, loss=loss)

    @property
    def spent_snapshot_nano(self) -> int:
        """The snapshot's own spending."""
        return self.standing.share_nano

    @property
    def remaining_nano(self) -> int:
        """The snapshot's remaining budget under the limit, as shown."""
        if not self.standing.remaining_nano:
            return 0
        return self.shown.left_nano(self.standing.limit_nano, self.standing.lost_nano)

    @property
    def shown_budget(self) -> Budget:
        """The budget, as shown."""
        limit, spent = map(self.shown.nano, (self.budget.limit_nano, self.budget.spent_nano))
        return Budget(limit, spent, self.budget.version)

    def price_nano(self, after: Standing) -> int:
        """The price that leads to this standing, as shown."""
        return self.shown.rise_nano(self.standing.lost_nano, after.lost_nano)


@dataclass(frozen=True, eq=False)
class _LossAt:
    """Shares and pairs of a population, with the ledger's state at their reading."""

    state: tuple[int, int]
    loss: PopulationLoss

    @classmethod
    def read(cls, client: StoreClient, population: str) -> _LossAt:
        keys = Keys(population)
        pipe = client.pipeline(transaction=True)
        pipe.hgetall(keys.ledger)
        pipe.hgetall(keys.disjoint)
        fields, members = pipe.execute()
        with reading("ledger"):
            fields = checked_fields(fields)
            shares = {k[6:]: int(v) for k, v in fields.items() if k.startswith("spent:")}
            pairs = frozenset(pair(*text.split(" ")) for text in members)
            state = int(fields.get("version", 0)), len(members)
        return cls(state, PopulationLoss(shares, pairs))

    @cached_property
    def spent_nano(self) -> int:
        """The most that any person may have lost."""
        return self.loss.spent_nano


def measure_field(snapshot: str) -> str:
    """The field of a ledger with the owner's later default for `measure`."""
    return f"measure:{snapshot}"


def measure_text(measure: Measure, snapshot: str) -> str:
    """The choice in the field's form."""
    return sealed(measure, name=measure_field(snapshot))


def read_measure(text: str, snapshot: str) -> Measure:
    """The choice that `measure_text` wrote; StoreCorruptError or InputError."""
    return measure_of(unsealed(text, name=measure_field(snapshot)))


def expected_field(snapshot: str) -> str:
    """The field of a ledger with the owner's later number of expected questions."""
    return f"expected:{snapshot}"


def expected_text(expected: int, snapshot: str) -> str:
    """The number in the field's form."""
    return sealed(str(expected), name=expected_field(snapshot))


def read_expected(text: str, snapshot: str) -> int:
    """The number that `expected_text` wrote; StoreCorruptError or InputError."""
    found = unsealed(text, name=expected_field(snapshot))
    return expected_of(int(found) if found.isdecimal() else found)


def claims_field(snapshot: str) -> str:
    """The field of a ledger with the claims that the owner set later."""
    return f"claims:{snapshot}"


def claims_text(claims: Sequence[Claim], snapshot: str) -> str:
    """The claims in the field's form."""
    return sealed(claims_json(claims), name=claims_field(snapshot))


@lru_cache(maxsize=64)
def read_claims(text: str, snapshot: str) -> tuple[Claim, ...]:
    """The claims that `claims_text` wrote; StoreCorruptError or InputError."""
    return claims_from_json(unsealed(text, name=claims_field(snapshot)))


class Standings:
    """Reads standings. Thread-safe; shares and pairs are read once per state of a ledger."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._known: dict[str, _LossAt] = {}

    def ask(self, pipe: Any, meta: DatasetMeta) -> None:
        """Add the commands of `stamp` to a pipeline: `N_REPLIES` replies."""
        keys = Keys(meta.population)
        pipe.hmget(keys.ledger, with_seals(_names(meta)))
        pipe.hlen(keys.disjoint)

    @reading("ledger")
    def stamp(self, meta: DatasetMeta, replies: Any) -> Stamp:
        """The stamp from the replies.

        Raises:
            NotFoundError: the dataset was detached or has another snapshot now.
            StoreCorruptError: the store has no ledger for it, or one that contradicts itself.
        """
        fields, n_pairs = replies
        found = checked(_names(meta), fields)
        limit, recorded, version, charges, snapshot, shown, share, head, *later = found
        measure, claims, n_sealed, n_retired, expected = later
        if limit is not None and snapshot != meta.snapshot:
            raise NotFoundError("dataset", meta.name)
        if limit is None or recorded is None or version is None or share is None:
            raise StoreCorruptError(
                "The store has no ledger for the dataset. Run `qserver-worker doctor`."
            )
        n_shown = 0 if shown is None else int(shown)
        if min(n_shown, *map(int, (limit, recorded, version, share))) < 0:
            raise StoreCorruptError("The store's ledger has a figure below 0.")
        loss = self._loss(meta, (int(version), int(n_pairs)))
        # If the ledger changed meanwhile the loss is that of a later state. The version stays that
        # of the replies, so nothing can be reserved on it.
        standing = _standing(int(limit), int(recorded), loss, meta.snapshot, int(share))
        budget = Budget(int(limit), standing.spent_nano, int(version))
        default = meta.measure if measure is None else read_measure(measure, meta.snapshot)
        claimed = meta.claims if claims is None else read_claims(claims, meta.snapshot)
        return Stamp(
            budget,
            meta.snapshot,
            n_shown,
            standing,
            head,
            default,
            claimed,
            charges,
            None if meta.growth is None else _n_marked(n_sealed, meta),
            0 if meta.growth is None else _n_marked(n_retired, meta),
            meta.expected if expected is None else read_expected(expected, meta.snapshot),
            loss,
            meta.shown,
        )

    def _loss(self, meta: DatasetMeta, state: tuple[int, int]) -> PopulationLoss:
        known = self._known.get(meta.population)
        if known is None or known.state != state or meta.snapshot not in known.loss.shares:
            known = self._known[meta.population] = _LossAt.read(self._client, meta.population)
        return known.loss


def _standing(
    limit_nano: int, recorded_nano: int, loss: PopulationLoss, snapshot: str, share_nano: int
) -> Standing:
    """The standing of a snapshot.

    Args:
        recorded_nano: what the ledger says that the population has spent.
    """
    lost = max(loss.lost_nano(snapshot), share_nano)
    # The recorded figure never falls, and earlier versions recorded too little.
    spent = max(recorded_nano, loss.spent_nano, lost)
    return Standing(limit_nano, spent, lost, share_nano)


def sealed_field(snapshot: str) -> str:
    """The field of a ledger with the number of sealed periods of a snapshot."""
    return f"sealed:{snapshot}"


def retired_field(snapshot: str) -> str:
    """The field of a ledger with the number of retired periods."""
    return f"retired:{snapshot}"


def _n_marked(text: str | None, meta: DatasetMeta) -> int:
    """The number of sealed or retired periods; 0 if none."""
    found = int(text or 0)
    if not 0 <= found <= meta.n_periods:
        raise StoreCorruptError("The store has more periods sealed or retired than are declared.")
    return found


def _names(meta: DatasetMeta) -> tuple[str, ...]:
    """The fields of a ledger behind a stamp, in the order of `Standings.stamp`."""
    snapshot = meta.snapshot
    ledger = ("limit", "spent", "version", "charges", f"snapshot:{meta.name}")
    own = (f"shown:{snapshot}", f"spent:{snapshot}", f"head:{snapshot}")
    later = (measure_field(snapshot), claims_field(snapshot), sealed_field(snapshot))
    return (*ledger, *own, *later, retired_field(snapshot), expected_field(snapshot))
