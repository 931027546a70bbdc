"""The owner's pages: datasets, accounts with what each spent, and the audit log. No rows.

What owners ask for by its forms are commands that they confirm elsewhere. Nothing runs here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlencode

from flask import Blueprint, Response, g, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from qserver.errors import AccessError
from qserver.portal import numbers
from qserver.portal.cookies import FORM_FIELD
from qserver.portal.descriptions import describe_axes, describe_terms
from qserver.portal.render import CSV_TYPE, csv_text, download, page
from qserver.records.answer import DatasetStatus
from qserver.records.dataset import DatasetMeta
from qserver.records.privacy.conversion import Shown
from qserver.service.ledger import AuditEntry, AuditPage, SpendingReport
from qserver.service.service import Service
from qserver.text import at_delta

# Facts of every entry, or those that the words state already.
_LINK = frozenset({"kind", "at", "prev", "before"})
_ACCOUNT = frozenset({"account created", "group let in", "token renewed", "token revoked"})


@dataclass(frozen=True)
class ChangeLine:
    """An entry of the list of changes.

    Args:
        at: Unix time in seconds.
        text: the change in words.
    """

    place: int
    at: int
    kind: str
    text: str
    digest: str


@dataclass(frozen=True)
class ChargeLine:
    """An entry of a list of charges.

    Args:
        at: Unix time in seconds.
        by: account that paid; '' where there were no accounts.
        text: what was measured, in words.
        alpha_nano: most that it adds to the loss of a cell that it counts once, in nano-epsilon;
            under zcdp where nothing else was charged.
    """

    place: int
    at: int
    by: str
    dataset: str
    job: str
    text: str
    alpha_nano: int
    digest: str


def change_line(entry: AuditEntry, metas: Mapping[str, DatasetMeta]) -> ChangeLine:
    """A change in words; of an unknown kind, its facts.

    Args:
        metas: the facts of every snapshot, by its id.
    """
    facts = json.loads(entry.text)
    text = _change(facts)
    if facts["kind"] == "allowance set":
        among = (m.delta for m in metas.values() if m.population == facts["population"])
        text += at_delta(next(among, None))
    return ChangeLine(entry.place, facts["at"], facts["kind"], text, entry.digest)


def charge_line(entry: AuditEntry, metas: Mapping[str, DatasetMeta]) -> ChargeLine:
    """A charge in words; `metas`: the facts of every snapshot, by its id."""
    facts = json.loads(entry.text)
    meta = metas.get(facts["snapshot"])
    return ChargeLine(
        place=entry.place,
        at=facts["at"],
        by=facts.get("by", ""),
        dataset=meta.name if meta else facts["snapshot"],
        job=facts["job"],
        text=_charge(facts, meta),
        alpha_nano=(Shown() if meta is None else meta.shown).nano(
            facts["epsilon"] if "epsilon" in facts else facts["alpha"]
        ),
        digest=entry.digest,
    )


_CHOICES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "measure set": lambda facts: str(facts["measure"]),
    "expected set": lambda facts: f"about {facts['expected']:,} questions until the limit",
    "claims set": lambda facts: ", ".join(c["name"] for c in facts["claims"]) or "none",
}


def _change(facts: Mapping[str, Any]) -> str:
    kind = facts["kind"]
    if kind in _ACCOUNT:
        return f"{facts['account']}, {facts['role']}"
    if kind == "allowance set":
        return f"{facts['account']} on {facts['population']}: {_allowance(facts)}"
    if kind == "dataset attached":
        return _attached(facts)
    if kind == "limit raised":
        shown = _shown(facts)
        low, high = (numbers.exactly(shown.nano(facts[name])) for name in ("before", "limit"))
        return f"population {facts['population']}: from {low} to {high} ε{at_delta(shown.delta)}"
    if kind == "dataset detached":
        return f"{facts['dataset']} of population {facts['population']}"
    if kind == "periods sealed":
        return f"{facts['dataset']}: {facts['sealed']}, up to {facts['last']}"
    if kind == "periods retired":
        return (
            f"{facts['dataset']}: the records of {facts['retired']}; {facts['first_kept']} is kept"
        )
    if kind in _CHOICES:
        return f"{facts['dataset']}: {_CHOICES[kind](facts)}"
    return json.dumps({k: v for k, v in facts.items() if k not in _LINK}, ensure_ascii=False)


def _allowance(facts: Mapping[str, Any]) -> str:
    bounds = ((facts["limit"], "in all"), (facts["pace"], "in any 24 hours"))
    said = [f"{numbers.exactly(nano)} ε {how}" for nano, how in bounds if nano is not None]
    return ", ".join(said) or "no bound of its own"


def _shown(facts: Mapping[str, Any]) -> Shown:
    """How losses are shown, by the delta of a dataset or of a change of a limit."""
    delta = facts.get("delta")
    return Shown(None if delta is None else Fraction(delta))


def _attached(facts: Mapping[str, Any]) -> str:
    meta = facts["meta"]
    shown = _shown(meta)
    limit = f"{numbers.exactly(shown.nano(facts['limit']))} ε{at_delta(shown.delta)}"
    text = f"{meta['name']} in population {meta['population']}, limit {limit}"
    return f"{text}; it replaces the data of before" if facts.get("replaces") else text


def _charge(facts: Mapping[str, Any], meta: DatasetMeta | None) -> str:
    if "epsilon" in facts:
        return "everybody, by a model"
    if meta is None:
        return "a table" if "table" in facts else "a row"
    if "table" in facts:
        return describe_axes(facts["table"], meta.domain)
    return describe_terms(facts["row"], meta.domain)


_PAGE_SIZE = 50
_READ_AT_ONCE = 200
_MAX_PLACE_DIGITS = 12
_CHANGES = "/portal/owner/changes"

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True)
class PopulationView:
    """The datasets about the same people, and who spent what of their one budget.

    Args:
        n_charges: entries of its list of charges.
    """

    name: str
    datasets: tuple[DatasetStatus, ...]
    spending: SpendingReport
    n_charges: int


@dataclass(frozen=True)
class LogView:
    """A page of an audit log, the newest entry first.

    Args:
        place: address of the log.
        n_entries: of the whole log.
        older, newer: query parts of the addresses of the pages around it; '' where there is none.
    """

    place: str
    n_entries: int
    lines: tuple[ChangeLine | ChargeLine, ...]
    older: str
    newer: str


def owners_only(show: Callable[_P, _R]) -> Callable[_P, _R]:
    """The page for owners; AccessError for others."""

    @wraps(show)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if g.caller.role != "owner":
            raise AccessError("Only an owner may read this page.")
        return show(*args, **kwargs)

    return checked


class OwnerPages:
    """The pages of an owner, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes, for owners alone."""
        shows: tuple[tuple[str, Callable[..., str | Response]], ...] = (
            ("/owner", self.show_owner),
            ("/owner/changes", self.show_changes),
            ("/owner/changes.csv", self.download_changes),
            ("/datasets/<dataset>/charges", self.show_charges),
            ("/datasets/<dataset>/charges.csv", self.download_charges),
        )
        for rule, show in shows:
            routes.get(rule)(owners_only(show))

    def show_owner(self) -> str:
        """An owner's overview, on one page."""
        populations = tuple(self._populations())
        return page(
            "owner.html",
            populations=populations,
            accounts=self._service.ledger.accounts(),
            n_changes=self._service.ledger.n_changes(),
        )

    def show_changes(self) -> str:
        """Changes of accounts, allowances, datasets and limits, latest first."""
        n_entries = self._service.ledger.n_changes()
        after = _after(n_entries)
        found = self._service.ledger.changes(after=after, limit=_PAGE_SIZE)
        metas = self._service.ledger.attached()
        lines = tuple(change_line(entry, metas) for entry in found.entries)
        return page("changes.html", log=_log_view(_CHANGES, n_entries, after, found, lines))

    def download_changes(self) -> Response:
        """All changes as a file, oldest first."""
        metas = self._service.ledger.attached()
        lines = (change_line(entry, metas) for entry in self._entries(None))
        header = ["place", "at", "kind", "what", "digest"]
        rows = ([c.place, numbers.moment(c.at), c.kind, c.text, c.digest] for c in lines)
        return download(csv_text([header, *rows]), name="changes.csv", content_type=CSV_TYPE)

    def show_charges(self, dataset: str) -> str:
        """Charges of the dataset's population, latest first, with their payers."""
        n_entries, metas = self._service.ledger.n_charges(dataset), self._service.ledger.attached()
        after = _after(n_entries)
        found = self._service.ledger.charges(dataset, after=after, limit=_PAGE_SIZE)
        lines = tuple(charge_line(entry, metas) for entry in found.entries)
        place = f"/portal/datasets/{dataset}/charges"
        return page(
            "charges.html",
            of=self._service.dataset(dataset),
            log=_log_view(place, n_entries, after, found, lines),
        )

    def download_charges(self, dataset: str) -> Response:
        """All charges as a file, oldest first."""
        metas = self._service.ledger.attached()
        lines = (charge_line(entry, metas) for entry in self._entries(dataset))
        header = ["place", "at", "account", "dataset", "job", "what", "epsilon", "digest"]
        rows = map(_cells, lines)
        text = csv_text([header, *rows])
        return download(text, name=f"{dataset}-charges.csv", content_type=CSV_TYPE)

    def _populations(self) -> Iterator[PopulationView]:
        """The populations by name, each with its datasets."""
        together: dict[str, list[DatasetStatus]] = {}
        for status in self._service.datasets():
            together.setdefault(status.population, []).append(status)
        for name, datasets in sorted(together.items()):
            first = datasets[0].name
            spending = self._service.ledger.spending(first)
            n_charges = self._service.ledger.n_charges(first)
            yield PopulationView(name, tuple(datasets), spending, n_charges)

    def _entries(self, dataset: str | None) -> Iterator[AuditEntry]:
        """All charges of the dataset's population; without a dataset, all changes."""
        ledger, after = self._service.ledger, -1
        while True:
            found = (
                ledger.changes(after=after, limit=_READ_AT_ONCE)
                if dataset is None
                else ledger.charges(dataset, after=after, limit=_READ_AT_ONCE)
            )
            yield from found.entries
            if found.next_after is None:
                return
            after = found.next_after


