"""The audit log in the store: the changes with their makers, and each population's charges."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from qserver.errors import StoreBehindError, StoreCorruptError, StoreError
from qserver.records.account import Allowance
from qserver.records.digest_links import digest_of, is_linked, linked
from qserver.storage.constants import STORE
from qserver.storage.encoding.digests import (
    ADVICE,
    checked,
    checked_fields,
    reading,
    sealed,
    unsealed,
    with_seals,
)
from qserver.storage.encoding.jobs import reply_code
from qserver.storage.keys import AUDIT, DATASETS, Keys
from qserver.storage.server.connection import Scripts, StoreClient

_MOVED = 9
_HEAD = ("charges",)


@dataclass(frozen=True)
class LedgerFacts:
    """A population's ledger in the store, in nano-epsilon.

    Args:
        spent_by_snapshot: the share of each snapshot in `spent_nano`.
        n_reservations: jobs that were charged.
    """

    population: str
    limit_nano: int
    spent_nano: int
    version: int
    spent_by_snapshot: Mapping[str, int]
    n_reservations: int

    def __post_init__(self) -> None:
        figures = (self.limit_nano, self.spent_nano, self.version, *self.spent_by_snapshot.values())
        if min(figures) < 0:
            raise StoreCorruptError(f"The ledger of population {self.population} is negative.")


@dataclass(frozen=True)
class AuditNews:
    """The entries that a reader lacks, read at one moment.

    Args:
        allowances: of the accounts in question, in turn.
    """

    charges: tuple[str, ...]
    changes: tuple[str, ...]
    allowances: tuple[Allowance, ...]


class AuditLog:
    """Reads both lists, and appends to the list of changes. Thread-safe as its client is."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._scripts = Scripts(client)
        self._logged: frozenset[str] = frozenset()

    def put_back(self, entries: Sequence[str]) -> int:
        """Put back entries that a store lost or changed; returns their number.

        From then on a change whose entry is in the log adds no other entry.

        Args:
            entries: of one log, each after those it follows; the store may have some of them.

        Raises:
            StoreBehindError: the store's log has grown since the backup was restored, or it has an
                entry that was changed and is not among `entries`.
        """
        raw = self._slice(AUDIT, -1, None)
        right = _followed([*entries, *_readable(raw)])
        texts = [sealed(text, name=AUDIT) for text in right]
        # Entries of earlier versions have no seal.
        same = [a in (b, c) for a, b, c in zip(raw, texts, right, strict=False)]
        n_same = same.index(False) if False in same else len(same)
        if len(right) < len(raw):
            raise StoreBehindError(
                "The store's audit log has an entry that was changed and is in no journal, or it "
                "went on by itself since the backup. Restore the backup again, and change nothing "
                "before it is brought up to the journal."
            )
        reply = self._scripts.run("relog", keys=[AUDIT], args=[len(raw), n_same, *texts[n_same:]])
        if reply_code(reply) != 1:
            raise StoreBehindError("The audit log is being written. Stop that, and restore again.")
        self._logged = frozenset(map(_change_of, map(json.loads, right)))
        return len(right) - n_same

    def changes(self, *, after: int = -1, limit: int | None = None) -> list[str]:
        """Entries of the list of changes with a place above `after`, oldest first, as JSON."""
        return _changes(self._slice(AUDIT, after, limit))

    def charges(self, population: str, *, after: int = -1, limit: int | None = None) -> list[str]:
        """Charges of a population with a place above `after`, oldest first, as JSON.

        Raises:
            StoreCorruptError: the last one is not the one that the ledger names.
        """
        keys = Keys(population)
        pipe = self._client.pipeline(transaction=True)
        pipe.lrange(keys.charges, after + 1, -1 if limit is None else after + limit)
        pipe.llen(keys.charges)
        pipe.hmget(keys.ledger, with_seals(_HEAD))
        texts, n_charges, fields = pipe.execute()
        if not n_charges or after + 1 + len(texts) == n_charges > after + 1:
            _check_end(texts, fields)
        return list(texts)

    def n_changes(self) -> int:
        """Entries of the list of changes."""
        return self._length(AUDIT)

    def n_charges(self, population: str) -> int:
        """Entries of the list of a population's charges."""
        return self._length(Keys(population).charges)

    def unchecked_charges(self, population: str) -> list[str]:
        """All charges of a population, unchecked, for a verifier."""
        return self._slice(Keys(population).charges, -1, None)

    def news(
        self, population: str, *, n_charges: int, n_changes: int, accounts: Sequence[str]
    ) -> AuditNews:
        """Charges and changes after the first ones; one round trip, for pooled clients."""
        keys = Keys(population)
        pipe = self._client.pipeline(transaction=True)
        pipe.lrange(keys.charges, n_charges, -1)
        pipe.lrange(AUDIT, n_changes, -1)
        pipe.hmget(keys.allowances, list(accounts))
        pipe.hmget(keys.ledger, with_seals(_HEAD))
        charges, changes, allowances, fields = pipe.execute()
        if charges or not n_charges:
            _check_end(charges, fields)
        pairs = zip(accounts, allowances, strict=True)
        found = tuple(read_allowance(text, account=account) for account, text in pairs)
        return AuditNews(tuple(charges), tuple(_changes(changes)), found)

    def populations(self) -> frozenset[str]:
        """The populations of the attached datasets."""
        found: Any = self._client.hvals(DATASETS)
        return frozenset(found)

    def ledger(self, population: str) -> LedgerFacts:
        """A population's ledger; StoreError if there is none."""
        keys = Keys(population)
        found: dict[Any, Any] = self._client.hgetall(keys.ledger)
        if not found:
            raise StoreError(f"The store has no ledger of population {population}.")
        fields = checked_fields(found)
        n_reservations: Any = self._client.hlen(keys.reservations)
        with reading("ledger"):
            return LedgerFacts(
                population=population,
                limit_nano=int(fields["limit"]),
                spent_nano=int(fields["spent"]),
                version=int(fields["version"]),
                spent_by_snapshot={
                    k[6:]: int(v) for k, v in fields.items() if k.startswith("spent:")
                },
                n_reservations=int(n_reservations),
            )

    def append(self, facts: Mapping[str, Any], write: Callable[[int, str], Sequence[Any]]) -> int:
        """Make a change and log it in one step; returns the code of the script's reply.

        Args:
            facts: of the entry, without its link.
            write: runs the script, given the number of entries before and the entry; the script
                replies with code 9 if the log has grown.

        Raises:
            StoreError: others kept writing.
        """
        for _ in range(STORE.log_tries):
            n_before: Any = self._client.llen(AUDIT)
            # The list only grows, so the last entry stays as it is.
            last = self.changes(after=n_before - 2)[0] if n_before else None
            is_logged = _change_of(facts) in self._logged
            entry = "" if is_logged else linked(facts, prev=digest_of(last))
            code = reply_code(write(n_before, entry and sealed(entry, name=AUDIT)))
            if code != _MOVED:
                return code
        raise StoreError("The audit log is being written by others. Try again.")

    def _length(self, key: str) -> int:
        found: Any = self._client.llen(key)
        return int(found)

    def _slice(self, key: str, after: int, limit: int | None) -> list[str]:
        last = -1 if limit is None else after + limit
        found: Any = self._client.lrange(key, after + 1, last) if limit != 0 else []
        return list(found)


