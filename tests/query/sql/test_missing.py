"""SQL leaves missing values out, and says so for one version where they were counted before."""

from __future__ import annotations

import pytest

from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Statement
from tests.query.sql.people import DOMAIN

UNRANKED = (
    "Groups of missing values are neither ranked nor chosen among others; COALESCE(a, 'none') "
    "names them, so that they are."
)


def remarks(text: str) -> tuple[str, ...]:
    return parse_statement(text, DOMAIN, dataset="people").remarks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n LIMIT 2", UNRANKED),
        ("SELECT region, RANK() OVER (ORDER BY COUNT(*)) FROM people GROUP BY region", UNRANKED),
        ("SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n", ""),
        ("SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY region LIMIT 4", ""),
        (
            "SELECT COALESCE(region, 'none') AS r, COUNT(*) AS n FROM people GROUP BY 1 "
            "ORDER BY n LIMIT 2",
            "",
        ),
        (
            "SELECT region, COUNT(*) AS n FROM people WHERE region IS NOT NULL GROUP BY region "
            "ORDER BY n LIMIT 2",
            "",
        ),
    ],
)
def test_a_group_of_missing_values_that_is_not_ranked_is_said(text: str, said: str) -> None:
    assert remarks(f"{text} WITHIN 9") == ((said,) if said else ())


ANY = {"name": "carrier", "labels": ["AA", "UA"], "outside": "other", "other": "another"}


@pytest.mark.parametrize("said", [{"missing": "other"}, {"missing_markers": ["?"]}])
def test_the_value_of_what_is_outside_is_null_only_where_the_domain_says_missing(
    said: dict[str, object],
) -> None:
    plain, null = (domain_from_document({"attributes": [ANY | one]}) for one in ({}, said))
    for domain, mask in ((plain, 0), (null, 1 << 2)):
        [attribute] = domain.attributes
        assert (attribute.missing, attribute.null) == ("other", mask)
        [again] = domain_from_document(domain_to_document(domain)).attributes
        assert again.null == mask

    def asked(text: str, domain: Domain) -> Statement:
        return parse_statement(f"SELECT {text} WITHIN 9", domain, dataset="flights")

    by_carrier = "carrier, COUNT(*) FROM flights GROUP BY carrier"
    assert [row.group for row in asked(by_carrier, plain).rows] == [("AA",), ("UA",), ("another",)]
    assert [row.group for row in asked(by_carrier, null).rows] == [("AA",), ("UA",), (None,)]
    for text, kept in (
        ("COUNT(*) FROM flights WHERE carrier <> 'AA'", (0, 1, 1)),
        ("COUNT(carrier) FROM flights", (1, 1, 1)),
        ("COUNT(*) FROM flights WHERE carrier IS NULL", (0, 0, 0)),
        ("COUNT(*) FROM flights WHERE carrier = 'another'", (0, 0, 1)),
    ):
        query = asked(text, plain).only_query
        assert tuple(query.value_at((i,)) for i in range(3)) == kept
    assert not asked("COUNT(*) FROM flights WHERE carrier <> 'AA'", plain).remarks
    assert asked("COUNT(*) FROM flights WHERE carrier IS NULL", plain).remarks == (
        "`carrier` has no NULL: what has no label is 'another'.",
    )
