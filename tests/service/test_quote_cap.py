"""Statements in steps: never above their quote, and free once they were answered."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlencode

import pytest

from qserver.errors import BudgetExhaustedError
from qserver.query.domain import Domain
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Statement
from qserver.records.answer import JobStatus
from qserver.service.quote_notes import StatementNote, digest_of
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from qserver.storage.store import Store
from tests.deployment import PEOPLE, Deployment
from tests.postgres.client import connected
from tests.service.test_statements import answered, explained, remark_with, spent

SMALL = "WHERE age BETWEEN 20 AND 22 AND sex = 'Male'"
FUNCTIONS = (
    "SELECT sex, AVG(age) FROM people GROUP BY sex WITHIN 1",
    f"SELECT AVG(age) FROM people {SMALL} WITHIN 1",
    "SELECT age, COUNT_IF(sex = 'Male') / COUNT(*) AS s FROM people GROUP BY age "
    "ORDER BY s DESC LIMIT 2 WITHIN 0.1",
    "SELECT SUM(2 * age - 7) / SUM(age) FROM people WITHIN 0.05 ASSUMING AT LEAST 400",
    "SELECT sex, MEDIAN(age), AVG(age) FROM people GROUP BY sex WITHIN 1 ASSUMING AT LEAST 150",
    "SELECT QUANTILE(age, 0.9) FROM people WITHIN 1",
    "SELECT MIN(age), MAX(age) FROM people WITHIN 20",
    "SELECT STDDEV(age), VARIANCE(age) WITHIN 1 FROM people WITHIN 1 ASSUMING AT LEAST 400",
    "SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () FROM people GROUP BY sex WITHIN 0.05",
    "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 5 PERCENT ASSUMING AT LEAST 100",
    "SELECT sex, AVG(age) AS a FROM people GROUP BY sex HAVING a > 21 WITHIN 1 SIMULTANEOUS",
    "SELECT COUNT(*) FROM (SELECT age FROM people GROUP BY age HAVING COUNT(*) > 40) WITHIN 2",
    "SELECT AVG(age) AS a, AVG(age) WITHIN 0.5 AS b, AVG(age) AS c FROM people WITHIN 1",
    "SELECT COUNT(DISTINCT age) FROM people WITHIN 20",
)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


@pytest.mark.slow
@pytest.mark.parametrize("text", FUNCTIONS)
def test_a_statement_never_passes_its_quote_and_is_free_once_it_was_answered(
    town: Deployment, text: str
) -> None:
    """Each request has a process of its own, and other questions come between."""
    quote = explained(town, text)
    answered(town, text)
    assert 0 < spent(town) <= quote.price_nano
    sums = "SELECT sex, age, COUNT(*), SUM(age) WITHIN 25 FROM people GROUP BY sex, age WITHIN 25"
    answered(town, sums)
    before = spent(town)
    answered(town, text)
    assert spent(town) == before
    price = explained(town, text)
    assert (price.price_nano, price.kind, price.is_most) == (0, "free", False)


def test_the_same_number_more_than_once_is_quoted_once_as_exactly_as_any_is_asked(
    town: Deployment,
) -> None:
    alone = explained(town, "SELECT AVG(age) FROM people WITHIN 0.5")
    thrice = "SELECT AVG(age) AS a, AVG(age) WITHIN 0.5 AS b, AVG(age) AS c FROM people WITHIN 1"
    assert explained(town, thrice).price_nano == alone.price_nano > 0


@pytest.mark.slow
def test_a_small_group_is_told_in_one_sentence_and_costs_nothing_again(town: Deployment) -> None:
    text = f"SELECT AVG(age) FROM people {SMALL} WITHIN 0.1"
    found = answered(town, text)
    [cell] = found.cells[0]
    assert cell.value.interval.low is not None
    assert cell.value.interval.high is not None
    half = (cell.value.interval.high - cell.value.interval.low) / 2
    remark = remark_with(found, "Too few records")
    assert remark.startswith("Too few records, surely under 1,000 (ASSUMING AT LEAST)")
    assert f"up to ±{half:.4g} in place of ±0.1" in remark
    before = spent(town)
    again = answered(town, text)
    assert again.cells == found.cells
    assert again.asked.statement.remarks == found.asked.statement.remarks
    assert spent(town) == before


def test_a_quantile_of_one_wide_bin_is_told_and_measured_no_further(
    tmp_path: Path, store_url: str
) -> None:
    age, sex = PEOPLE.attributes
    wide = Domain((replace(age, edges=tuple(map(Fraction, (10, 28, 31)))), sex))
    town = Deployment.make(tmp_path, store_url, limit="1000", domain=wide)
    text = "SELECT MEDIAN(age) FROM people WITHIN 2 ASSUMING AT LEAST 400"
    found = answered(town, text)
    [cell] = found.cells[0]
    assert (cell.value.interval.low, cell.value.interval.high) == (10, 27)
    assert remark_with(found, "values of a bin") == (
        "The interval is longer than asked, up to ±8.5 in place of ±2: the values of a bin are not "
        "told apart."
    )
    before = spent(town)
    # Nothing makes it shorter.
    answered(town, text.replace("WITHIN 2", "WITHIN 1"))
    assert spent(town) == before


@pytest.mark.slow
def test_every_face_says_what_is_longer_and_asks_nothing_more(town: Deployment) -> None:
    """HTTP, the web pages and the PostgreSQL port, each in a process of its own."""
    text = f"SELECT AVG(age) FROM people {SMALL} WITHIN 0.1"
    remark = remark_with(answered(town, text), "Too few records")
    before, web = spent(town), town.web()
    reply = web.post("/v1/datasets/people/sql", json={"sql": text, "spend": False})
    assert reply.status_code == 200
    assert remark in reply.json["table"]["remarks"]
    assert reply.json["table"]["epsilon_charged"] == 0
    form = urlencode({"text": text, "length": "100", "confidence": "95"})
    page = web.get(f"/portal/datasets/people/answer?{form}").get_data(as_text=True)
    assert remark[:50] in page
    with connected(town.service()) as client:
        client.start()
        assert remark.encode() in b" ".join(client.query(text).of(b"N"))
    assert spent(town) == before


@pytest.mark.slow
def test_what_is_left_of_a_quote_bounds_the_steps_of_later_requests(
    town: Deployment,
) -> None:
    """Where next to nothing is left the rest is not bought, and its price is told."""
    text = "SELECT AVG(age) FROM people WITHIN 0.1 ASSUMING AT LEAST 400"
    quote = explained(town, text).price_nano
    found = Statements(town.service()).run("people", text, wait_s=0)
    assert isinstance(found, JobStatus)
    town.work_off()
    service = town.service()
    steps = Statements(service).asked("people", parsed(service, text))
    note = service.notes.of("people", digest_of(steps))
    assert note == StatementNote(quote - spent(town))
    service.notes.keep("people", digest_of(steps), StatementNote(1))
    before = spent(town)
    capped = answered(town, text)
    assert spent(town) == before
    remark_with(capped, "The quoted price is spent, and the rest would cost")
    assert explained(town, text).price_nano == 0


@pytest.mark.slow
@pytest.mark.parametrize("text", FUNCTIONS[::3])
def test_a_statement_that_is_waited_for_never_passes_its_quote(town: Deployment, text: str) -> None:
    """Steps are then held to what is left by a bound of their price, and count what they cost."""
    quote = explained(town, text)
    service = waiting(town)
    found = Statements(service).run("people", text, wait_s=600)
    assert isinstance(found, StatementAnswer)
    assert 0 < found.charged_nano == spent(town) <= quote.price_nano
    before = spent(town)
    again = Statements(service).run("people", text, wait_s=600)
    assert isinstance(again, StatementAnswer)
    assert (again.charged_nano, spent(town)) == (0, before)


def test_a_bound_of_a_price_is_no_less_and_is_told_only_where_it_is_enough(
    town: Deployment,
) -> None:
    town.ask({"sex": "Female"})
    service = town.service()
    workload = town.workload([{"age": {"between": [20, 20 + i]}} for i in range(1, 6)], length=60)
    exact = service.price("people", workload)
    bound = service.price("people", workload, enough_nano=10**12)
    assert bound.is_payable
    assert exact.nano < bound.nano
    assert service.price("people", workload, enough_nano=bound.nano) == bound
    assert service.price("people", workload, enough_nano=bound.nano - 1) == exact


def waiting(town: Deployment) -> Service:
    """A service whose jobs are worked off when it waits for the first time."""

    def sleep(_seconds: float) -> None:
        town.work_off()

    return Service(Store.open(town.settings), town.settings, short_s=60.0, sleep=sleep)


@pytest.mark.slow
def test_a_purchase_at_once_is_all_that_was_quoted(town: Deployment) -> None:
    """Its average is known; what the count beside it tells may not open the steps again."""
    answered(town, "SELECT AVG(age) FROM people WITHIN 0.5 ASSUMING AT LEAST 400")
    text = "SELECT AVG(age), COUNT(*) WITHIN 5 FROM people WITHIN 0.5 ASSUMING AT LEAST 400"
    before, quote = spent(town), explained(town, text)
    assert not quote.is_most
    assert isinstance(Statements(town.service()).run("people", text, wait_s=0), JobStatus)
    town.work_off()
    answered(town, text)
    assert spent(town) - before == quote.price_nano


def test_a_note_that_was_damaged_is_as_none(town: Deployment) -> None:
    service = town.service()
    service.notes.keep("people", "digest", StatementNote(5, (1.5, 2.0)))
    assert service.notes.of("people", "digest") == StatementNote(5, (1.5, 2.0))
    store, meta = service._store, town.meta
    for text in ("[5, []]\n0123", "[5]", "x", "[1, 2, 3]", '{"left": 1}'):
        store.keep_note(meta, "digest", text)
        assert service.notes.of("people", "digest") is None
    assert service.notes.of("people", "another") is None


def parsed(service: Service, text: str) -> Statement:
    return parse_statement(text, service.domain("people"), dataset="people")


@pytest.mark.slow
def test_a_statement_that_could_not_be_paid_is_quoted_as_before(
    tmp_path: Path, store_url: str
) -> None:
    """It had been noted as asked, so that its quote was 0 from then on."""
    town = Deployment.make(tmp_path, store_url, limit="0.01")
    text = "SELECT AVG(age) FROM people WITHIN 0.1 ASSUMING AT LEAST 100"
    before = explained(town, text)
    assert before.price_nano > before.remaining_nano
    with pytest.raises(BudgetExhaustedError):
        answered(town, text)
    after = explained(town, text)
    assert (after.price_nano, after.affordable) == (before.price_nano, False)


@pytest.mark.slow
def test_what_public_bounds_tell_is_not_measured_more_exactly_than_its_neighbours(
    town: Deployment,
) -> None:
    """A share within 40 asks nothing: its sums are asked like the counts beside it."""
    of = "COUNT_IF(age < 21) / COUNT(*) WITHIN 40"
    share = f"SELECT sex, COUNT_IF(age < 21), COUNT(*), {of} FROM people"
    counts = "SELECT sex, COUNT_IF(age < 21), COUNT(*) FROM people"
    end = "GROUP BY sex ASSUMING AT LEAST 1 WITHIN 40"
    found, plain = explained(town, f"{share} {end}"), explained(town, f"{counts} {end}")
    assert not found.is_most
    assert found.price_nano <= 2 * plain.price_nano
    assert all(cell is not None for row in answered(town, f"{share} {end}").cells for cell in row)
    assert explained(town, f"{share} {end}").price_nano == 0
