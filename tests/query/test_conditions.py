"""Structured questions: meaning held to brute force over raw values, and refusals by place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.cli.local.demo import adult_domain
from qserver.errors import CapacityError, QueryError
from qserver.query.asking.structured_question import condition_weights, parse_query
from qserver.query.domain import Attribute, Domain
from qserver.query.domain_loading import load_domain
from qserver.query.linear_query import MAX_TERMS, LinearQuery, total_query
from qserver.query.primitive import primitive
from tests.query.small_queries import Cell, cells
from tests.sweeps import examples

SEX = Attribute(name="sex", kind="labels", labels=("F", "M"), missing="other", other="unknown")
AGE = Attribute(name="age", kind="integer", edges=tuple(map(Fraction, (0, 1, 2, 5, 9))))
PAY = Attribute(name="pay", kind="real", edges=(Fraction(0), Fraction(1, 3), Fraction(5, 2)))
DOMAIN = Domain((SEX, AGE, PAY))

half_steps = st.integers(-4, 24).map(lambda n: Fraction(n, 2))
ranges = st.one_of(
    st.tuples(half_steps, half_steps).map(lambda ends: {"between": sorted(ends)}),
    half_steps.map(lambda v: {"at_least": v}),
    half_steps.map(lambda v: {"below": v}),
)


def vector(query: LinearQuery) -> dict[Cell, Fraction]:
    return {cell: query.value_at(cell) for cell in cells(query.sizes)}


def asked(document: object, domain: Domain = DOMAIN) -> dict[Cell, Fraction]:
    return vector(parse_query(document, domain))


def dense(condition: object, attribute: Attribute) -> list[Fraction]:
    scaled = condition_weights(condition, attribute, name="c")
    return [scaled.factor * int(w) for w in scaled.weights.dense]


def matches(condition: dict[str, Any], kind: str) -> Callable[[Fraction], bool]:
    """Whether a raw value meets a range, by definition."""
    ((operator, operand),) = condition.items()
    if operator == "at_least":
        return lambda v: v >= operand
    if operator == "below":
        return lambda v: v < operand
    low, high = operand
    return lambda v: low <= v <= high if kind == "integer" else low <= v < high


def raw_values(attribute: Attribute) -> list[list[Fraction]]:
    """Raw values of each bin: all whole numbers, or quarters, which split all half steps."""
    step = Fraction(1) if attribute.kind == "integer" else Fraction(1, 4)
    pairs = zip(attribute.edges, attribute.edges[1:], strict=False)
    return [[low + i * step for i in range(int((high - low) / step))] for low, high in pairs]


@st.composite
def binned(draw: st.DrawFn) -> Attribute:
    kind: Literal["integer", "real"] = draw(st.sampled_from(["integer", "real"]))
    step = 1 if kind == "integer" else Fraction(1, 2)
    marks = draw(st.lists(st.integers(-2, 10), min_size=2, max_size=7, unique=True))
    return Attribute(
        name="a",
        kind=kind,
        edges=tuple(Fraction(m * step) for m in sorted(marks)),
        missing=draw(st.sampled_from(["drop", "other"])),
    )


@settings(max_examples=examples(300))
@given(binned(), ranges)
def test_range_is_the_bins_whose_values_all_match_or_is_refused(
    attribute: Attribute, condition: dict[str, Any]
) -> None:
    """Refused exactly when it cuts a bin; the two that are offered are the nearest and work."""
    match = matches(condition, attribute.kind)
    bins = [[match(v) for v in values] for values in raw_values(attribute)]
    whole, touched = [all(b) for b in bins], [any(b) for b in bins]
    other = [0] * attribute.has_other
    if whole == touched:
        assert dense(condition, attribute) == whole + other
        return
    with pytest.raises(QueryError, match=r"^`c\.\w+`: `a` is stored in") as caught:
        condition_weights(condition, attribute, name="c")
    offers = [json.loads(text) for text in re.findall(r"\{.*?\}", caught.value.hint)]
    found = [dense(offer, attribute) for offer in offers]
    assert found == [touched + other] + [whole + other] * any(whole)


@given(binned(), ranges)
def test_not_is_the_complement_and_takes_in_other(
    attribute: Attribute, condition: dict[str, Any]
) -> None:
    try:
        plain = dense(condition, attribute)
    except QueryError:
        with pytest.raises(QueryError, match=r"^`c\.not\."):
            dense({"not": condition}, attribute)
    else:
        assert dense({"not": condition}, attribute) == [1 - w for w in plain]
        assert dense({"not": {"not": condition}}, attribute) == plain


def test_offers_with_ends_that_are_no_decimals_can_be_sent_back() -> None:
    with pytest.raises(QueryError) as caught:
        condition_weights({"at_least": Fraction(1, 4)}, PAY, name="c")
    offers = [json.loads(text) for text in re.findall(r"\{.*?\}", caught.value.hint)]
    assert [dense(o, PAY) for o in offers] == [[1, 1], [0, 1]]


@given(binned(), half_steps)
def test_single_number_is_its_bin_only_where_the_bin_holds_nothing_else(
    attribute: Attribute, value: Fraction
) -> None:
    holds = [values == [value] for values in raw_values(attribute)]
    if attribute.kind == "integer" and any(holds):
        assert dense(value, attribute) == holds + [0] * attribute.has_other
    else:
        with pytest.raises(QueryError, match=r"^`c`( must|:) "):
            condition_weights(value, attribute, name="c")


@pytest.mark.parametrize(
    ("condition", "attribute", "expected"),
    [
        ("F", SEX, [1, 0, 0]),
        ("unknown", SEX, [0, 0, 1]),
        (["M", "F", "M"], SEX, [1, 1, 0]),
        (("M",), SEX, [0, 1, 0]),
        ([], SEX, [0, 0, 0]),
        ({"not": "F"}, SEX, [0, 1, 1]),
        ({"not": []}, SEX, [1, 1, 1]),
        ({"weights": {"M": 2, "unknown": "1/3"}}, SEX, [0, 2, Fraction(1, 3)]),
        ({"weights": {}}, SEX, [0, 0, 0]),
        ({"not": {"weights": {"M": 1}}}, SEX, [1, 0, 1]),
        (0, AGE, [1, 0, 0, 0]),
        ("1", AGE, [0, 1, 0, 0]),
        (1.0, AGE, [0, 1, 0, 0]),
        (Decimal("1.0"), AGE, [0, 1, 0, 0]),
        ("2..4", AGE, [0, 0, 1, 0]),
        ([0, "5..8"], AGE, [1, 0, 0, 1]),
        ({"between": [1, 4]}, AGE, [0, 1, 1, 0]),
        ({"between": ["0.5", 4.5]}, AGE, [0, 1, 1, 0]),
        ({"at_least": 100}, AGE, [0, 0, 0, 0]),
        ({"below": 100}, AGE, [1, 1, 1, 1]),
        ({"weights": {"0": -1, "2..4": 0.5}}, AGE, [-1, 0, Fraction(1, 2), 0]),
        ("[0, 1/3)", PAY, [1, 0]),
        ({"below": "1/3"}, PAY, [1, 0]),
        ({"between": [0, 0]}, PAY, [0, 0]),
    ],
    ids=str,
)
def test_condition_means_these_weights(
    condition: object, attribute: Attribute, expected: list[Fraction]
) -> None:
    assert dense(condition, attribute) == expected


def test_where_is_the_product_of_its_conditions() -> None:
    found = asked({"where": {"sex": "F", "age": {"weights": {"0": 2, "1": -3}}}})
    expected = {c: (c[0] == 0) * {0: 2, 1: -3}.get(c[1], 0) for c in cells(DOMAIN.sizes)}
    assert found == expected


def test_no_condition_is_all_records() -> None:
    total = total_query(DOMAIN.sizes)
    assert parse_query({"where": {}}, DOMAIN) == total
    assert parse_query({"terms": [{}]}, DOMAIN) == total
    assert parse_query({"any": [{}, {"sex": "F"}]}, DOMAIN) == total


def test_terms_add_up_with_their_coefficients() -> None:
    document = {
        "terms": [
            {"coefficient": 2, "where": {"sex": "F"}},
            {"coefficient": "-1/2", "where": {"age": {"below": 2}}},
            {"where": {"sex": "M"}},
        ]
    }
    expected = {
        c: 2 * (c[0] == 0) - Fraction(1, 2) * (c[1] < 2) + (c[0] == 1) for c in cells(DOMAIN.sizes)
    }
    assert asked(document) == expected


powers = st.tuples(st.integers(-9, 12), st.integers(-9, 12), st.sampled_from(["0", "1"]))


@given(st.lists(powers, min_size=1, max_size=4))
def test_weights_within_the_limit_are_taken_and_others_refused(
    items: list[tuple[int, int, str]],
) -> None:
    """Terms of one cell each, so that every weight is a power of ten; one cell may have several."""
    terms = [
        {"coefficient": f"1e{a}", "where": {"age": {"weights": {place: f"1e{b}"}}}}
        for a, b, place in items
    ]
    sums: dict[str, Fraction] = {}
    for a, b, place in items:
        sums[place] = sums.get(place, Fraction(0)) + Fraction(10) ** (a + b)
    if max(sums.values()) <= 10**30 * min(sums.values()):
        assert not parse_query({"terms": terms}, DOMAIN).is_zero
        return
    with pytest.raises(QueryError, match=r"query\.terms\.weights.*10\^30 of one another"):
        parse_query({"terms": terms}, DOMAIN)


def test_weights_of_several_attributes_multiply() -> None:
    large: dict[str, Any] = {"weights": {"0": 10**12, "1": 1}}
    where = {"age": large, "sex": {"weights": {"F": 10**12, "M": 1}}, "pay": {"below": "1/3"}}
    assert not parse_query({"where": where}, DOMAIN).is_zero
    with pytest.raises(QueryError, match=r"query\.terms\.weights.*at most 10\^30"):
        parse_query({"terms": [{"coefficient": 10**7, "where": where}]}, DOMAIN)
    terms = [{"where": where}, {"coefficient": "1e-9"}]
    with pytest.raises(QueryError, match="one another"):
        parse_query({"terms": terms}, DOMAIN)


boxes = st.fixed_dictionaries(
    {},
    optional={
        "sex": st.lists(st.sampled_from(["F", "M", "unknown"]), max_size=3),
        "age": st.lists(st.sampled_from(["0", "1", "2..4", "5..8"]), max_size=4),
        "pay": st.sampled_from([{"below": "1/3"}, {"not": {"below": "1/3"}}, {"at_least": 9}]),
    },
)


@given(st.lists(boxes, min_size=1, max_size=5))
def test_any_counts_a_record_once_however_many_items_match(items: list[dict[str, Any]]) -> None:
    """The expected weight is the greatest of the items' own weights."""
    alone = [asked({"where": item}) for item in items]
    assert asked({"any": items}) == {c: max(v[c] for v in alone) for c in cells(DOMAIN.sizes)}


