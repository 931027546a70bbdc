"""GIVEN and BY: how a statement of SQL wants its posterior read."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.errors import InputError, SqlError
from qserver.query.asking.method_and_prior import Prior, Reading
from qserver.query.sql.parser import parse_statement
from qserver.records.answer import JobStatus
from qserver.service.statement_answers import AnsweredCell, StatementAnswer
from qserver.service.statements import Statements
from tests.deployment import PEOPLE, Deployment

COUNT = "SELECT COUNT(*) FROM people WHERE sex = 'Female' AND age = 22"
PROBABILITY = "SELECT PROBABILITY(COUNT(*) >= 3) FROM people WHERE sex = 'Female' AND age = 22"
BETWEEN = Prior("between", -5.0, 10.5)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


def cell_of(town: Deployment, text: str) -> AnsweredCell:
    """The one number that a statement asks for."""
    found = Statements(town.service()).run("people", text, wait_s=0)
    if isinstance(found, JobStatus):
        town.work_off()
        found = Statements(town.service()).run("people", text, wait_s=0)
    assert isinstance(found, StatementAnswer)
    [[cell]] = found.cells
    return cell


@pytest.mark.parametrize(
    ("clauses", "reading"),
    [
        ("", Reading()),
        ("GIVEN NON NEGATIVE", Reading(prior=Prior("non-negative"))),
        ("given known total", Reading(prior=Prior("known-total"))),
        ("GIVEN BETWEEN -5 AND 10.5", Reading(prior=BETWEEN)),
        ("BY CONVOLUTION", Reading("convolution")),
        ("BY CONVOLUTION STEP 0.5", Reading("convolution", step=0.5)),
        ("by monte carlo", Reading("monte-carlo")),
        ("BY ERROR 0.001", Reading(error=0.001)),
        ("BY MONTE CARLO DRAWS 20000", Reading("monte-carlo", draws=20_000)),
        (
            "GIVEN BETWEEN -5 AND 10.5 BY CONVOLUTION STEP 2",
            Reading("convolution", step=2.0, prior=BETWEEN),
        ),
        ("BY CONVOLUTION GIVEN BETWEEN -5 AND 10.5", Reading("convolution", prior=BETWEEN)),
    ],
)
def test_the_clauses_of_a_reading_are_read(clauses: str, reading: Reading) -> None:
    found = parse_statement(f"{COUNT} {clauses} WITHIN 20 CONFIDENCE 0.9", PEOPLE, dataset="people")
    assert found.clauses.reading == reading
    found = parse_statement(f"{PROBABILITY} {clauses}", PEOPLE, dataset="people")
    assert found.clauses.reading == reading


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("GIVEN NON", "say NEGATIVE after NON"),
        ("GIVEN BETWEEN 5", "say AND after 5"),
        ("GIVEN BETWEEN 5 AND", "give a number after AND"),
        ("GIVEN BETWEEN 5 AND 5", "let prior be `non-negative`"),
        ("GIVEN NON NEGATIVE GIVEN KNOWN TOTAL", "say GIVEN once"),
        ("BY CONVOLUTION BY MONTE CARLO", "say BY once"),
        ("BY MONTE", "say CARLO after MONTE"),
        ("BY CONVOLUTION STEP 0", "give a number > 0 after STEP"),
        ("BY ERROR 0.002 BY CONVOLUTION", "say BY once"),
        ("BY ERROR 0.5", "let error lie from 0.001 to 0.01"),
        ("BY MONTE CARLO DRAWS 5", "let draws be a whole number from 10,000"),
        ("BY MONTE CARLO DRAWS 20000.5", "give a whole number after DRAWS"),
        ("BY MONTE CARLO STEP 1", "end with WITHIN"),
        ("GIVEN NON NEGATIVE INDEPENDENT", "have neither AS LARGEST OF, INDEPENDENT"),
        ("GIVEN NON NEGATIVE AS LARGEST OF 4", "have neither AS LARGEST OF, INDEPENDENT"),
        ("GIVEN NON NEGATIVE CONSISTENT", "have neither AS LARGEST OF, INDEPENDENT"),
    ],
)
def test_a_clause_that_means_nothing_is_pointed_at(clauses: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_statement(f"{COUNT} WITHIN 20 {clauses}", PEOPLE, dataset="people")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20 GIVEN NON NEGATIVE",
        "SELECT COUNT(*), COUNT(age) FROM people WITHIN 20 BY CONVOLUTION",
        "SELECT AVG(age) FROM people WITHIN 2 ASSUMING 100 BY MONTE CARLO",
        "SELECT sex, PROBABILITY(COUNT(*) >= 3) FROM people GROUP BY sex GIVEN NON NEGATIVE",
    ],
)
def test_tables_and_quotients_have_no_reading(text: str) -> None:
    with pytest.raises(SqlError, match="ask for one count, sum or PROBABILITY"):
        parse_statement(text, PEOPLE, dataset="people")


def test_a_statement_is_answered_as_it_is_to_be_read(town: Deployment) -> None:
    cell = cell_of(town, f"{COUNT} WITHIN 200 GIVEN NON NEGATIVE")
    assert (cell.value.interval.low or 0.0) >= 0.0
    assert cell.statement is not None
    assert cell.statement.prior == Prior("non-negative", 0.0)
    plain = cell_of(town, f"{COUNT} WITHIN 200")
    assert plain.statement is not None
    assert plain.statement.prior is None
    drawn = cell_of(town, f"{COUNT} WITHIN 200 BY MONTE CARLO DRAWS 20000")
    assert drawn.statement is not None
    assert (drawn.statement.method, drawn.statement.draws) == ("monte-carlo", 20_000)
    with pytest.raises(InputError, match="number of records is not public"):
        cell_of(town, f"{COUNT} WITHIN 200 GIVEN KNOWN TOTAL")


def test_a_probability_is_read_under_a_prior(town: Deployment) -> None:
    cell_of(town, f"{COUNT} WITHIN 200")
    plain = cell_of(town, PROBABILITY)
    known = cell_of(town, f"{PROBABILITY} GIVEN BETWEEN 0 AND 4")
    assert known.statement is not None
    assert known.statement.prior == Prior("between", 0.0, 4.0)
    assert 0.1 < (known.value.estimate or 0.0) < 0.4
    lattice = cell_of(town, f"{PROBABILITY} BY CONVOLUTION")
    assert lattice.value.estimate == pytest.approx(plain.value.estimate, abs=4e-3)


def test_explain_shows_the_price_which_no_reading_changes(town: Deployment) -> None:
    plain = Statements(town.service()).run("people", f"EXPLAIN {COUNT} WITHIN 20", wait_s=0)
    read = Statements(town.service()).run(
        "people", f"EXPLAIN {COUNT} WITHIN 20 GIVEN NON NEGATIVE BY CONVOLUTION", wait_s=0
    )
    assert not isinstance(plain, JobStatus | StatementAnswer)
    assert not isinstance(read, JobStatus | StatementAnswer)
    assert read.price_nano == plain.price_nano > 0
