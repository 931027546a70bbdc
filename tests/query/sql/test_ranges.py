"""What is the same on all of a bin is read, and all else refused: by every whole number of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

from qserver.errors import SqlError
from qserver.query.domain import Attribute, Domain
from qserver.query.sql.attributes import Names
from qserver.query.sql.regions import Regions
from qserver.query.sql.text import SqlText
from qserver.query.sql.tokens import Words
from qserver.query.sql.values.ranges import compared_on_bins, is_of_bins, values_on_bins

Number = Callable[[Fraction], Fraction]
SIGNS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
}


def _away(x: Fraction) -> Fraction:
    return Fraction(math.floor(abs(x) + Fraction(1, 2)) * (-1 if x < 0 else 1))


def steps(c: int) -> list[tuple[str, Number]]:
    """An expression of `{}`, and what it is of a number."""
    n = c or 3
    return [
        (f"({{}} + {c})", lambda x: x + c),
        (f"({c} - {{}})", lambda x: c - x),
        (f"({{}} * {c})", lambda x: x * c),
        ("-({})", lambda x: -x),
        (f"FLOOR({{}} / {n})", lambda x: Fraction(math.floor(x / n))),
        (f"CEIL({{}} / {n})", lambda x: Fraction(math.ceil(x / n))),
        (f"TRUNC({{}} / {n})", lambda x: Fraction(math.trunc(x / n))),
        (f"({{}} // {n})", lambda x: Fraction(math.trunc(x / n))),
        (f"ROUND({{}} / {n}.0)", lambda x: _away(x / n)),
        (f"ROUND({{}} / {n}.0, 1)", lambda x: _away(x / n * 10) / 10),
        ("ROUND({}, -1)", lambda x: _away(x / 10) * 10),
        ("ABS({})", abs),
        (f"FLOOR({{}} * 2 / {n})", lambda x: Fraction(math.floor(x * 2 / n))),
    ]


@st.composite
def expressions(draw: st.DrawFn) -> tuple[str, Number]:
    text, made = "n", list[Number]()
    for _ in range(draw(st.integers(0, 3))):
        more, step = draw(st.sampled_from(steps(draw(st.integers(-4, 4)))))
        text = more.format(text)
        made.append(step)
    return text, lambda x: reduce(lambda at, step: step(at), made, x)


def domain_of(edges: list[int]) -> Domain:
    return Domain((Attribute("n", "integer", edges=tuple(map(Fraction, edges))),))


_edges = st.lists(st.integers(-12, 12), min_size=2, max_size=6, unique=True).map(sorted)


def _parsed(text: str, domain: Domain):
    return parse_one(text, read=Words), Names(domain, SqlText(text)), Regions(domain.sizes)


@given(expression=expressions(), edges=_edges)
def test_a_number_is_read_where_it_is_the_same_on_each_bin(
    expression: tuple[str, Number], edges: list[int]
) -> None:
    text, of = expression
    node, names, regions = _parsed(text, domain_of(edges))
    assert is_of_bins(node, names)
    values = [{of(Fraction(x)) for x in range(*ends)} for ends in pairwise(edges)]
    if any(len(one) > 1 for one in values):
        with pytest.raises(SqlError, match="on all of a bin of `n`"):
            values_on_bins(node, names, regions)
        return
    found = values_on_bins(node, names, regions)
    expected: dict[Fraction, int] = {}
    for i, (value,) in enumerate(values):
        expected[value] = expected.get(value, 0) | 1 << i
    everything = (1 << len(values)) - 1
    assert {
        found.places[text]: box.get(0, everything) for text, [box] in found.regions.items()
    } == expected


@given(
    expression=expressions(),
    edges=_edges,
    sign=st.sampled_from(list(SIGNS)),
    c=st.integers(-9, 9),
)
def test_a_comparison_is_read_where_it_is_the_same_on_each_bin(
    expression: tuple[str, Number], edges: list[int], sign: str, c: int
) -> None:
    text, of = expression
    node, names, regions = _parsed(f"{text} {sign} {c}", domain_of(edges))
    truths = [
        {SIGNS[sign](of(Fraction(x)), Fraction(c)) for x in range(*ends)}
        for ends in pairwise(edges)
    ]
    if any(len(one) > 1 for one in truths):
        with pytest.raises(SqlError, match=r"bin of `n`|`n` is stored in"):
            compared_on_bins(node, names, regions)
        return
    try:
        found = compared_on_bins(node, names, regions).regions
    except SqlError:
        # An equality that lies between the values of a bin, and is none of them.
        assert sign == "="
        return
    mask = sum(1 << i for i, truth in enumerate(truths) if truth == {True})
    everything = (1 << len(truths)) - 1
    assert sum(box.get(0, everything) for box in found.get("true", ())) == mask


@pytest.mark.parametrize(
    ("condition", "bins"),
    [
        ("x < 1.75", [0, 1]),
        ("x <= 1.75", None),
        ("x >= 1.75", [2]),
        ("x > 1.75", None),
        ("-x > -1.5", [0]),
        ("-x < -1.5", None),
        ("FLOOR(x * 4) = 6", [1]),
        ("CEIL(-x * 4) = -6", [1]),
        ("CEIL(x * 4) = 7", None),
        ("FLOOR(x / 0.25) BETWEEN 6 AND 7", [1, 2]),
        ("x = 2", []),
        ("x / 2 < 0.75", [0]),
        ("ABS(x - 1.5) < 0.5", [0, 1, 2]),
        ("WIDTH_BUCKET(x, 1.5, 2, 2) = 1", [1]),
    ],
)
def test_the_end_of_a_bin_of_numbers_is_not_in_it(condition: str, bins: list[int] | None) -> None:
    """[1.25, 1.5), [1.5, 1.75) and [1.75, 2)."""
    edges = tuple(map(Fraction, ("1.25", "1.5", "1.75", "2")))
    node, names, regions = _parsed(condition, Domain((Attribute("x", "real", edges=edges),)))
    if bins is None:
        with pytest.raises(SqlError, match=r"bin of `x`|`x` is stored in"):
            compared_on_bins(node, names, regions)
        return
    found = compared_on_bins(node, names, regions).regions.get("true", ())
    assert [i for i in range(3) if any(box.get(0, 7) >> i & 1 for box in found)] == bins


@given(one=_edges, other=_edges, c=st.integers(-6, 6), sign=st.sampled_from(list(SIGNS)))
def test_two_attributes_are_compared_on_each_pair_of_bins(
    one: list[int], other: list[int], c: int, sign: str
) -> None:
    attributes = tuple(
        Attribute(name, "integer", edges=tuple(map(Fraction, edges)))
        for name, edges in (("a", one), ("b", other))
    )
    node, names, regions = _parsed(f"2 * a - {c} {sign} b", Domain(attributes))
    truths = {
        (i, j): {
            SIGNS[sign](Fraction(2 * a - c), Fraction(b)) for a in range(*low) for b in range(*high)
        }
        for i, low in enumerate(pairwise(one))
        for j, high in enumerate(pairwise(other))
    }
    if any(len(truth) > 1 for truth in truths.values()):
        with pytest.raises(SqlError, match="cut through bins of `a` and `b`"):
            compared_on_bins(node, names, regions)
        return
    try:
        found = compared_on_bins(node, names, regions).regions.get("true", ())
    except SqlError:
        assert sign == "="
        return
    for (i, j), truth in truths.items():
        n_boxes = sum(box.get(0, -1) >> i & 1 and box.get(1, -1) >> j & 1 for box in found)
        assert n_boxes == (truth == {True})
