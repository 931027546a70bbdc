"""The accountant of one population: reads its journal, and bounds every person's loss.

It says "verified" where it has shown that nobody loses more than the plan's share names, and "not
verified" where it cannot tell: then the ledger's bound stands alone. What it has shown to be too
little it refuses.

Who may be whom: the heaviest set of snapshots that one person may be in, and units of privacy.

The line of an attach names the unit in the dataset's facts, and beside it in plain numbers how many
records of a person count, and how they may be spread. A loss is reckoned by these numbers. Where
they are fewer than the unit has, every loss comes out too low.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from worker.books.account import Account, Ahead, Spread
from worker.books.cell_functions import Grid, Row
from worker.books.chains import Answer, Chains, RowInForce
from worker.books.journal_lines import BookFaultError, JournalLines, Line, UnknownFactsError
from worker.books.losses import Known, Losses, sample_loss

_MOST_WORK = 3_000_000
"""Pairs of snapshots that a search may look at: some tenths of a second."""

_NONE = {"alpha_nano": 0}
"""In place of a second purchase."""

_HARMLESS = frozenset(
    ["opened", "history-chained", "measure-set", "expected-set", "claims-set", "sealed", "retired"]
)
"""Lines that change nobody's loss."""


def heaviest(shares: Mapping[str, int], pairs: Collection[tuple[str, str]]) -> int:
    """The greatest sum of shares of snapshots without a declared pair.

    Raises:
        UnknownFactsError: the search would take too long.
    """
    names = sorted((name for name, share in shares.items() if share), key=lambda n: -shares[n])
    apart: dict[str, set[str]] = {name: set() for name in names}
    for one, other in pairs:
        if one in apart and other in apart:
            apart[one].add(other)
            apart[other].add(one)
    best = work = 0
    stack = [(names, 0)]
    while stack:
        left, weight = stack.pop()
        members = set(left)
        tied = [name for name in left if apart[name] & members]
        # A snapshot without a pair is in every heaviest set.
        weight += sum(shares[name] for name in left) - sum(shares[name] for name in tied)
        best = max(best, weight)
        work += len(left) + len(tied) ** 2
        if work > _MOST_WORK:
            raise UnknownFactsError("too many snapshots and pairs for an exact sum")
        if weight + _at_most(tied, shares, apart) <= best:
            continue
        # The snapshot of the most pairs: without it, or with it and without those apart from it.
        first = max(tied, key=lambda name: len(apart[name] & members))
        rest = [name for name in tied if name != first]
        stack.append((rest, weight))
        stack.append(([n for n in rest if n not in apart[first]], weight + shares[first]))
    return best