def _after(n_entries: int) -> int:
    """The place before the asked page; else before the last page."""
    text = request.args.get("after", "")
    is_place = text.isascii() and text.isdigit() and len(text) <= _MAX_PLACE_DIGITS
    if text == "-1" or is_place:
        return min(int(text), max(-1, n_entries - 1))
    return max(-1, n_entries - 1 - _PAGE_SIZE)


def _cells(line: ChargeLine) -> list[object]:
    """A charge as a row of the file."""
    told = [line.by, line.dataset, line.job, line.text, numbers.exactly(line.alpha_nano)]
    return [line.place, numbers.moment(line.at), *told, line.digest]


def _log_view(
    place: str,
    n_entries: int,
    after: int,
    found: AuditPage,
    lines: Sequence[ChangeLine | ChargeLine],
) -> LogView:
    older = urlencode({"after": max(-1, after - _PAGE_SIZE)}) if after >= 0 else ""
    newer = "" if found.next_after is None else urlencode({"after": found.next_after})
    return LogView(place, n_entries, tuple(reversed(lines)), older, newer)


_PLACE = "/owner/requests"


class WishPages:
    """The page of an owner's requests, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes, for owners alone."""
        routes.get(_PLACE)(owners_only(self.show_wishes))
        routes.post(f"{_PLACE}/<kind>")(owners_only(self.add_wish))

    def show_wishes(self) -> str:
        """The waiting requests, and a form for each command."""
        wishes = self._service.wishes
        return page("wishes.html", waiting=wishes.all(), commands=wishes.commands)

    def add_wish(self, kind: str) -> BaseResponse:
        """Keep a form's request; InputError names the wrong field."""
        given = {k: v.strip() for k, v in request.form.items() if k != FORM_FIELD}
        values = {name: value for name, value in given.items() if value}
        wish = self._service.wishes.add(kind, values, by=g.caller.account)
        return redirect(f"/portal{_PLACE}#{wish.digest}", 303)
