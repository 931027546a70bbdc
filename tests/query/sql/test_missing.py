"""SQL says where it counts records with a missing value, which a database would leave out."""

from __future__ import annotations

import pytest

from qserver.query.sql.parser import parse_statement
from tests.query.sql.people import DOMAIN

SAID = (
    "Records without a value of `region` count, too: as `other`, which what is asked does not "
    "leave out."
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people WHERE region <> 'North' WITHIN 9",
        "SELECT COUNT(*) FROM people WHERE region NOT IN ('North', 'East') WITHIN 9",
        "SELECT COUNT(*) FROM people WHERE region NOT LIKE 'N%' WITHIN 9",
        "SELECT COUNT(*) FROM people WHERE NOT (region = 'North' AND age < 25) WITHIN 9",
        "SELECT COUNT(region) FROM people WITHIN 9",
        "SELECT age, COUNT(*) FROM people WHERE region <> 'North' GROUP BY age WITHIN 9",
        "SELECT AVG(age) FROM people WHERE region <> 'North' WITHIN 1 ASSUMING AT LEAST 9",
        "SELECT VARIANCE(age) FROM people WHERE region <> 'North' WITHIN 1 ASSUMING AT LEAST 9",
        "SELECT SUM(CASE WHEN region = 'North' THEN 1 ELSE 2 END) FROM people WITHIN 9",
    ],
)
def test_a_text_that_keeps_missing_values_says_so(text: str) -> None:
    assert parse_statement(text, DOMAIN, dataset="people").remarks == (SAID,)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people WITHIN 9",
        "SELECT COUNT(*) FROM people WHERE region = 'North' WITHIN 9",
        "SELECT COUNT(*) FROM people WHERE region = 'other' WITHIN 9",
        "SELECT region, COUNT(*) FROM people GROUP BY region WITHIN 9",
        "SELECT COUNT(age) FROM people WHERE income >= 10 WITHIN 9",
        "SELECT COUNT(*) FROM people WHERE \"sex-at-birth\" <> 'Female' WITHIN 9",
    ],
)
def test_a_text_that_keeps_none_says_nothing(text: str) -> None:
    assert parse_statement(text, DOMAIN, dataset="people").remarks == ()
