"""History and charges: immutable, versioned, in whole nano-epsilon."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import InputError
from qserver.query.linear_query import linear_query, total_query
from qserver.query.weights import indicator
from qserver.records.charge import Charge, OpaqueCharge, check_nano, epsilon_text
from qserver.records.history import Estimator, Measurement
from tests.records.grown import History, grown

SIZES = (2, 3)
ROW = total_query(SIZES)


def measured(i: int, **changes: Any) -> Measurement:
    facts: dict[str, Any] = {"alpha_nano": 10**8, "step": Fraction(1, 1024), "index": 3 * 1024}
    return Measurement(**{"id": i, "row": ROW, "key": "total", **facts, **changes})


def empty() -> History:
    return History("snapshot", SIZES)


def test_measured_value_is_exact_and_scale_is_one_over_alpha() -> None:
    found = measured(0, step=Fraction(1, 3 * 2**20), index=10**30)
    assert found.value == Fraction(10**30, 3 * 2**20)
    assert found.scale == 10.0
    assert found.lattice_allowance == pytest.approx(float(Fraction(1, 3 * 2**20)), rel=1e-15)
    assert not found.is_public


def test_public_row_has_neither_noise_nor_allowance() -> None:
    public = measured(0, alpha_nano=0, step=Fraction(1), index=32_561)
    assert public.is_public
    assert (public.value, public.scale, public.lattice_allowance) == (32_561, 0.0, 0.0)


@pytest.mark.parametrize(
    "changes",
    [{"id": -1}, {"alpha_nano": -1}, {"step": Fraction(0)}, {"step": Fraction(-1, 2)}],
    ids=str,
)
def test_measurement_out_of_range_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^`measurement` must have id >= 0"):
        measured(**{"i": changes.pop("id", 0), **changes})


events = st.lists(st.sampled_from(["row", "estimator a", "estimator b"]), max_size=12)


@given(events, st.integers(0, 12))
def test_events_add_up_however_they_are_split(kinds: list[str], cut: int) -> None:
    """The expected contents are counted from the list of kinds."""
    found: list[Measurement | Estimator] = []
    for kind in kinds:
        rows = sum(isinstance(e, Measurement) for e in found)
        weights = ((rows, float(len(found))),)
        found.append(measured(rows) if kind == "row" else Estimator(kind[-1], weights))
    whole = grown(empty(), found)
    parts = grown(grown(empty(), found[:cut]), found[cut:])
    assert parts == whole
    assert whole.version == len(kinds)
    assert [m.id for m in whole.measurements] == list(range(kinds.count("row")))
    for key in "ab":
        expected = [e for e in found if isinstance(e, Estimator) and e.key == key]
        assert list(whole.estimators.get(key, ())) == expected


def test_earlier_history_is_left_as_it_was() -> None:
    before = grown(empty(), [measured(0), Estimator("a", ((0, 1.0),))])
    after = grown(before, [measured(1), Estimator("a", ((1, 1.0),))])
    assert (len(before.measurements), len(before.estimators["a"]), before.version) == (1, 1, 2)
    assert (len(after.measurements), len(after.estimators["a"]), after.version) == (2, 2, 4)
    with pytest.raises(TypeError):
        before.estimators["b"] = ()
    with pytest.raises(FrozenInstanceError):
        before.version = 7  # type: ignore[misc]


@pytest.mark.parametrize("ids", [[1], [0, 2], [0, 1, 3]])
def test_measurement_out_of_order_is_refused(ids: list[int]) -> None:
    with pytest.raises(InputError, match=r"^`measurement\.id` must be \d+, the next one, or less"):
        grown(empty(), map(measured, ids))


def test_a_refinement_takes_the_place_of_what_it_refines_and_counts_as_an_event() -> None:
    before = grown(empty(), [measured(0), measured(1)])
    refined = measured(0, alpha_nano=2 * 10**8, index=-7)
    after = grown(before, [refined, Estimator("a", ((0, 1.0),))])
    assert after.measurements == (refined, before.measurements[1])
    assert after.version == 4
    assert before.measurements[0].alpha_nano == 10**8


OTHER = linear_query(SIZES, [(1, {0: indicator(2, [0])})])


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "other"},
        {"step": Fraction(1, 2048)},
        {"row": OTHER},
        {"alpha_nano": 10**8},
        {"alpha_nano": 10**8 - 1},
        {"alpha_nano": 0},
    ],
    ids=str,
)
def test_a_refinement_of_another_row_or_with_no_less_noise_is_refused(
    changes: dict[str, Any],
) -> None:
    with pytest.raises(InputError, match=r"^`measurement"):
        grown(empty(), [measured(0), measured(0, **{"alpha_nano": 2 * 10**8, **changes})])


def test_a_public_row_is_never_refined() -> None:
    public = measured(0, alpha_nano=0, step=Fraction(1), index=5)
    with pytest.raises(InputError, match="noisy"):
        grown(empty(), [public, measured(0, step=Fraction(1), index=5)])


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, Fraction(1)])
def test_charges_are_whole_and_above_zero(value: Any) -> None:
    with pytest.raises(InputError, match=r"^`alpha_nano` must be a whole number > 0"):
        Charge(ROW, value, "job")
    with pytest.raises(InputError, match=r"^`epsilon_nano` must be a whole number > 0"):
        OpaqueCharge(value, "job")
    with pytest.raises(InputError, match=r"^`limit` must be a whole number > 0"):
        check_nano("limit", value)


def test_charge_of_one_nano_is_accepted() -> None:
    assert Charge(ROW, 1, "job").alpha_nano == 1
    assert OpaqueCharge(1, "job").epsilon_nano == 1


@given(st.integers(-(10**30), 10**30))
def test_epsilon_text_is_exact(nano: int) -> None:
    text = epsilon_text(nano)
    assert Fraction(text) == Fraction(nano, 10**9)
    assert -Decimal(text).as_tuple().exponent == 9
