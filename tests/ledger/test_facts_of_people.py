"""Whatever facts a dataset may have, it charges what a person of its unit loses, or is none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from qserver.errors import InputError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import neighbours_of
from qserver.query.domain_file import domain_from_document
from qserver.query.linear_query import linear_query
from qserver.query.weights import indicator
from qserver.records.charge import AnyCharge, Charge, Relation
from qserver.records.dataset import DatasetMeta
from qserver.records.unit import PROTECTS, REPLACED, Unit
from tests.ledger.people_by_definition import People, told

WEEK = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 3}
SEX = {"name": "sex", "labels": ["F", "M"]}
WEEKS = domain_from_document({"attributes": [WEEK, SEX]})
NO_WEEKS = domain_from_document({"attributes": [SEX]})
NANO = [700, 1100, 600]
MOST = 4


def dataset(k: int, unit: Unit, **more: Any) -> DatasetMeta:
    facts: dict[str, Any] = {
        "domain": WEEKS,
        "relation": "add-remove",
        "records_verified": False,
    } | more
    return DatasetMeta(
        "people", "town", "s", records_per_person=k, unit=unit, disjoint_from=(), **facts
    )


def every_unit() -> Iterator[Unit]:
    for protects, m, replaced in product(PROTECTS, (None, 1, 2), REPLACED):
        try:
            yield Unit(protects, m, replaced)
        except InputError:
            continue


def who_may_be(unit: Unit, k: int, relation: Relation) -> People:
    """The persons of a unit by its definition: k says nothing where it has no bound in all."""
    in_all = None if unit.protects == "person-unbounded" else k
    return People(
        WEEKS.sizes,
        0,
        in_all,
        k if unit.per_period is None else unit.per_period,
        relation,
        one_period=unit.protects == "person-period",
        same_period=unit.replaced == "same-period",
    )


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_facts_are_charged_what_a_person_of_their_unit_loses_or_are_refused(
    relation: Relation,
) -> None:
    """A count of each week, by enumeration of everybody who may be exchanged for whom."""
    charges: list[AnyCharge] = [
        Charge(linear_query(WEEKS.sizes, [(1, {0: indicator(3, [t])})]), nano, "job")
        for t, nano in enumerate(NANO)
    ]
    accepted = 0
    for unit, k in product(every_unit(), range(1, MOST + 1)):
        try:
            meta = dataset(k, unit, relation=relation)
        except InputError:
            continue
        accepted += 1
        ledger = CellLedger.like(WEEKS.sizes, neighbours_of(meta))
        ledger.extend(charges)
        assert ledger.spent_nano >= max(told(charges, who_may_be(unit, k, relation)))
    assert accepted >= 10


@pytest.mark.parametrize(
    ("k", "unit", "more", "named"),
    [
        (1, Unit("person-unbounded", 1), {}, "records_per_person"),
        (4, Unit("person-unbounded", 1), {}, "records_per_person"),
        (3, Unit("person-unbounded", 2), {}, "records_per_person"),
        (0, Unit(), {}, "records_per_person"),
        (10**6 + 1, Unit(), {}, "records_per_person"),
        (4, Unit("person", 1), {}, "records_per_person"),
        (2, Unit("person", 3), {}, "records_per_period"),
        (2, Unit("person", 1, "same-period"), {}, "replaced"),
        (2, Unit("person-period"), {"relation": "replace-one"}, "replaced"),
        (1, Unit("person-period"), {"domain": NO_WEEKS}, "unit"),
        (
            3,
            Unit("person", 1, "same-period"),
            {"relation": "replace-one", "records_verified": True},
            "replaced",
        ),
    ],
)
def test_facts_that_do_not_go_together_name_the_fact(
    k: int, unit: Unit, more: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=f"`{named}` must"):
        dataset(k, unit, **more)


def test_the_numbers_of_a_unit_are_derived_from_it() -> None:
    """One record in each of three weeks, however many in all: three count together."""
    found = neighbours_of(dataset(3, Unit("person-unbounded", 1)))
    assert found.records_per_person == 3
    assert found.by_period is not None
    assert found.by_period.most == 1
