"""Entries of the audit log in words: what an owner changed, and what was charged for what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qserver.portal import words
from qserver.portal.describe import describe_axes, describe_terms
from qserver.records.dataset import DatasetMeta
from qserver.service.ledger import AuditEntry

# Facts that every entry has, or that the words say already.
_LINK = frozenset({"kind", "at", "prev", "before"})
_ACCOUNT = frozenset({"account created", "token renewed", "token revoked"})


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
        alpha_nano: most that it adds to the loss of a cell that it counts once, in nano-epsilon.
    """

    place: int
    at: int
    by: str
    dataset: str
    job: str
    text: str
    alpha_nano: int
    digest: str


def change_line(entry: AuditEntry) -> ChangeLine:
    """A change in words; of a kind that is not known here its facts as they are."""
    facts = json.loads(entry.text)
    return ChangeLine(entry.place, facts["at"], facts["kind"], _change(facts), entry.digest)


def charge_line(entry: AuditEntry, metas: Mapping[str, DatasetMeta]) -> ChargeLine:
    """A charge in words.

    Args:
        metas: the facts of every snapshot, by its id.
    """
    facts = json.loads(entry.text)
    meta = metas.get(facts["snapshot"])
    return ChargeLine(
        place=entry.place,
        at=facts["at"],
        by=facts.get("by", ""),
        dataset=meta.name if meta else facts["snapshot"],
        job=facts["job"],
        text=_charge(facts, meta),
        alpha_nano=facts["epsilon"] if "epsilon" in facts else facts["alpha"],
        digest=entry.digest,
    )


def _change(facts: Mapping[str, Any]) -> str:
    kind = facts["kind"]
    if kind in _ACCOUNT:
        return f"{facts['account']}, {facts['role']}"
    if kind == "allowance set":
        return f"{facts['account']} on {facts['population']}: {_allowance(facts)}"
    if kind == "dataset attached":
        return _attached(facts)
    if kind == "limit raised":
        low, high = words.exactly(facts["before"]), words.exactly(facts["limit"])
        return f"population {facts['population']}: from {low} to {high} ε"
    if kind == "dataset detached":
        return f"{facts['dataset']} of population {facts['population']}"
    if kind == "periods sealed":
        return f"{facts['dataset']}: {facts['sealed']}, up to {facts['last']}"
    if kind == "periods retired":
        return (
            f"{facts['dataset']}: the records of {facts['retired']}; {facts['first_kept']} is kept"
        )
    if kind == "measure set":
        return f"{facts['dataset']}: {facts['measure']}"
    if kind == "claims set":
        return f"{facts['dataset']}: {', '.join(c['name'] for c in facts['claims']) or 'none'}"
    return json.dumps({k: v for k, v in facts.items() if k not in _LINK}, ensure_ascii=False)


def _allowance(facts: Mapping[str, Any]) -> str:
    bounds = ((facts["limit"], "in all"), (facts["pace"], "in any 24 hours"))
    said = [f"{words.exactly(nano)} ε {how}" for nano, how in bounds if nano is not None]
    return ", ".join(said) or "no bound of its own"


def _attached(facts: Mapping[str, Any]) -> str:
    meta = facts["meta"]
    limit = words.exactly(facts["limit"])
    text = f"{meta['name']} in population {meta['population']}, limit {limit} ε"
    return f"{text}; it replaces the data of before" if facts.get("replaces") else text


def _charge(facts: Mapping[str, Any], meta: DatasetMeta | None) -> str:
    if "epsilon" in facts:
        return "everybody, by a model"
    if meta is None:
        return "a table" if "table" in facts else "a row"
    if "table" in facts:
        return describe_axes(facts["table"], meta.domain)
    return describe_terms(facts["row"], meta.domain)
