"""The request body of a workload, checked on the way in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, StrictBool

from qserver.api.bodies.requests import (
    CONFIDENCE_BOUNDS,
    LENGTH_BOUNDS,
    Number,
    QueryDocument,
    RequestBody,
)
from qserver.errors import CapacityError, InputError
from qserver.query.linear import LinearQuery
from qserver.query.question import MAX_QUESTIONS, Question, Workload, check_terms
from qserver.query.requirement import Requirement


def _without_defaults(schema: dict[str, Any]) -> None:
    # What counts is whether they were given; null is no number.
    for name in ("length", "confidence"):
        schema["properties"][name].pop("default", None)


def _length() -> Any:
    return Field(0.0, description="full length of the interval", json_schema_extra=LENGTH_BOUNDS)


def _confidence() -> Any:
    return Field(
        0.0,
        description="probability that the interval holds the true answer",
        json_schema_extra=CONFIDENCE_BOUNDS,
    )


class WorkloadQuestion(RequestBody):
    """One question of a workload; what it leaves out is as for all."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    query: QueryDocument
    length: Number = _length()
    confidence: Number = _confidence()


class WorkloadRequest(RequestBody):
    """Many questions to be answered as one; `length` and `confidence` hold where one has none."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)
    inner_fields: ClassVar[tuple[str, ...]] = tuple(WorkloadQuestion.model_fields)

    questions: list[WorkloadQuestion] = Field(
        json_schema_extra={"minItems": 1, "maxItems": MAX_QUESTIONS}
    )
    length: Number = _length()
    confidence: Number = _confidence()
    simultaneous: StrictBool = Field(
        False, description="all intervals hold at once, at the one confidence of all questions"
    )
    consistent: StrictBool = Field(
        False, description="beside the answers those of one non-negative table, for nothing"
    )

    def workload(self, parse: Callable[[object], LinearQuery]) -> Workload:
        """The workload.

        Args:
            parse: the linear query that a structured question means.

        Raises:
            InputError: a question is wrong; names its place.
            CapacityError: there are too many questions or terms, or a question is too large.
        """
        # Counted before anything is parsed, which takes longer than to count.
        if len(self.questions) > MAX_QUESTIONS:
            raise CapacityError(
                f"A workload may have at most {MAX_QUESTIONS:,} questions, "
                f"got {len(self.questions):,}."
            )
        found = list[Question]()
        for i, asked in enumerate(self.questions):
            try:
                requirement = self._requirement(asked)
                found.append(Question(parse(asked.query), requirement))
            except InputError as exc:
                raise exc.under(f"questions[{i}]") from exc
            # A short text may mean many terms: it ends before all are read.
            check_terms(found)
        return Workload(tuple(found), simultaneous=self.simultaneous)

    def _requirement(self, asked: WorkloadQuestion) -> Requirement:
        values = {}
        for name in ("length", "confidence"):
            giver = next((b for b in (asked, self) if name in b.model_fields_set), None)
            if giver is None:
                raise InputError(name, "be given, here or for all questions")
            values[name] = getattr(giver, name)
        return Requirement(**values)
