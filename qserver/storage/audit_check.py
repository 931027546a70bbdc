"""Check an audit log: its links, its figures, and the sum of the charges. Needs no store.

An export is a JSON-lines file with a line for each ledger, change and charge. Owners may read it.
It holds nothing private, so it can be checked anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from qserver.errors import ConfigError, QServerError, StoreError
from qserver.ledger.account_ledger import ChargeEntry, OwnLedger, attached_metas, entries_of
from qserver.ledger.constants import LIMITS
from qserver.ledger.population import PopulationLoss, pairs_of
from qserver.records.charge import epsilon_text
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import check_links, digest_of
from qserver.records.privacy.conversion import Shown
from qserver.storage.audit import AuditLog, LedgerFacts


@dataclass(frozen=True)
class AuditExport:
    """An audit log at one moment.

    Args:
        changes: entries of the list of changes, as JSON texts.
        ledgers: the store's figures of each population.
        charges: by population, as JSON texts.
    """

    changes: tuple[str, ...]
    ledgers: tuple[LedgerFacts, ...]
    charges: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, log: AuditLog) -> AuditExport:
        """The log of a store, detached datasets included; StoreError."""
        logged = {meta.population for meta in attached_metas(log.changes()).values()}
        populations = sorted(logged | log.populations())
        # The ledger first: charges that come meanwhile are not in it, and are left out. The changes
        # last: charges name the changes before them.
        ledgers = tuple(log.ledger(population) for population in populations)
        charges = {f.population: tuple(_charged(log, f)) for f in ledgers}
        return cls(tuple(log.changes()), ledgers, charges)

    def to_lines(self) -> Iterable[str]:
        """The log as the lines of a file, without line ends."""
        for facts in self.ledgers:
            yield json.dumps({"ledger": asdict(facts)})
        for text in self.changes:
            yield json.dumps({"change": text})
        for population, texts in self.charges.items():
            for text in texts:
                yield json.dumps({"population": population, "charge": text})

    @classmethod
    def of_file(cls, path: Path) -> AuditExport:
        """The log in a file; ConfigError if unreadable or no log."""
        try:
            with path.open(encoding="utf-8") as file:
                return cls.from_lines(file)
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError("file", f"be a readable file ({type(exc).__name__})") from exc

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> AuditExport:
        """The log that `to_lines` wrote; ConfigError for any other file."""
        changes: list[str] = []
        ledgers: list[LedgerFacts] = []
        charges: dict[str, list[str]] = {}
        try:
            for plain in map(json.loads, lines):
                if "ledger" in plain:
                    ledgers.append(LedgerFacts(**plain["ledger"]))
                elif "change" in plain:
                    changes.append(str(plain["change"]))
                else:
                    charges.setdefault(plain["population"], []).append(str(plain["charge"]))
        except (ValueError, TypeError, KeyError) as exc:
            raise ConfigError(
                "file", "be an audit log as `qserver audit export` writes it"
            ) from exc
        return cls(tuple(changes), tuple(ledgers), {k: tuple(v) for k, v in charges.items()})


@dataclass(frozen=True)
class AuditCheck:
    """One check: its subject, whether it holds, and its finding."""

    subject: str
    ok: bool
    text: str


def check_export(export: AuditExport) -> list[AuditCheck]:
    """Every check of an audit log, in order."""
    checks = [_check_chain("changes", export.changes)]
    metas: dict[str, DatasetMeta] = {}
    if checks[0].ok:
        metas = attached_metas(export.changes)
    for facts in export.ledgers:
        texts = export.charges.get(facts.population, ())
        name = f"charges of {facts.population}"
        chain = _check_chain(name, texts)
        checks += [chain, _check_sum(facts, texts, metas)]
        if checks[0].ok and chain.ok:
            checks += [_check_limit(facts, export.changes), _check_spent(facts, export.changes)]
            checks += [_check_ties(name, texts, export)]
    return checks


def _charged(log: AuditLog, facts: LedgerFacts) -> list[str]:
    """The charges of the first `version` jobs: each reservation counts the version up by one."""
    jobs: set[str] = set()
    found = []
    for text in log.unchecked_charges(facts.population):
        jobs.add(ChargeEntry.of(text).job)
        if len(jobs) > facts.version:
            break
        found.append(text)
    return found


def _check_chain(name: str, texts: Sequence[str]) -> AuditCheck:
    try:
        digest = check_links(texts, name=f"the {name}")
    except StoreError as exc:
        return AuditCheck(name, ok=False, text=str(exc))
    return AuditCheck(
        name, ok=True, text=f"{len(texts)} entries, the last of digest {digest or '-'}"
    )


def _check_sum(
    facts: LedgerFacts, texts: Sequence[str], metas: Mapping[str, DatasetMeta]
) -> AuditCheck:
    subject = f"ledger of {facts.population}"
    try:
        text = _sum_text(facts, [ChargeEntry.of(t) for t in texts], metas)
    except (QServerError, ValueError, KeyError, TypeError) as exc:
        reason = str(exc) if isinstance(exc, QServerError) else "a charge is malformed"
        return AuditCheck(subject, ok=False, text=reason)
    return AuditCheck(subject, ok=True, text=text)


def _sum_text(
    facts: LedgerFacts, entries: Sequence[ChargeEntry], metas: Mapping[str, DatasetMeta]
) -> str:
    """The sum of the charges, in words; StoreError if it disagrees with the ledger."""
    n_jobs = len({entry.job for entry in entries})
    if not n_jobs == facts.version == facts.n_reservations:
        raise StoreError(
            f"{n_jobs} jobs have charges, {facts.version} changed the ledger, and "
            f"{facts.n_reservations} have a plan."
        )
    shares = facts.spent_by_snapshot
    if not set(shares) <= set(metas):
        raise StoreError("The ledger has a snapshot that was never attached.")
    if facts.spent_nano > facts.limit_nano:
        raise StoreError("More was spent than the limit.")
    ledger = OwnLedger(metas)
    ledger.extend(entries_of(None, entries))
    recorded = {k: v for k, v in facts.spent_by_snapshot.items() if v}
    if set(ledger.by_snapshot) != set(recorded):
        raise StoreError("Charges and shares of what was spent are of different snapshots.")
    found = ledger.spent_nano
    for snapshot, own in ledger.by_snapshot.items():
        # Raises if the record is certainly less than the cost of its charges.
        own.cap(recorded[snapshot])
    how = "is just" if found == facts.spent_nano else "covers"
    spent = epsilon_text(_shown(facts, metas).nano(facts.spent_nano))
    return f"{spent} epsilon {how} what {len(entries)} charges of {n_jobs} jobs cost"


def _shown(facts: LedgerFacts, metas: Mapping[str, DatasetMeta]) -> Shown:
    """How the population's losses are shown."""
    return next((m.shown for m in metas.values() if m.population == facts.population), Shown())


