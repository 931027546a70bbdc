"""Statements as analysts type them who are used to other databases: which work, which are refused.

`analyst.json` has them, with the number of groups that are measured, or the reason of the refusal.
`analyst_later.json` has statements that were made up afterwards, by somebody who had not seen the
first, with those that were in it already left out. Of 89 in the manner of analysts 54 were answered
when they were first tried and 73 are now, of 34 in the manner of tools 24 and 30.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qserver.cli.local.demo import adult_domain
from qserver.errors import SqlError
from qserver.query.domain_loading import load_domain
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.tables.catalogue import catalogue_statement
from qserver.query.sql.tables.unconfirmed import stated
from tests.query.sql.at_most import at_most

STATEMENTS: list[dict[str, Any]] = [
    said
    for name in ("analyst", "analyst_later")
    for said in json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
]
ADULT = load_domain(adult_domain())
TABLES = [s for s in STATEMENTS if s["answer"] == "table"]
NAMES = [s for s in STATEMENTS if s["answer"] == "names"]
REFUSED = [s for s in STATEMENTS if s["answer"] == "refused"]


def test_most_of_what_analysts_type_is_answered() -> None:
    assert len(STATEMENTS) >= 50
    assert len(TABLES) + len(NAMES) + len(REFUSED) == len(STATEMENTS)
    assert len(TABLES) + len(NAMES) > 0.8 * len(STATEMENTS)


@pytest.mark.parametrize("said", TABLES, ids=lambda said: said["sql"])
def test_a_statement_asks_for_its_groups(said: dict[str, Any]) -> None:
    text = f"{said['sql']} WITHIN 200 ASSUMING AT LEAST 1000"
    statement = parse_statement(text, ADULT, dataset="adult")
    assert len(statement.rows) == said["groups"]
    # Where numbers have several units each needs a length of its own.
    assert at_most(stated(statement)).questions


@pytest.mark.parametrize("said", NAMES, ids=lambda said: said["sql"])
def test_a_statement_lists_public_names(said: dict[str, Any]) -> None:
    text = said["sql"]
    found = catalogue_statement(text, ADULT, dataset="adult")
    statement = found or parse_statement(text, ADULT, dataset="adult")
    assert (len(statement.rows), statement.columns) == (said["groups"], ())


@pytest.mark.parametrize("said", REFUSED, ids=lambda said: said["sql"])
def test_a_statement_is_refused_for_its_reason(said: dict[str, Any]) -> None:
    text = f"{said['sql']} WITHIN 200 ASSUMING AT LEAST 1000"
    with pytest.raises(SqlError) as caught:
        parse_statement(text, ADULT, dataset="adult")
    assert caught.value.condition == said["because"]
