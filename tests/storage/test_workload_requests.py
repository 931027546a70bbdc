"""What a workload may be, and how it is written down."""

from __future__ import annotations

import json
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction

import pytest

from qserver.api.bodies.requests import WorkloadRequest
from qserver.errors import CapacityError, InputError, RequirementError
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.question import MAX_QUESTIONS, MAX_TERMS, Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import Standing
from qserver.records.codec import plain
from qserver.records.history import Estimator
from qserver.records.plan import PlannedRow
from qserver.records.statement import Simultaneous
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.queue import Outcome

BEFORE = Standing.alone(limit_nano=100, spent_nano=0)
AFTER = Standing.alone(limit_nano=100, spent_nano=10)
TOTAL = total_query((4,))
FIRST = linear_query((4,), [(1, {0: interval(4, 0, 1)})])
ASKED = Requirement(10.0, 0.95)
TWO = Workload((Question(TOTAL, ASKED), Question(FIRST, Requirement(3.0, 0.95))), simultaneous=True)


def test_a_workload_has_one_to_a_thousand_questions() -> None:
    one = Question(TOTAL, ASKED)
    assert len(Workload((one,) * MAX_QUESTIONS).questions) == MAX_QUESTIONS
    with pytest.raises(RequirementError, match="`questions` must hold at least one"):
        Workload(())
    with pytest.raises(CapacityError, match="at most 1,000 questions, got 1,001"):
        Workload((one,) * (MAX_QUESTIONS + 1))


def test_too_many_questions_are_refused_before_any_is_parsed() -> None:
    def parse(_: object) -> LinearQuery:
        raise AssertionError("parsed")

    items = [{"query": {"where": {}}}] * (MAX_QUESTIONS + 1)
    request = WorkloadRequest.read({"questions": items, "length": 1, "confidence": Decimal("0.5")})
    with pytest.raises(CapacityError, match="1,001"):
        request.workload(parse)


def test_the_terms_of_all_questions_are_counted_before_more_are_read() -> None:
    terms = [(1, {0: interval(99, i, i + 1), 1: interval(99, i, i + 1)}) for i in range(50)]
    many, n_read = Question(linear_query((99, 99), terms), ASKED), 0

    def parse(_document: object) -> LinearQuery:
        nonlocal n_read
        n_read += 1
        return many.query

    fit = MAX_TERMS // 50
    assert len(many.query.terms) == 50
    assert len(Workload((many,) * fit).questions) == fit
    with pytest.raises(CapacityError, match="at most 10,000 terms in all"):
        Workload((many,) * (fit + 1))
    items = [{"query": {"where": {}}}] * MAX_QUESTIONS
    request = WorkloadRequest.read({"questions": items, "length": 1, "confidence": Decimal("0.5")})
    with pytest.raises(CapacityError, match="at most 10,000 terms in all"):
        request.workload(parse)
    assert n_read == fit + 1


def test_a_request_survives_its_json_as_a_question_or_a_workload() -> None:
    for asked in (Question(FIRST, ASKED), TWO, Workload(TWO.questions[:1])):
        request = Request("people", "s1", asked, "ann")
        assert Request.from_json(request.to_json()) == request


def test_a_single_question_is_written_as_it_always_was() -> None:
    """So that jobs and reservations of earlier versions are read, and the other way round."""
    asked = Request("people", "s1", Question(FIRST, ASKED), "ann")
    plain = json.loads(asked.to_json())
    assert set(plain) == {"dataset", "snapshot", "sizes", "terms", "length", "confidence", "by"}
    row = PlannedRow(TOTAL, "k", 5, Fraction(1, 4))
    single = Reservation("j", asked, (row,), BEFORE, AFTER, 0, ((0, 1.0),), tables_give_rest=True)
    written = json.loads(single.to_json())
    assert not {"estimators", "simultaneous", "n_measurements"} & set(written)
    assert Reservation.from_json(json.dumps(written)) == single


def test_what_servers_without_workloads_or_accounts_wrote_is_read() -> None:
    old = {
        "dataset": "people",
        "snapshot": "s1",
        "sizes": [4],
        "terms": FIRST.to_document(),
        "length": ASKED.length,
        "confidence": ASKED.confidence,
    }
    asked = Request.from_json(json.dumps(old))
    assert asked == Request("people", "s1", Question(FIRST, ASKED))
    plan = {
        "job": "j",
        "request": json.dumps(old),
        "rows": [plain(PlannedRow(FIRST, "f", 9, Fraction(1, 4)))],
        "before": asdict(BEFORE),
        "after": asdict(AFTER),
        "n_history": 3,
    }
    found = Reservation.from_json(json.dumps(plan))
    assert (found.request, found.price_nano, found.estimators) == (asked, 10, ())


def test_an_ending_keeps_all_weights_and_that_of_an_earlier_server_its_one() -> None:
    kept = (Estimator("f", ((1, 0.1 + 0.2),)), Estimator("g", (), 0.0, 3))
    ending = Outcome("done", "{}", "s1", n_show=1, keep_s=0, estimators=kept)
    assert Outcome.from_json(ending.to_json()) == ending
    plain = json.loads(ending.to_json())
    written = plain.pop("estimators")
    for text, expected in ((written[0], kept[:1]), ("", ())):
        old = Outcome.from_json(json.dumps({**plain, "estimator": text}))
        assert old.estimators == expected


def test_a_reservation_of_a_workload_survives_its_json() -> None:
    refined = PlannedRow(FIRST, "f", 9, Fraction(1, 4), 1, 4)
    new = PlannedRow(TOTAL, "k", 5, Fraction(1, 4))
    reserved = Reservation(
        "j",
        Request("people", "s1", TWO),
        (refined, new),
        BEFORE,
        AFTER,
        3,
        estimators=(None, Estimator("f", ((1, 0.1 + 0.2),), 1e-17, None)),
        simultaneous=Simultaneous(0.9503, "sampled"),
        n_measurements=2,
    )
    back = Reservation.from_json(reserved.to_json())
    assert back == reserved
    assert back.sources == {1: "refined", 2: "measured"}


def test_the_questions_of_a_request_are_on_one_domain() -> None:
    other = Question(total_query((5,)), ASKED)
    with pytest.raises(InputError, match="`questions` must be on one domain"):
        Request("people", "s1", Workload((Question(TOTAL, ASKED), other)))
