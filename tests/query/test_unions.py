"""Unions of boxes: disjoint, complete, and refused in bounded work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import CapacityError
from qserver.query.class_grid import MAX_MASK_BITS, check_mask_bits, disjoint_union, subtract
from tests.query.small_queries import Cell, cells

SIZES = (3, 4, 2)
box = st.dictionaries(st.integers(0, 2), st.integers(0, 15)).map(
    lambda masks: {a: m & ((1 << SIZES[a]) - 1) for a, m in masks.items()}
)


def members(boxed: Mapping[int, int], sizes: Sequence[int] = SIZES) -> set[Cell]:
    """The cells of a box, one by one."""
    return {c for c in cells(sizes) if all(mask >> c[a] & 1 for a, mask in boxed.items())}


@given(st.lists(box, max_size=6))
def test_union_is_disjoint_and_covers_exactly_the_boxes(boxes: list[dict[int, int]]) -> None:
    parts = [members(b) for b in disjoint_union(boxes, SIZES)]
    expected = set().union(*(members(b) for b in boxes))
    assert set().union(*parts) == expected
    assert sum(map(len, parts)) == len(expected)


@given(box, box)
def test_difference_is_disjoint_and_exact(one: dict[int, int], other: dict[int, int]) -> None:
    parts = [members(b) for b in subtract(one, other, SIZES)]
    expected = members(one) - members(other)
    assert set().union(*parts) == expected
    assert sum(map(len, parts)) == len(expected)


@given(box, box)
def test_arguments_are_left_as_they_were(one: dict[int, int], other: dict[int, int]) -> None:
    before = dict(one), dict(other)
    disjoint_union([one, other], SIZES)
    assert (one, other) == before


def test_union_of_nothing_is_empty() -> None:
    assert disjoint_union([], SIZES) == []


def test_box_inside_an_earlier_one_adds_no_part() -> None:
    assert disjoint_union([{0: 0b011}, {0: 0b001, 1: 0b1}], SIZES) == [{0: 0b011}]


def test_box_without_conditions_is_everything() -> None:
    assert disjoint_union([{}, {0: 1}], SIZES) == [{}]


def test_union_that_needs_more_terms_than_boxes_is_counted_by_its_terms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A point taken out of the whole leaves one box per axis."""
    boxes = [dict.fromkeys(range(5), 1), {}]
    monkeypatch.setattr("qserver.query.class_grid.MAX_TERMS", 6)
    assert len(disjoint_union(boxes, (2,) * 5)) == 6
    monkeypatch.setattr("qserver.query.class_grid.MAX_TERMS", 5)
    with pytest.raises(CapacityError, match="more than 5 disjoint terms"):
        disjoint_union(boxes, (2,) * 5)


def test_union_that_needs_too_many_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = [{0: 1 << i} for i in range(20)]
    monkeypatch.setattr("qserver.query.class_grid.MAX_COMPARISONS", 190)
    assert len(disjoint_union(boxes, (20,))) == 20
    monkeypatch.setattr("qserver.query.class_grid.MAX_COMPARISONS", 189)
    with pytest.raises(CapacityError, match="too many steps"):
        disjoint_union(boxes, (20,))


def test_masks_that_fill_the_memory_are_refused() -> None:
    check_mask_bits(MAX_MASK_BITS)
    with pytest.raises(CapacityError, match="too many values"):
        check_mask_bits(MAX_MASK_BITS + 1)
    with pytest.raises(CapacityError, match="too many values"):
        disjoint_union([{0: 1}] * 300, (1 << 20,))
