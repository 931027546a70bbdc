"""Whatever is sent as SQL is answered or refused, never anything else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import CapacityError, SqlError
from qserver.query.domain import Attribute, Domain
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.regions import MAX_STEPS, Regions
from tests.query.sql.people import read
from tests.sweeps import examples

ALPHABET = (
    "SELECT COUNT ( * ) ( ) , FROM people WHERE age region 'North' < <= = <> >= > 22 1.5 AND OR "
    "NOT IN BETWEEN CASE WHEN THEN ELSE END SUM AVG FILTER GROUP BY WITHIN PERCENT OF CONFIDENCE "
    "HAVING ORDER LIMIT OFFSET FETCH FIRST ROWS ONLY ASC DESC NULLS LAST ILIKE FLOOR CEIL ROUND "
    "CAST WIDTH_BUCKET COALESCE INTEGER IF 1 2 public region, "
    'SIMULTANEOUS ASSUMING EXPLAIN + - / . ; NULL TRUE IS AS n "age" "people" DISTINCT LIKE :: [ ] '
    "{ } ? @ $1 -- /* */ ' \" ` \\ \n % ^ | & ~ # ! \x00 \ud800 é 漢"
)
WORDS = ALPHABET.split(" ")
SIDE = 40
WIDE = Domain(
    tuple(Attribute(f"a{i}", "labels", tuple(f"v{j}" for j in range(SIDE))) for i in range(12))
)


def answered(text: str) -> bool:
    """Whether a text is a statement; a refusal must point into it."""
    error = refusal(text)
    if isinstance(error, SqlError):
        line, carets = error.excerpt.split("\n")
        assert error.line <= text.count("\n") + 1
        assert set(carets) <= {" ", "^"}
        assert len(line) < 300
    return error is None


def refusal(text: str) -> SqlError | CapacityError | None:
    """Why a text is refused, if it is."""
    try:
        read(text)
    except (SqlError, CapacityError) as error:
        return error
    return None


@settings(max_examples=examples(150))
@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_any_words_are_answered_or_refused(text: str) -> None:
    answered(text)


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
)
def test_any_words_within_a_statement_are_answered_or_refused(one: str, other: str) -> None:
    answered(f"SELECT COUNT(*) {one} FROM people WHERE age > 22 {other} WITHIN 5")


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
)
def test_any_words_that_shape_a_table_are_answered_or_refused(
    one: str, other: str, third: str
) -> None:
    answered(
        f"SELECT age AS a, COUNT(*) AS n FROM people GROUP BY a {one} HAVING n > 1 {other} "
        f"ORDER BY n {third} LIMIT 2"
    )


@settings(max_examples=examples(100))
@given(st.text(max_size=60))
def test_any_text_is_refused(text: str) -> None:
    assert not answered(text)


def clash(n: int, joined_by: str, within: str) -> str:
    """Pairs of conditions, each on two attributes of its own or on all in turn."""
    pairs = (
        f"(a{2 * i % 12} = 'v{i % SIDE}' {within} a{(2 * i + 1) % 12} <> 'v{(3 * i) % SIDE}')"
        for i in range(n)
    )
    return f" {joined_by} ".join(pairs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        f"({clash(60, 'AND', 'OR')}) OR ({clash(60, 'OR', 'AND')})",
        f"({clash(400, 'OR', 'AND')}) AND NOT ({clash(300, 'OR', 'AND')})",
    ],
)
def test_conditions_that_need_too_many_steps_are_refused(condition: str) -> None:
    text = f"SELECT {', '.join([f'COUNT_IF({condition})'] * 2)} FROM wide"
    with pytest.raises(CapacityError):
        parse_statement(text, WIDE, dataset="wide")


def test_a_union_over_many_attributes_is_everything_less_one_box() -> None:
    text = " OR ".join(f"a{i} = 'v1'" for i in range(12))
    statement = parse_statement(f"SELECT COUNT(*) FROM wide WHERE {text}", WIDE, dataset="wide")
    query = statement.only_query
    assert len(query.terms) == 2
    assert [query.value_at((i, *[0] * 11)) for i in range(3)] == [0, 1, 0]


def test_the_steps_of_one_text_are_counted_together() -> None:
    regions = Regions(WIDE.sizes, steps_left=MAX_STEPS)
    region = regions.either([regions.of_mask(i, 1) for i in range(12)])
    before = regions.steps_left
    regions.both(region, region)
    assert before - regions.steps_left >= len(region) ** 2
    with pytest.raises(CapacityError):
        Regions(WIDE.sizes, steps_left=3).both(region, region)
