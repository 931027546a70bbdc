"""Units of privacy where data arrive by weeks: what is kept, and what is charged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from qserver.records.unit import Unit
from tests.growing import Growing, Row, week
from tests.sweeps import share
from worker.owner.checks.audit import audit

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "of data with periods m records of a person stay in a period and k in all; what comes "
        "later changes no earlier period, and nobody else's records",
    ),
]

N_WEEKS = 5
# Everybody comes twice each week.
VISITS: dict[int, list[Row]] = {
    i: [(week(i), ("Female", "Male")[n % 2], f"p{n // 2}") for n in range(80)]
    for i in range(N_WEEKS)
}
UNITS = {
    "two a person": (Unit("person"), 2, [80, 0, 0, 0, 0]),
    "one a week, three in all": (Unit("person", 1), 3, [40, 40, 40, 0, 0]),
    "three in all": (Unit("person", 2), 3, [80, 40, 0, 0, 0]),
    "one of a week": (Unit("person-period"), 1, [40] * 5),
    "one a week, unbounded": (Unit("person-unbounded", 1), 60, [40] * 5),
}
LENGTH = 6.0


def begin(folder: Path, store_url: str, name: str) -> Growing:
    unit, k, _ = UNITS[name]
    rows = [row for i in range(2) for row in VISITS[i]]
    return Growing.begin(folder, store_url, n_first=2, rows=rows, k=k, unit=unit, limit="100")


@pytest.mark.parametrize("name", UNITS)
def test_each_arrival_keeps_what_earlier_ones_leave(
    tmp_path: Path, store_url: str, name: str
) -> None:
    town = begin(tmp_path, store_url, name)
    for i in range(2, N_WEEKS):
        town.append(i, VISITS[i])
    folder = town.registry.parts(town.registry.entry("people"))
    with town.registry.journal("town", create=False).exclusive() as journal:
        parts = folder.read(journal.state.parts[town.meta.snapshot])
    kept = Counter[int]()
    for part in parts:
        kept.update(part.codes[0].tolist())
    assert [kept[i] for i in range(N_WEEKS)] == UNITS[name][2]


@pytest.mark.slow
@pytest.mark.parametrize("name", share(UNITS, 3))
def test_a_count_of_each_week_as_it_arrives_costs_by_the_unit(
    tmp_path: Path, store_url: str, name: str
) -> None:
    """In costs of one week: as many weeks as a person may have records in."""
    town = begin(tmp_path, store_url, name)
    spent = list[int]()
    for i in range(N_WEEKS):
        if i >= 2:
            town.append(i, VISITS[i])
        document = {"query": {"where": {"week": week(i)}}, "length": LENGTH, "confidence": 0.95}
        for _ in range(3):
            reply = town.web().post("/v1/datasets/people/query", json=document)
            if reply.status_code == 200:
                break
            town.work_off()
        assert reply.status_code == 200, reply.text
        spent.append(town.service().dataset("people").spent_nano)
    unit, k, _ = UNITS[name]
    m = unit.most_in_period(k)
    # Three in all, two a week: two of the one week and one of the other.
    in_costs = [min(k, m * (i + 1)) / m for i in range(N_WEEKS)]
    if unit.protects == "person-period":
        in_costs = [1.0] * N_WEEKS
    assert spent == pytest.approx([c * spent[0] for c in in_costs], abs=5)
    checks = audit(town.registry, town.settings)
    assert all(check.ok for check in checks), checks