@pytest.mark.slow
def test_any_over_a_large_attribute_is_the_interval_itself() -> None:
    size = 1 << 20
    wide = Domain((Attribute(name="a", kind="integer", edges=tuple(range(size + 1))),))  # type: ignore[arg-type]
    items = [{"a": {"between": [5, 300_000]}}, {"a": {"between": [200_000, 700_000]}}]
    whole = parse_query({"where": {"a": {"between": [5, 700_000]}}}, wide)
    assert primitive(parse_query({"any": items}, wide)).key == primitive(whole).key
    many = {"terms": [{"where": {"a": {"at_least": i}}} for i in range(1, MAX_TERMS + 1)]}
    assert parse_query(many, wide).n_runs == 2 * MAX_TERMS
    with pytest.raises(CapacityError, match="Ask its parts"):
        parse_query({"any": [{"a": {"at_least": i}} for i in range(1, 300)]}, wide)


def test_a_value_outside_of_the_bins_is_shown_as_it_was_typed() -> None:
    domain = load_domain(adult_domain())
    with pytest.raises(QueryError, match=r"got '34\.5'"):
        parse_query({"where": {"age": 34.5}}, domain)
    with pytest.raises(QueryError, match="`capital-gain` is stored in"):
        parse_query({"where": {"capital-gain": {"between": [2500, 8000]}}}, domain)