def _check_end(texts: Sequence[str], fields: Sequence[str | None]) -> None:
    """Return if the last charge is the ledger's; the ledger of an earlier version names none."""
    (head,) = checked(_HEAD, fields)
    if head is not None and head != digest_of(texts[-1] if texts else None):
        raise StoreCorruptError(f"The charges do not end as they were made. {ADVICE}")


def _readable(texts: Sequence[str]) -> list[str]:
    """The unchanged entries, without their seals."""
    found = []
    for text in texts:
        with suppress(StoreCorruptError):
            found += [plain for plain in _changes([text]) if is_linked(plain)]
    return found


def _followed(texts: Sequence[str]) -> list[str]:
    """The entries up to the first broken link.

    Raises:
        StoreBehindError: two follow the same one.
    """
    after: dict[str, str] = {}
    for text in texts:
        if after.setdefault(json.loads(text)["prev"], text) != text:
            raise StoreBehindError(
                "The store's audit log went on by itself since the backup. Restore the backup "
                "again, and change nothing before it is brought up to the journal."
            )
    found = list[str]()
    while (last := digest_of(found[-1] if found else None)) in after:
        found.append(after[last])
    return found


@reading("audit log")
def _changes(texts: Sequence[str]) -> list[str]:
    """The entries of the list of changes, without their seals."""
    return [unsealed(text, name=AUDIT) for text in texts]


@reading("record of an allowance")
def read_allowance(text: str | None, *, account: str) -> Allowance:
    """The stored allowance of an account; no bounds without one."""
    if text is None:
        return Allowance()
    return Allowance.from_json(unsealed(text, name=account))


def _change_of(facts: Mapping[str, Any]) -> str:
    """The change of an entry, without its time and its link.

    A snapshot is attached once. Its facts may be written in another form by a later version.
    """
    if facts["kind"] == "dataset attached":
        return f"{facts['kind']} {facts['meta']['snapshot']}"
    rest = {k: v for k, v in facts.items() if k not in ("at", "prev", "before")}
    return json.dumps(rest, sort_keys=True)
