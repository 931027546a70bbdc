"""docs/sql.md: its texts can be asked, and what it says is refused is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qserver.cli.local.demo import adult_domain
from qserver.errors import SqlError
from qserver.query.domain_file import domain_from_document
from qserver.query.domain_loading import load_domain
from qserver.query.sql.parser import MAX_CELLS, parse_statement
from qserver.query.sql.text import MAX_CHARACTERS
from qserver.query.sql.tokens import MAX_NESTING, MAX_TOKENS
from tests.query.sql.at_most import at_most

REFERENCE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
ADULT = load_domain(adult_domain())
WEEK = {"name": "week", "kind": "period", "every": "week", "first": "2024-W01", "count": 52}
VISITS = domain_from_document({"attributes": [WEEK]})
CLINIC = domain_from_document(
    {
        "attributes": [
            {"name": "smoker", "labels": ["no", "yes"], "codes": [False, True]},
            {"name": "stage", "labels": [1, 2, 3]},
            {
                "name": "district",
                "labels": ["York", "Kent"],
                "levels": {"region": {"North": ["York"], "South": ["Kent"]}},
            },
            {"name": "seen", "kind": "date", "every": "day", "first": "2024-01-01", "count": 366},
        ]
    }
)
DOMAINS = {"visits": VISITS, "clinic": CLINIC, "adult": ADULT}
TEXTS = re.findall(r"(?m)^```sql\n(.*?)\n```$", REFERENCE)
REFUSED = re.findall(r"(?m)^\| `(SELECT[^`]*)` \|", REFERENCE)


def test_the_reference_has_examples_of_both() -> None:
    assert len(TEXTS) >= 8
    assert len(REFUSED) >= 8


@pytest.mark.parametrize("text", TEXTS)
def test_every_example_can_be_asked(text: str) -> None:
    dataset = next((name for name in DOMAINS if f" {name} " in text), "adult")
    statement = parse_statement(text, DOMAINS[dataset], dataset=dataset)
    assert statement.bounds or at_most(statement).questions


@pytest.mark.parametrize("text", REFUSED)
def test_every_example_of_a_refusal_is_refused(text: str) -> None:
    with pytest.raises(SqlError):
        parse_statement(text, ADULT, dataset="adult")


def test_the_shown_refusal_is_the_one_that_comes() -> None:
    [(text, code, message, excerpt)] = re.findall(
        r'\$ qserver sql "(.*)"\n(\w+): (.*)\n(.*\n +\^+)\n```', REFERENCE
    )
    with pytest.raises(SqlError) as caught:
        parse_statement(text, ADULT, dataset="adult")
    assert (code, message, excerpt) == (
        caught.value.code,
        str(caught.value),
        caught.value.excerpt,
    )


def test_the_bounds_are_those_of_the_code() -> None:
    for bound in (MAX_CHARACTERS, MAX_TOKENS, MAX_NESTING, MAX_CELLS):
        assert f"{bound:,}" in REFERENCE


def test_the_readmes_statements_can_be_asked() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    texts = re.findall(r'(?:qserver sql |client\.sql\()"([^"]*)"', readme)
    assert len(texts) == 3
    for text in texts:
        statement = parse_statement(text, ADULT, dataset="adult")
        assert statement.bounds or at_most(statement).questions
