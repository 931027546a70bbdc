"""One example of everything that the store, the journal and the state folder hold as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from qserver.errors import (
    AllowanceExhaustedError,
    BudgetExhaustedError,
    CapacityError,
    ConfigError,
    DisclosureGuardError,
    RequirementError,
)
from qserver.query.asking.after_looking import Looking, Selection
from qserver.query.asking.method_and_prior import Prior, Reading
from qserver.query.class_grid import product_partition
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import primitive
from qserver.query.question import ModelAsked, Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.account import Account, Allowance, TokenRecord
from qserver.records.answer import Answer, ModelAnswer, Offer, WorkloadAnswer
from qserver.records.charge import (
    AnyCharge,
    Charge,
    OpaqueCharge,
    Standing,
    TableCharge,
    charge_from_json,
    charge_json,
)
from qserver.records.claim import ClaimGuardError, claims_from_plain, claims_json
from qserver.records.dataset import DatasetMeta, Growth
from qserver.records.digest_links import linked
from qserver.records.history import Estimator
from qserver.records.paid_question import FittedBase, PaidQuestion
from qserver.records.plan import (
    CellSource,
    PlannedRow,
    PlannedTable,
    Sampled,
    Second,
    TableCell,
)
from qserver.records.problem import problem_from_error
from qserver.records.statement import Simultaneous, Statement
from qserver.storage.encoding.jobs import (
    answer_from_json,
    answer_json,
    estimator_from_json,
    estimator_json,
    measurement_json,
    public_row_json,
)
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.histories import model_json
from qserver.storage.queue import Outcome
from worker.journal.records import (
    GENESIS,
    Adopted,
    Attached,
    Burnt,
    ChargeLine,
    ClaimsSet,
    Decided,
    DeclaredDisjoint,
    LimitRaised,
    MeasureSet,
    Opened,
    Record,
    Released,
    ReleasedRow,
    Reserved,
    Retired,
    Sealed,
    write_line,
)
from worker.journal.sections import Replay

SIZES = (2, 3)
DOMAIN = Domain(
    (Attribute("sex", "labels", ("F", "M")), Attribute("town", "labels", ("A", "B", "C")))
)
META = DatasetMeta(
    "people",
    "town",
    "s1",
    DOMAIN,
    "replace-one",
    2,
    True,
    0.25,
    0.5,
    ("s0", "r0"),
)
PLAIN_META = DatasetMeta("people", "town", "s1", DOMAIN, "add-remove", 1, records_verified=False)
CLAIM = {"name": "women", "query": {"where": {"sex": "F"}}, "width": 2.5, "p": 0.5}
TOTAL = total_query(SIZES)
KEY = primitive(TOTAL).key
TABLE = product_partition(SIZES, {0: [0, 1]})
REQUIREMENT = Requirement(12.5, 0.95)
STEP = Fraction(1, 4)
NEW = PlannedRow(TOTAL, KEY, 300, STEP)
REFINED = PlannedRow(TOTAL, KEY, 500, STEP, refines=1, old_alpha_nano=300)
FROM_CELL = PlannedRow(TOTAL, KEY, 500, STEP, 1, 400, TableCell(2, 1))
NEW_TABLE = PlannedTable(TABLE, 300, STEP)
RAISED_TABLE = PlannedTable(TABLE, 500, STEP, 1, 300, (CellSource(1, 0, 400),))
BEFORE, AFTER = Standing(10**9, 90, 80, 5), Standing(10**9, 580, 580, 505)
QUESTION = Request("people", "s1", Question(TOTAL, REQUIREMENT), by="ann")
ONLY_THIS = Request("people", "s1", Question(TOTAL, REQUIREMENT, "only_this"))
CHOSEN = Selection(64, "least", 5)
AFTER_A_CHOICE = Request(
    "people", "s1", Question(TOTAL, REQUIREMENT, looking=Looking(selected_from=CHOSEN))
)
FRESH_NOISE = Request(
    "people", "s1", Question(TOTAL, REQUIREMENT, looking=Looking(independent=True))
)
PRIOR = Prior("known-total", 0.0, 48.0)
READ_BY_DRAWS = Request(
    "people",
    "s1",
    Question(TOTAL, REQUIREMENT, reading=Reading("monte-carlo", draws=20_000, prior=PRIOR)),
)
WORKLOAD = Request("people", "s1", Workload((Question(TOTAL, REQUIREMENT),) * 2, simultaneous=True))
MODEL = Request("people", "s1", ModelAsked("network", SIZES, '{"edges": []}', 7))
ESTIMATOR = Estimator(KEY, ((0, 0.1), (3, -2.0)), 1e-12, 4)
EARLIER_ANSWER = Answer(0.1, -1.5, 1.7, 0.95, 0.96, "refined", 5, 9, (0, 3), "blue", 4)
ANSWER = replace(EARLIER_ANSWER, statement=Statement("posterior", 0.0004, 2))
MODEL_ANSWER = ModelAnswer("town~1", "network", 5, 9, (1, 2), 4)
SIMULTANEOUS = Simultaneous(0.9, "union")
RESERVATION = Reservation(
    "town~1",
    QUESTION,
    (NEW, REFINED, FROM_CELL),
    BEFORE,
    AFTER,
    3,
    ((0, 0.1),),
    (NEW_TABLE, RAISED_TABLE),
    ("paid",),
    tables_give_rest=True,
)
WORKLOAD_RESERVATION = Reservation(
    "town~1",
    WORKLOAD,
    (NEW,),
    BEFORE,
    AFTER,
    3,
    estimators=(ESTIMATOR, None),
    simultaneous=SIMULTANEOUS,
    n_measurements=2,
)
MODEL_RESERVATION = Reservation(
    "town~1", MODEL, (), BEFORE, AFTER, 3, tables=(NEW_TABLE,), sampled=Sampled(1, 2, 3, 4)
)
SECOND_RESERVATION = replace(MODEL_RESERVATION, sampled=None, second=Second(3, 6))
PAID = PaidQuestion(TOTAL, 6.25, 0.95, "fresh", 490, (FittedBase(1, 2, ((((0, 2),), 0.5),)),))
OUTCOME = Outcome("done", "text", "s1", 4, 0, (ESTIMATOR,))


@dataclass(frozen=True)
class Stored:
    """A fact, its text, and how the text is read back; None where only other code does either."""

    fact: Any
    write: Callable[[Any], str] | None
    read: Callable[[str], Any] | None = None


def _charge(charge: AnyCharge) -> Stored:
    return Stored(
        charge,
        lambda c: charge_json(c, snapshot="s1", at=8),
        lambda text: charge_from_json(text, snapshot="s1", sizes=SIZES),
    )


def _json(fact: Any, *args: Any) -> Stored:
    return Stored(fact, lambda f: f.to_json(), lambda text: type(fact).from_json(text, *args))


def _earlier(fact: Any) -> Stored:
    """A fact as earlier versions wrote it, with cohorts and lineages of people."""
    return Stored(fact, None, lambda text: type(fact).from_json(text))


def _problem(error: Any) -> Stored:
    return Stored(error, lambda e: problem_from_error(e).to_json())


def _line(record: Record) -> Stored:
    return Stored(
        record, lambda r: write_line(r, sequence=3, previous=GENESIS).text.decode("ascii")
    )


def _text(text: str) -> Stored:
    return Stored(text, str)


def _refused() -> BudgetExhaustedError:
    error = BudgetExhaustedError(price_nano=8, remaining_nano=7)
    error.free = Offer(1.0, 2.0, 0.9)
    return error


def _claimed() -> ClaimGuardError:
    error = ClaimGuardError(claim="women", width=2.5, before=0.25, after=0.75, cap=0.5)
    error.free = Offer(1.0, 4.0, 0.95)
    return error


def _guarded() -> DisclosureGuardError:
    error = DisclosureGuardError(price_nano=8, loss_nano=1, allowed_nano=2, cap=0.5)
    error.free = (Offer(1.0, 2.0, 0.9), None)
    return error


STORED: Mapping[str, Stored] = {
    "account": _json(Account("ann", "analyst", 8, "0" * 16)),
    "token": _json(TokenRecord("ann", "owner", "ab", "cd")),
    "allowance": _json(Allowance(8, None)),
    "meta": _json(META),
    "plain meta": _json(PLAIN_META),
    "meta that measures only questions": _json(replace(PLAIN_META, measure="only_this")),
    "meta that grows": _json(replace(PLAIN_META, growth=Growth("sex", 500))),
    "question on data that grow": _json(
        Request("people", "s1", Question(replace(TOTAL, as_of="2024-W20"), REQUIREMENT))
    ),
    "meta with claims": _json(replace(PLAIN_META, claims=claims_from_plain(CLAIM))),
    "paid question": _json(PAID, SIZES),
    "paid question that measured itself": _json(replace(PAID, measure="only_this"), SIZES),
    "question that measures itself": _json(ONLY_THIS),
    "question after a choice": _json(AFTER_A_CHOICE),
    "question for fresh noise": _json(FRESH_NOISE),
    "question read by draws under a prior": _json(READ_BY_DRAWS),
    "question": _json(QUESTION),
    "workload": _json(WORKLOAD),
    "model request": _json(MODEL),
    "reservation": _json(RESERVATION),
    "reserved workload": _json(WORKLOAD_RESERVATION),
    "reserved model": _json(MODEL_RESERVATION),
    "reserved second": _json(SECOND_RESERVATION),
    "outcome": _json(OUTCOME),
    "estimator": Stored(ESTIMATOR, estimator_json, estimator_from_json),
    "answer": Stored(ANSWER, answer_json, answer_from_json),
    "answer on data that grow": Stored(
        replace(ANSWER, as_of="2024-W20"), answer_json, answer_from_json
    ),
    "answer after a choice": Stored(
        replace(ANSWER, selected_from=CHOSEN), answer_json, answer_from_json
    ),
    "answer read by draws under a prior": Stored(
        replace(ANSWER, statement=Statement("estimator", 0.004, 0, "monte-carlo", None, 9, PRIOR)),
        answer_json,
        answer_from_json,
    ),
    "earlier answer": Stored(EARLIER_ANSWER, None, answer_from_json),
    "workload answer": Stored(
        WorkloadAnswer((ANSWER,), 5, 9, SIMULTANEOUS, 4), answer_json, answer_from_json
    ),
    "workload answer by a posterior": Stored(
        WorkloadAnswer((ANSWER,), 5, 9, Simultaneous(0.9, "posterior", 0.87), 4),
        answer_json,
        answer_from_json,
    ),
    "earlier workload answer": Stored(
        WorkloadAnswer((EARLIER_ANSWER,), 5, 9, SIMULTANEOUS, 4), None, answer_from_json
    ),
    "model answer": Stored(MODEL_ANSWER, answer_json, answer_from_json),
    "model": _text(model_json(MODEL, MODEL_ANSWER)),
    "row charge": _charge(Charge(TOTAL, 300, "town~1")),
    "table charge": _charge(TableCharge(TABLE, 300, ((1, 100),), "town~1")),
    "opaque charge": _charge(OpaqueCharge(300, "town~1")),
    "new row": _text(measurement_json(NEW, [-7], "town~1")),
    "refined row": _text(measurement_json(REFINED, [1 << 60], "town~1")),
    "row from a cell": _text(measurement_json(FROM_CELL, [3], "town~1")),
    "new table": _text(measurement_json(NEW_TABLE, [1, -2], "town~1")),
    "raised table": _text(measurement_json(RAISED_TABLE, [1, -2], "town~1")),
    "public row": _text(public_row_json(TOTAL, KEY, Fraction(7))),
    "audit entry": _text(linked({"kind": "limit raised", "at": 8}, prev="")),
    "over the limit": _problem(_refused()),
    "over the guard": _problem(_guarded()),
    "over a claim": _problem(_claimed()),
    "over the allowance": _problem(
        AllowanceExhaustedError(price_nano=8, remaining_nano=7, more_at=None)
    ),
    "wrong input": _problem(RequirementError("length", "be > 0")),
    "too large": _problem(CapacityError("Too large.")),
    "unforeseen": _problem(ConfigError("name", "stay secret")),
    "opened": _line(Opened("town", 1)),
    "attached": _line(Attached("people", "s1", 8, "add-remove", "ab", {"meta": "{}", "k": 2})),
    "reserved": _line(Reserved("town~1", 3, 8, (ChargeLine(KEY, 300),))),
    "reserved with replay": _line(
        Reserved(
            "town~1",
            3,
            8,
            (ChargeLine("sample", 2), ChargeLine("tables", 4)),
            "0" * 64,
            Replay(MODEL_RESERVATION, ("charge",), ("change",)).to_json(),
        )
    ),
    "released": _line(Released("town~1", (ReleasedRow(KEY, (1, -2)), ReleasedRow(KEY, (3,), 9)))),
    "burnt": _line(Burnt("town~1")),
    "decided": _line(Decided("town~1", (ReleasedRow(KEY, (1, -2)),), ("table",))),
    "released with second": _line(Released("town~1", (ReleasedRow(KEY, (1,), 0, "table"),))),
    "limit raised": _line(LimitRaised(8, 9)),
    "adopted": _line(Adopted(3, 8)),
    "declared disjoint": _line(DeclaredDisjoint((("s0", "s1"), ("s0", "s2")))),
    "measure set": _line(MeasureSet("s1", "only_this")),
    "claims set": _line(ClaimsSet("s1", claims_json(claims_from_plain(CLAIM)))),
    "retired": _line(Retired("s1", 4, 5, "0000004-0000005.part", "ab")),
    "sealed": _line(Sealed("s1", 3, 5, "0000003-0000005.part", "ab", {"same_file": ""})),
    "meta with cohorts": _earlier(replace(META, disjoint_from=())),
    "plain meta with cohorts": _earlier(PLAIN_META),
    "reservation with cohorts": _earlier(RESERVATION),
    "reserved workload with cohorts": _earlier(WORKLOAD_RESERVATION),
    "reserved model with cohorts": _earlier(MODEL_RESERVATION),
}
