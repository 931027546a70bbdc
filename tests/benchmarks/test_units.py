"""The stream of the page on domains, its first weeks: units cost what their definitions say."""

from __future__ import annotations

import pytest

from tests.benchmarks.units import UNITS, spent

N_WEEKS = 5
pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def costs() -> dict[str, list[float]]:
    return {name: spent(neighbours, N_WEEKS) for name, neighbours in UNITS.items()}


def test_the_first_week_costs_as_many_records_as_a_period_may_have(
    costs: dict[str, list[float]],
) -> None:
    one = costs["`person`, K = 1"][0]
    assert costs["`person`, K = 4"][0] == pytest.approx(4 * one, rel=1e-3)
    for name in ("`person`, K = 4, M = 1", "`person`, K = 13, M = 1", "`person-unbounded`, M = 1"):
        assert costs[name][0] == pytest.approx(one, rel=1e-3)


def test_spending_stops_to_add_up_once_a_person_has_no_more_records(
    costs: dict[str, list[float]],
) -> None:
    """Fixed questions of new weeks: four weeks add up for K = 4, all of them without a bound."""
    bounded, unbounded = costs["`person`, K = 4, M = 1"], costs["`person-unbounded`, M = 1"]
    assert bounded[:4] == pytest.approx(unbounded[:4], rel=1e-3)
    assert bounded[4] < unbounded[4]
    assert bounded[4] <= costs["`person`, K = 4"][4] * (1 + 1e-3)


def test_a_record_of_its_own_period_costs_no_more_than_one_of_any(
    costs: dict[str, list[float]],
) -> None:
    kept = costs["`person`, K = 4, M = 1, `replace-one`, `same-period`"]
    free = costs["`person`, K = 4, M = 1, `replace-one`, `any-period`"]
    assert all(a <= b * (1 + 1e-9) for a, b in zip(kept, free, strict=True))
    assert kept[-1] < free[-1]
