"""Requests that wait for a worker and their reservations: their JSON forms in the store.

A single question keeps its first form. A workload has `questions` instead, and a model `model`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

from qserver.errors import InputError
from qserver.query.asking.after_looking import Looking
from qserver.query.asking.method_and_prior import Reading
from qserver.query.linear_query import query_from_document
from qserver.query.question import AnyAsked, ModelAsked, Question, Workload
from qserver.query.requirement import Requirement, measure_of
from qserver.records.answer import Source
from qserver.records.charge import Standing, on_domain
from qserver.records.codec import ALWAYS, as_, plain, read
from qserver.records.history import Estimator
from qserver.records.plan import Planned, PlannedRow, PlannedTable, Sampled, Second
from qserver.records.statement import Simultaneous
from qserver.storage.encoding.jobs import measurement_json


@dataclass(frozen=True)
class Tightened:
    """A paid answer was longer than asked, so it is bought again with a shorter error.

    Args:
        lengths, sources: per question the length of the error to plan for, and where the answer
            that is longer came from.
        charged_nano: what was charged before.
        most_nano: most that may still be charged.
    """

    lengths: tuple[float, ...]
    sources: tuple[Source, ...]
    charged_nano: int
    most_nano: int


@dataclass(frozen=True)
class Request:
    """A question, a workload or a model request that waits for a worker, in exact terms.

    Args:
        by: account that asked first and pays; '' if there are no accounts.
        tightened: of what refines the answer of an earlier job; else None.
        most_nano: most that the answer may be charged for, all rounds together; None for its price.

    Raises:
        InputError: its questions are on different domains.
    """

    dataset: str
    snapshot: str
    asked: AnyAsked
    by: str = ""
    tightened: Tightened | None = None
    most_nano: int | None = None

    def __post_init__(self) -> None:
        if any(q.query.sizes != self.sizes for q in self.asked.questions):
            raise InputError("questions", "be on one domain")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values per attribute of the domain."""
        if isinstance(self.asked, ModelAsked):
            return self.asked.sizes
        return self.asked.questions[0].query.sizes

    @property
    def left_nano(self) -> int | None:
        """The most that this round may be charged; None for its price."""
        return self.most_nano if self.tightened is None else self.tightened.most_nano

    @property
    def to_plan(self) -> AnyAsked:
        """What to plan: the request as asked, or with shorter errors and nothing else changed."""
        asked = self.asked
        if self.tightened is None or isinstance(asked, ModelAsked):
            return asked
        shorter = tuple(
            q.with_requirement(Requirement(length, q.confidence)).with_measure("only_this")
            for q, length in zip(asked.questions, self.tightened.lengths, strict=True)
        )
        return replace(asked, questions=shorter) if isinstance(asked, Workload) else shorter[0]

    def to_json(self) -> str:
        """The request as JSON text."""
        head: dict[str, Any] = {
            "dataset": self.dataset,
            "snapshot": self.snapshot,
            "sizes": list(self.sizes),
            "by": self.by,
        }
        if self.tightened is not None:
            head["tightened"] = plain(self.tightened)
        if self.most_nano is not None:
            head["most"] = self.most_nano
        if isinstance(self.asked, ModelAsked):
            return json.dumps({**head, "model": _model_plain(self.asked)})
        if self.asked.measure == "only_this":
            head["measure"] = self.asked.measure  # earlier versions wrote none
        if isinstance(self.asked, Question):
            return json.dumps({**head, **_question_plain(self.asked)})
        questions = [_question_plain(q) for q in self.asked.questions]
        together = {"questions": questions, "simultaneous": self.asked.simultaneous}
        looked = plain(Looking(self.asked.selected_from))
        if self.asked.for_quotients:
            together["for_quotients"] = list(self.asked.for_quotients)
        if self.asked.as_drawn:
            together["as_drawn"] = True
        return json.dumps({**head, **together, **looked})

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request in a text of `to_json`, which a hostile web process may have written.

        Returns:
            The same object for the same text: a request is read more than once while it waits.

        Raises:
            InputError: a query or a requirement is out of range.
            CapacityError: a workload has too many questions.
        """
        return _from_json(text)


@lru_cache(maxsize=256)
def _from_json(text: str) -> Request:
    found = json.loads(text)
    return Request(
        dataset=found["dataset"],
        snapshot=found["snapshot"],
        asked=_asked(found),
        by=str(found.get("by", "")),
        tightened=read(Tightened, found["tightened"]) if "tightened" in found else None,
        most_nano=int(found["most"]) if "most" in found else None,
    )


def _asked(found: Mapping[str, Any]) -> AnyAsked:
    sizes, asked = found["sizes"], list[Question]()
    if "model" in found:
        model = found["model"]
        return ModelAsked(
            str(model["kind"]),
            tuple(map(int, sizes)),
            str(model["specification"]),
            int(model["epsilon"]),
        )
    measure = measure_of(found["measure"]) if "measure" in found else None
    for one in found.get("questions", [found]):
        query = query_from_document(sizes, one["terms"])
        query = replace(query, as_of=str(one.get("as_of", "")))
        requirement = Requirement(one["length"], one["confidence"])
        looking, reading = read(Looking, one), read(Reading, one)
        asked.append(Question(query, requirement, measure, looking, reading))
    return asked[0] if "questions" not in found else _workload(asked, found)


def _model_plain(asked: ModelAsked) -> dict[str, Any]:
    return {
        "kind": asked.kind,
        "specification": asked.specification,
        "epsilon": asked.epsilon_nano,
    }


def _question_plain(question: Question) -> dict[str, Any]:
    return {
        **({"as_of": question.as_of} if question.as_of else {}),
        "terms": question.query.to_document(),
        "length": question.requirement.length,
        "confidence": question.requirement.confidence,
        **plain(question.looking),
        **plain(question.reading),
    }


def _workload(questions: Sequence[Question], found: Mapping[str, Any]) -> Workload:
    return Workload(
        tuple(questions),
        simultaneous=bool(found["simultaneous"]),
        selected_from=read(Looking, found).selected_from,
        for_quotients=tuple(found.get("for_quotients", ())),
        as_drawn=bool(found.get("as_drawn", False)),
    )


@dataclass(frozen=True)
class Reservation:
    """The plan of a job, fixed when its charges are reserved.

    Args:
        before, after: the snapshot's standing without and with this spend.
        n_history: events in the history of the plan.
        weights: of a single question: pairs of a measurement's id and its weight in the asked row.
            They meet the requirement once the rows are released. Empty in older texts.
        tables_give_rest: whether the tables give a part of the row that the weights leave.
        tables: tables to measure or refine; new ones have the ids after those of new rows.
        paid: the new paid questions, as JSON texts.
        estimators: of a workload: per question the weights that meet its requirement once all is
            released; None if inference finds them.
        simultaneous: the confidence at which all intervals of a workload hold at once.
        n_measurements: number of rows and tables before, so the id of the first new one.
        sampled: the charge, if a sample decides the tables' alphas. The tables then have the
            greatest alphas that they may get. Only the worker knows the decided ones until they
            are released.
        second: what is charged for tables that the answers of `tables` decide. They join `tables`
            once they are decided; the store's plan never has them.
    """

    job: str
    request: Request
    rows: tuple[PlannedRow, ...]
    before: Standing
    after: Standing
    n_history: int
    weights: tuple[tuple[int, float], ...] = field(default=(), metadata=ALWAYS)
    tables: tuple[PlannedTable, ...] = field(default=(), metadata=ALWAYS)
    paid: tuple[str, ...] = field(default=(), metadata=ALWAYS)
    estimators: tuple[Estimator | None, ...] = field(default=(), metadata=as_(last=1))
    simultaneous: Simultaneous | None = field(default=None, metadata=as_(last=4))
    n_measurements: int = field(default=0, metadata=as_(always=True, last=2))
    tables_give_rest: bool = field(default=False, metadata=ALWAYS)
    sampled: Sampled | None = field(default=None, metadata=as_(last=3))
    second: Second | None = field(default=None, metadata=as_(last=5))

    @property
    def planned(self) -> tuple[Planned, ...]:
        """The rows, then the tables: the order of the answers and of new ids."""
        return (*self.rows, *self.tables)

    @property
    def source(self) -> Source:
        """The source of the answer: `refined` if anything is a refinement, else `measured`."""
        refines = any(p.old_alpha_nano > 0 for p in self.planned)
        return "refined" if refines else "measured"

    @property
    def sources(self) -> dict[int, Source]:
        """Whether each row and table was measured or refined, by id."""
        found: dict[int, Source] = {}
        new = count(self.n_measurements)
        for planned in self.planned:
            number = next(new) if planned.refines is None else planned.refines
            found[number] = "refined" if planned.old_alpha_nano else "measured"
        return found

    @property
    def price_nano(self) -> int:
        """The rise of the loss of the snapshot's people, in nano-epsilon."""
        return self.after.lost_nano - self.before.lost_nano

    def to_json(self) -> str:
        """The reservation as JSON text."""
        return self._json

    @cached_property
    def _json(self) -> str:
        found: dict[str, Any] = plain(self, {Request: Request.to_json})
        if not isinstance(self.request.asked, Workload):
            del found["n_measurements"]
        return json.dumps(found)

    @classmethod
    def from_json(cls, text: str) -> Reservation:
        """The reservation that `to_json` wrote."""
        found = json.loads(text)
        request = Request.from_json(found["request"])
        return read(cls, found, {**on_domain(request.sizes), Request: lambda _: request})


def events_of(reservation: Reservation, indices: Sequence[Sequence[int]]) -> list[str]:
    """JSON texts of a job's released rows and tables, without links.

    Args:
        indices: of each planned row and table.
    """
    return [
        measurement_json(planned, found, reservation.job)
        for planned, found in zip(reservation.planned, indices, strict=True)
    ]