def _check_spent(facts: LedgerFacts, changes: Sequence[str]) -> AuditCheck:
    """`spent` is the sum of the shares of snapshots without a declared pair.

    It never falls. So where pairs were declared after budget was spent it may be more than the
    shares say by all pairs, but not more than they say without the later ones.
    """
    at_first = (text for text in changes if json.loads(text)["kind"] == "dataset attached")
    shares = [share for share in facts.spent_by_snapshot.values() if share]
    least, most = max(shares, default=0), sum(shares)
    # Beyond so many the figures are bounds, which differ from one moment to the next.
    if len(shares) <= LIMITS.exact_people:
        least = _loss_nano(facts, attached_metas(changes))
        most = _loss_nano(facts, attached_metas(at_first))
    ok, shown = least <= facts.spent_nano <= most, _shown(facts, attached_metas(changes))
    text = (
        "the shares of snapshots that may hold the same people add up to what was spent"
        if ok
        else f"the shares of snapshots that may hold the same people add up to "
        f"{epsilon_text(shown.nano(least))} epsilon, not to what was spent; if people were "
        "declared disjoint to an earlier version, repeat it with `qserver-worker declare-disjoint`"
    )
    return AuditCheck(f"people of {facts.population}", ok=ok, text=text)


def _loss_nano(facts: LedgerFacts, metas: Mapping[str, DatasetMeta]) -> int:
    shares = facts.spent_by_snapshot
    apart = {k: metas[k].disjoint_from for k in shares if k in metas}
    return PopulationLoss(shares, pairs_of(apart)).spent_nano


def _check_ties(name: str, texts: Sequence[str], export: AuditExport) -> AuditCheck:
    """Every charge names a state of the list of changes, no older than the previous charge's."""
    places = {digest_of(None): 0}
    places |= {digest_of(text): i for i, text in enumerate(export.changes, start=1)}
    found = [places.get(json.loads(text).get("changes"), -1) for text in texts]
    ok = found == sorted(found) and -1 not in found
    how = "follow the changes" if ok else "were made on changes that are not in the log"
    return AuditCheck(f"changes in {name}", ok=ok, text=f"the charges {how}")


def _check_limit(facts: LedgerFacts, changes: Sequence[str]) -> AuditCheck:
    """The limit is the last one in the log."""
    logged = None
    for plain in map(json.loads, changes):
        population = plain.get("population") or plain.get("meta", {}).get("population")
        if "limit" in plain and "account" not in plain and population == facts.population:
            logged = plain["limit"]
    ok, shown = logged == facts.limit_nano, _shown(facts, attached_metas(changes))
    text = epsilon_text(shown.nano(facts.limit_nano)) + (
        " epsilon, as logged" if ok else " was never logged"
    )
    return AuditCheck(f"limit of {facts.population}", ok=ok, text=text)
