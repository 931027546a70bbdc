"""What is kept of a version: two states with all kinds of lines, their answers and their sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.records.account import Allowance
from qserver.records.charge import NANO
from qserver.records.claim import Claim
from qserver.storage.accounts import AccountBook
from tests.deployment import LOG, PEOPLE, ROWS, Deployment, write_people
from tests.growing import Growing, week
from tests.worker.crashes import Crash, crashing
from tests.worker.learn_models import learn
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import declare_disjoint, set_claims, set_measure, top_up
from worker.owner.rotate import RotateRequest, rotate

QUESTIONS: dict[str, list[tuple[dict[str, Any], float]]] = {
    "town": [({"age": {"below": 25}}, 30.0), ({"sex": "Male"}, 60.0), ({"age": 22}, 60.0)],
    "weeks": [({"week": week(1)}, 80.0), ({"sex": "Male", "week": week(3)}, 60.0)],
}
"""Of each state: what was asked, and is free from then on."""
NEW: dict[str, tuple[dict[str, Any], float]] = {
    "town": ({"age": 27, "sex": "Male"}, 12.0),
    "weeks": ({"sex": "Male", "week": week(2)}, 10.0),
}
"""Of each state: what was never asked."""


def town(folder: Path, url: str) -> Deployment:
    """Rows, a chain, a burnt charge, tables, models, accounts, a rotation, disjoint people."""
    claim = Claim("men", '{"where": {"sex": "Male"}}', "2", 0.99)
    at = Deployment.make(folder, url, limit="4", disclosure_cap=0.9, claims=(claim,))
    book = AccountBook.open(at.settings, role="owner")
    book.create("ada", "analyst")
    book.allow("ada", "town", Allowance(3 * NANO, None))
    book.create("olga", "owner")
    at.ask({"age": {"below": 25}}, length=100, by="ada")
    _burn(at)
    learn(at, "marginals", {"marginals": [["age", "sex"]]}, 0.2)
    learn(at, "network", {"network": {"edges": [["sex", "age"]]}}, 0.1)
    at.ask_workload(at.workload([{"age": 22}, {"age": 23}], length=90, simultaneous=True), by="ada")
    _attach_other(at)
    at = replace(at, meta=_rotated(at))
    set_measure("people", "only_this", settings=at.settings, registry=at.registry)
    set_claims("people", (), settings=at.settings, registry=at.registry)
    top_up("town", Fraction(6), settings=at.settings, registry=at.registry)
    at.ask({"age": {"below": 25}}, length=100, by="ada")
    return at


def _burn(at: Deployment) -> None:
    spender = at.spender()
    crashing(spender, "_spends.draw", after=False)
    at.submit({"age": 29}, length=90)
    with pytest.raises(Crash):
        at.work_off(spender)
    at.writer()._client.delete("qs:{town}:lease")
    at.work_off()


def _attach_other(at: Deployment) -> None:
    data = write_people(at.settings.state_dir / "other.csv", ROWS[:300])
    request = AttachRequest(
        name="other",
        data=data,
        domain=PEOPLE,
        limit=Fraction(4),
        relation="add-remove",
        population="town",
        records_per_person=1,
        disclosure_cap=0.9,
        as_it_is=True,
    )
    attach(request, settings=at.settings, registry=at.registry, progress=lambda _text: None)
    declare_disjoint("town", "people", "other", settings=at.settings, registry=at.registry)


def _rotated(at: Deployment) -> Any:
    data = write_people(at.settings.state_dir / "second.csv", ROWS[:480])
    return rotate(
        RotateRequest("people", data),
        settings=at.settings,
        registry=at.registry,
        progress=lambda _text: None,
        log=LOG,
    )


def weeks(folder: Path, url: str) -> Growing:
    """Periods: sealed, appended and retired; a limit that was raised."""
    at = Growing.begin(folder, url, limit="10", k=2)
    at.ask({"week": week(1)}, length=120)
    at.append(3)
    at.ask({"sex": "Male", "week": week(3)}, length=90)
    at.retire(1)
    top_up("town", Fraction(12), settings=at.settings, registry=at.registry)
    return at


MAKERS = {"town": town, "weeks": weeks}


def answers(at: Deployment, name: str) -> Iterator[dict[str, float]]:
    """The numbers of what was asked, which may cost something the first time."""
    for where, length in QUESTIONS[name]:
        found = at.ask(where, length=length)
        yield {"estimate": found.estimate, "low": found.low, "high": found.high}