def _at_most(left: list[str], shares: Mapping[str, int], apart: Mapping[str, set[str]]) -> int:
    """At least the weight of any set: of mutually apart snapshots, one at most counts."""
    groups: list[list[str]] = []
    for name in left:  # the heaviest first
        home = next((group for group in groups if apart[name].issuperset(group)), None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return sum(shares[group[0]] for group in groups)


def misfit(details: Mapping[str, Any], relation: str) -> str:
    """The disagreement of an attach's numbers with its unit; '' if they agree."""
    facts = json.loads(str(details.get("meta") or "{}"))
    if facts and _privacy(facts) != _privacy(details):
        return "its privacy is not that of its facts"
    kinds = [one.get("kind") for one in facts.get("domain", {}).get("attributes", ())]
    if "period" not in kinds or not {"sizes", "records_per_person"} <= details.keys():
        return ""
    unit, axis = facts.get("unit", {}), kinds.index("period")
    n_periods = [int(size) for size in str(details["sizes"]).split()][axis]
    k = int(details["records_per_person"])
    m = int(unit.get("per_period") or k)
    if unit.get("protects") == "person-unbounded" and k != m * n_periods:
        return f"unit person-unbounded has {m * n_periods} records of a person, not {k}"
    keeps = relation == "replace-one" and unit.get("replaced") == "same-period"
    spread = Spread(axis, min(m, k), keeps) if m < k or keeps else None
    return "" if Spread.of(details) == spread else "a person's records are spread otherwise"


def _privacy(facts: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of privacy and its delta; pure privacy, without one, if the line says nothing."""
    return str(facts.get("privacy") or "pure"), str(facts.get("delta") or "")


VERIFIED = "verified"
NOT_VERIFIED = "not verified"
RATE = Fraction(1, 10)
"""The most probable that a record is in a secret sample."""


@dataclass(frozen=True)
class Finding:
    """The books' word on one snapshot: its loss, or why it is unknown.

    Args:
        loss: exact; on a wide domain it may be a bound that is no more than the share.
        unit: of both, `epsilon` or `rho`.
    """

    dataset: str
    snapshot: str
    share: int
    loss: int | None
    text: str
    unit: str = "epsilon"

    @property
    def ok(self) -> bool:
        """Whether the books refuse nothing."""
        return self.text in ("", NOT_VERIFIED) or self.text.startswith(NOT_VERIFIED)


class Accountant:
    """The books of one population; they read new lines of its journal at every call.

    Args:
        proves: show of every charge in the journal what is shown before a new one, for `examine`:
            on a wide domain one step after the other can be shown where the whole cannot.
    """

    def __init__(self, path: Path, *, proves: bool = False) -> None:
        self._proves = proves
        self._lines = JournalLines(path)
        self.accounts: dict[str, Account] = {}
        self.limit = 0
        self.pairs: set[tuple[str, str]] = set()
        self._open: dict[str, dict[str, Any]] = {}
        self._levels: dict[str, int] = {}
        self._judged: tuple[Account, Ahead] | None = None
        self._closed = False

    def judge(self, plan: str, *, nominal_nano: int = 0) -> str:
        """Whether the plan, in the JSON of the future journal line, costs no more than it says.

        Args:
            nominal_nano: what all tables of a secret sample cost one record of it.

        Returns:
            `VERIFIED` or `NOT_VERIFIED`.

        Raises:
            BookFaultError: somebody loses more, or a line of the journal is wrong.
        """
        self.read()
        if self._closed:
            raise BookFaultError("a backup was restored, and nobody knows what was drawn since")
        for one in self.accounts.values():
            if one.fault:
                raise BookFaultError(f"{one.dataset}: {one.fault}")
        plain = json.loads(plan)
        self._levels.pop(str(plain["job"]), None)  # of an earlier plan without a charge
        account, snapshot = self._account(plain)
        share = int(plain["after"]["share_nano"])
        if share < account.share_ahead:
            raise BookFaultError("a snapshot's share falls")
        verdict = self._people(plain, snapshot, share)
        self._judged = account, Ahead(share)
        if account.unknown:
            return NOT_VERIFIED
        try:
            chains = self._drawn(account, plain)
            self._judged = account, Ahead(share, chains, account.known_ahead)
            known = self._prove(account, chains, plain, nominal_nano)
        except UnknownFactsError:
            return NOT_VERIFIED
        self._judged = account, Ahead(share, chains, known)
        return verdict

    def expect(self) -> None:
        """Count the plan judged last as charged: the next ones come after it."""
        if self._judged is not None:
            account, ahead = self._judged
            account.ahead, self._judged = ahead, None

    def expect_nothing(self) -> None:
        """Forget expected plans: each is in the journal now, or never will be."""
        for account in self.accounts.values():
            account.ahead = None

    def examine(self) -> list[Finding]:
        """The exact loss of every snapshot, by the released answers.

        Raises:
            BookFaultError: a line of the journal is wrong.
        """
        self.read()
        return [self._finding(snapshot, one) for snapshot, one in self.accounts.items()]

    def spent(self) -> int:
        """The most that a person may have lost in all, by the shares in the journal.

        Raises:
            UnknownFactsError: there are too many snapshots.
        """
        return heaviest({k: one.share for k, one in self.accounts.items()}, self.pairs)

    def read(self) -> None:
        """Read the journal's new lines; BookFaultError if one is wrong."""
        for line in self._lines.news():
            try:
                self._take(line)
            except (KeyError, TypeError, ValueError) as exc:
                raise BookFaultError(f"a line of the journal, {line.kind}, is malformed") from exc

    def _finding(self, snapshot: str, one: Account) -> Finding:
        loss, text = None, one.fault or (one.unknown and f"{NOT_VERIFIED}: {one.unknown}")
        if not text:
            try:
                found = one.greatest()
                loss = -(-found.numerator // found.denominator)
            except UnknownFactsError as exc:
                known = one.known
                if known is not None and known.losses == one.losses(one.chains):
                    loss = known.level
                else:
                    text = f"{NOT_VERIFIED}: {exc}"
            if loss is not None and loss > one.share:
                text = f"a person has lost {_text(loss, one)}, not {_text(one.share, one)}"
        return Finding(one.dataset, snapshot, one.share, loss, text, one.unit)

    def _account(self, plain: Mapping[str, Any]) -> tuple[Account, str]:
        request = json.loads(plain["request"])
        snapshot, sizes = str(request["snapshot"]), tuple(map(int, request["sizes"]))
        account = self.accounts.get(snapshot)
        if account is None:
            raise BookFaultError("a plan is for a snapshot that was never attached")
        if account.grid is None:
            account.grid = Grid(sizes)
        if account.grid.sizes != sizes:
            raise BookFaultError("a plan is for another domain than the snapshot's")
        return account, snapshot

    def _prove(
        self, account: Account, chains: Chains, plain: Mapping[str, Any], nominal_nano: int
    ) -> Known:
        """Show that nobody in the snapshot loses more than the plan's share, or raise."""
        share, known = int(plain["after"]["share_nano"]), account.known_ahead
        losses = self._losses(account, chains, plain, nominal_nano)
        if not account.rises_within(losses, share, known):
            excess = account.above(losses, share, known)
            if excess is not None:
                lost = f"{_text(excess, account)}, not {_text(share, account)}"
                raise BookFaultError(f"a person loses {lost}")
        self._levels[str(plain["job"])] = share
        return Known(share, losses)

    def _people(self, plain: Mapping[str, Any], snapshot: str, share: int) -> str:
        """Whether everybody stays within the limit, and within the plan's stated spending."""
        shares = {k: one.share_ahead for k, one in self.accounts.items()} | {snapshot: share}
        try:
            spent = heaviest(shares, self.pairs)
        except UnknownFactsError:
            return NOT_VERIFIED
        if spent > min(self.limit, int(plain["after"]["spent_nano"])):
            lost = _text(spent, self.accounts[snapshot])
            raise BookFaultError(f"a person of several snapshots loses {lost}")
        return VERIFIED

    def _drawn(self, account: Account, plain: Mapping[str, Any]) -> Chains:
        """The chains after the plan and everything open or expected is drawn.

        A sample decides itself what its plan draws: of that plan nothing is drawn here.
        """
        if account.ahead is None:
            chains = account.chains.copy()
            for one in self._open.values():
                if self.accounts[json.loads(one["request"])["snapshot"]] is account:
                    _apply(chains, one)
        elif account.ahead.chains is None:
            raise UnknownFactsError("a plan is expected that cannot be told")
        else:
            chains = account.ahead.chains.copy()
        if plain.get("sampled") is None:
            chains.apply(plain)
        return chains

    @staticmethod
    def _losses(
        account: Account, chains: Chains, plain: Mapping[str, Any], nominal_nano: int
    ) -> Losses:
        """The cost of the chains, with the plan's sample or second purchase if any.

        Whatever tables a second purchase is of, a record is in one cell of each: it loses no more
        than the sum of their rises.
        """
        sampled, second = plain.get("sampled"), plain.get("second")
        if chains.are_anew and sampled:
            raise BookFaultError("a secret sample is served under pure privacy alone")
        if sampled is None:
            return account.losses(chains, more=int((second or _NONE)["alpha_nano"]))
        if nominal_nano <= 0:
            raise BookFaultError("a sample has no nominal loss")
        samples = sample_loss(nominal_nano, RATE)
        return account.losses(chains, more=int(sampled["alpha_nano"]), samples=samples)

    def _take(self, line: Line) -> None:
        fields = line.fields
        match line.kind:
            case "attached":
                self._attach(fields)
            case "limit-raised":
                self.limit = int(fields["new_limit_nano"])
            case "declared-disjoint":
                self.pairs.update((str(a), str(b)) for a, b in fields["pairs"])
            case "adopted":
                self._forget("what was spent before its journal began is the store's word")
            case "restored":
                self._closed = self._closed or fields["word"] != "nothing since"
            case "reserved":
                self._reserve(fields)
            case "decided" | "released" | "burnt":
                self._draw(line.kind, str(fields["job"]), fields)
            case _ if line.kind not in _HARMLESS:
                raise BookFaultError(f"the journal has a line of an unknown kind, {line.kind}")

    def _draw(self, kind: str, job: str, fields: Mapping[str, Any]) -> None:
        if kind == "released":
            self._release(job, fields["rows"])
        elif kind == "decided" and job in self._open:
            self._open[job]["decided"] = [str(text) for text in fields["tables"]]
        elif kind == "burnt":
            # Nobody saw its answer, so it cost nothing; the share keeps its charge.
            self._open.pop(job, None)

    def _attach(self, fields: Mapping[str, Any]) -> None:
        details, snapshot = fields["details"], str(fields["snapshot"])
        self.limit = int(fields["limit_nano"])
        null_cell = details.get("null_cell")
        k = int(details.get("records_per_person", 0))
        account = Account(
            str(fields["dataset"]),
            k=k,
            relation=str(fields["neighbours"]),
            null_cell=None if null_cell is None else bool(null_cell),
            spread=Spread.of(details),
        )
        if "sizes" in details:
            account.grid = Grid([int(size) for size in details["sizes"].split()])
        if k < 1 or (null_cell is None and account.relation == "replace-one"):
            account.unknown = "an older version attached it, and did not write all its facts down"
        account.fault = misfit(details, account.relation)
        privacy, account.delta = _privacy(details)
        account.chains.are_anew = privacy != "pure"
        if any(one.delta != account.delta for one in self.accounts.values()):
            account.fault = "a population has two kinds of privacy"
        if details.get("public_row"):
            plain = json.loads(details["public_row"])
            public = RowInForce(Row.of(plain["row"]), str(plain["step"]), Answer(-1, 0, 0))
            account.chains.in_force.append(public)
        self.accounts[snapshot] = account
        for other in str(details.get("disjoint_from", "")).split():
            self.pairs.add((snapshot, other))

    def _reserve(self, fields: Mapping[str, Any]) -> None:
        job = str(fields["job"])
        if not fields.get("replay"):
            self._forget("an older version charged it, and did not write the plan down")
            return
        replay = json.loads(fields["replay"])
        plain = json.loads(replay["plan"])
        account, _ = self._account(plain)
        account.share = max(account.share, int(plain["after"]["share_nano"]))
        if self._proves and not account.unknown:
            # The replay, or the greatest loss in the end, reports what it refuses.
            with suppress(BookFaultError, UnknownFactsError):
                chains = self._drawn(account, plain)
                self._prove(account, chains, plain, int(replay.get("nominal_nano", 0)))
        account.paid += map(str, plain.get("paid", ()))
        plain["nominal_nano"] = int(replay.get("nominal_nano", 0))
        self._open[job] = plain

    def _release(self, job: str, rows: Any) -> None:
        plain = self._open.pop(job, None)
        level = self._levels.pop(job, None)
        if plain is None:
            return
        account, _ = self._account(plain)
        if account.unknown or account.fault:
            return
        if plain.get("sampled") is not None and not plain["nominal_nano"]:
            account.unknown = "an older version did not write down what a sample cost"
            return
        try:
            account.chains.apply(_with_second(plain, rows), rows)
        except BookFaultError as exc:
            account.fault = str(exc)
            return
        if plain.get("sampled") is not None:
            account.samples += sample_loss(plain["nominal_nano"], RATE)
        if level is not None:
            account.known = Known(level, account.losses(account.chains))

    def _forget(self, reason: str) -> None:
        for account in self.accounts.values():
            account.unknown = account.unknown or reason


def _apply(chains: Chains, plain: Mapping[str, Any]) -> None:
    if plain.get("sampled") is not None or plain.get("second") is not None:
        raise UnknownFactsError("a plan is open that decides what it draws")
    chains.apply(plain)


def _with_second(plain: dict[str, Any], rows: Any) -> dict[str, Any]:
    """The plan with the drawn tables of its second purchase.

    Raises:
        BookFaultError: they are not what was written down before, or cost more than was charged.
    """
    texts = [str(row["table"]) for row in rows if row.get("table")]
    if not texts:
        return plain
    if texts != plain.get("decided"):
        raise BookFaultError("tables were drawn that were not written down before")
    tables = [json.loads(text) for text in texts]
    rise = sum(int(t["alpha"]) - int(t.get("old_alpha", 0)) for t in tables)
    if rise > int((plain.get("second") or _NONE)["alpha_nano"]):
        raise BookFaultError("a second purchase is charged less than the rises of its tables")
    return {**plain, "tables": [*plain["tables"], *tables]}


def _text(nano: Fraction | int, account: Account) -> str:
    return f"{float(nano) / 1e9:.9f} {account.unit}"
