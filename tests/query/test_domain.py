"""The public domain: every invariant broken once, sizes, names, and exact decimals."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import DomainError
from qserver.query.domain import MAX_ATTRIBUTES, MAX_VALUES, Attribute, Domain, decimal_text


def labels(**changes: Any) -> Attribute:
    return Attribute(**{"name": "a", "kind": "labels", "labels": ("x", "y"), **changes})


def numbers(**changes: Any) -> Attribute:
    edges = tuple(map(Fraction, (0, 1, 5, 9)))
    return Attribute(**{"name": "a", "kind": "integer", "edges": edges, **changes})


def half(*numerators: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(n, 2) for n in numerators)


@pytest.mark.parametrize(
    ("build", "changes", "message"),
    [
        (labels, {"name": ""}, "`name` must be 1 to 64"),
        (labels, {"name": "1st"}, "`name` must be 1 to 64"),
        (labels, {"name": "a b"}, "`name` must be 1 to 64"),
        (labels, {"name": "a\n"}, "`name` must be 1 to 64"),
        (labels, {"name": "é"}, "`name` must be 1 to 64"),
        (labels, {"name": "a" * 65}, "`name` must be 1 to 64"),
        (labels, {"name": None}, "`name` must be 1 to 64"),
        (labels, {"kind": "text"}, "`kind` must be one of `labels`, `integer`, `real`"),
        (labels, {"kind": ["labels"]}, "`kind` must be one of"),
        (labels, {"outside": "keep"}, "`outside` must be one of"),
        (labels, {"outside": "clamp"}, "`outside` must be `drop` or `other`"),
        (labels, {"missing": "clamp"}, "`missing` must be one of `drop`, `other`"),
        (labels, {"other": ""}, "`other` must be a non-empty text"),
        (labels, {"other": 3}, "`other` must be a non-empty text"),
        (labels, {"outside": "other", "other": "x"}, "`other` must differ from every label"),
        (labels, {"labels": ()}, "`labels` must be a list of one or more"),
        (labels, {"labels": ("x", "")}, "`labels` must be a list of one or more"),
        (labels, {"labels": ("x", 1)}, "`labels` must be a list of one or more"),
        (labels, {"labels": ("x", "y", "x")}, "`labels` must name each label once, got 'x'"),
        (labels, {"edges": half(0, 1)}, "`edges` must be absent for kind `labels`"),
        (labels, {"missing_markers": ("?", "y")}, "`missing_markers` must not be labels too"),
        (numbers, {"labels": ("x",)}, "`labels` must be absent for kind `integer`"),
        (numbers, {"edges": half(2)}, "`edges` must be two or more"),
        (numbers, {"edges": half(0, 4, 4)}, "`edges` must increase strictly"),
        (numbers, {"edges": half(4, 2)}, "`edges` must increase strictly"),
        (numbers, {"edges": half(0, 1)}, "`edges` must be whole numbers for kind `integer`"),
        (numbers, {"edges": (0.0, 1.0)}, "`edges` must be whole numbers or fractions"),
        (numbers, {"edges": (0, "1")}, "`edges` must be whole numbers or fractions"),
        (numbers, {"edges": (0, 10**12 + 1)}, "`edges` must be at most 1,000,000,000,000"),
        (numbers, {"edges": (-(10**5000), 0)}, "`edges` must be at most 1,000,000,000,000"),
        (
            numbers,
            {"kind": "real", "edges": (Fraction(0), Fraction(1, 10**9 + 1))},
            "`edges` must have denominators",
        ),
        (numbers, {"outside": "other", "other": "5"}, "`other` must not begin like a number"),
        (numbers, {"outside": "other", "other": "[0, 1)"}, "`other` must not begin like a number"),
    ],
    ids=lambda v: None if callable(v) else "".join(v) if isinstance(v, dict) else "",
)
def test_every_broken_rule_is_refused_by_the_name_of_its_field(
    build: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DomainError) as caught:
        build(**changes)
    assert str(caught.value).startswith(message)


@pytest.mark.slow
def test_attribute_with_more_values_than_the_bound_is_refused() -> None:
    """`other` counts as a value."""
    edges = tuple(range(MAX_VALUES + 1))
    assert numbers(edges=edges).size == MAX_VALUES
    with pytest.raises(DomainError, match=r"`a` must have 1 to 1,048,576 values, got 1048577"):
        numbers(edges=edges, outside="other")


def test_repeated_label_among_many_is_found_in_one_pass() -> None:
    """Counting each label in turn would take 10^10 steps."""
    many = tuple(map(str, range(200_000)))
    with pytest.raises(DomainError, match=r"`labels` must name each label once, got '199999'"):
        labels(labels=(*many, "199999"))


@pytest.mark.parametrize(
    ("outside", "missing", "has_other", "is_total"),
    [
        ("drop", "drop", False, False),
        ("drop", "other", True, False),
        ("other", "drop", True, False),
        ("other", "other", True, True),
        ("clamp", "drop", False, False),
        ("clamp", "other", True, True),
    ],
)
def test_other_is_an_extra_last_value_and_totality_needs_both_rules(
    *, outside: str, missing: str, has_other: bool, is_total: bool
) -> None:
    attribute = numbers(outside=outside, missing=missing, other="none")
    assert attribute.has_other == has_other
    assert attribute.is_total == is_total
    assert attribute.n_regular == 3
    assert attribute.size == 3 + has_other
    assert attribute.value_names == ("0", "1..4", "5..8", "none")[: attribute.size]
    assert attribute.index_of_name("none") == (3 if has_other else None)


def test_names_of_values_are_labels_or_bins() -> None:
    real = Attribute(name="r", kind="real", edges=(Fraction(-1, 2), Fraction(1, 3), Fraction(2)))
    assert real.value_names == ("[-0.5, 1/3)", "[1/3, 2)")
    assert labels(missing="other", other="z").value_names == ("x", "y", "z")
    for attribute in (real, labels(missing="other", other="z"), numbers()):
        found = [attribute.index_of_name(name) for name in attribute.value_names]
        assert found == list(range(attribute.size))
        assert attribute.index_of_name("no such value") is None


@given(
    st.lists(st.fractions(-9, 9, max_denominator=6), min_size=2, max_size=6, unique=True),
    st.fractions(-10, 10, max_denominator=12),
)
def test_bin_of_a_value_is_the_half_open_bin_that_holds_it(
    edges: list[Fraction], value: Fraction
) -> None:
    edges.sort()
    attribute = Attribute(name="r", kind="real", edges=tuple(edges))
    holding = [i for i in range(len(edges) - 1) if edges[i] <= value and value < edges[i + 1]]
    assert attribute.bin_of(value) == (holding[0] if holding else None)


def test_domain_knows_sizes_cells_and_axes() -> None:
    domain = Domain((labels(), numbers(name="b", outside="clamp", missing="other")))
    assert domain.sizes == (2, 4)
    assert domain.n_cells == 8
    assert domain.names == ("a", "b")
    assert [domain.axis(n) for n in ("a", "b", "c")] == [0, 1, None]
    assert not domain.is_total
    assert Domain((domain.attributes[1],)).is_total


def test_number_of_cells_is_exact_far_beyond_64_bits() -> None:
    domain = Domain(tuple(numbers(name=f"a{i}") for i in range(MAX_ATTRIBUTES)))
    assert domain.n_cells == prod([3] * 256) == 3**256


def test_domain_refuses_no_attributes_too_many_and_repeated_names() -> None:
    with pytest.raises(DomainError, match=r"`attributes` must be a list of 1 to 256"):
        Domain(())
    with pytest.raises(DomainError, match=r"`attributes` must be a list of 1 to 256"):
        Domain(tuple(numbers(name=f"a{i}") for i in range(MAX_ATTRIBUTES + 1)))
    with pytest.raises(DomainError, match=r"`attributes` must have distinct names, got 'a'"):
        Domain((labels(), numbers()))


@given(st.fractions(-(10**6), 10**6, max_denominator=10**6))
def test_decimal_text_means_the_same_number(value: Fraction) -> None:
    """A decimal where the denominator has no prime but 2 and 5, else a ratio in lowest terms."""
    text = decimal_text(value)
    assert Fraction(text) == value
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    assert ("/" in text) == (rest != 1)
    assert not (text.endswith("0") and "." in text)
