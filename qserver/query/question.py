"""Requests: one question, a workload of questions answered as one, or a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from qserver.errors import CapacityError, InputError, RequirementError
from qserver.query.asking.after_looking import NOTHING_SEEN, Looking, Selection
from qserver.query.asking.method_and_prior import AS_EVER, Reading
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import MIN_DELTA, Measure, Requirement

MAX_QUESTIONS = 1000
"""Most questions of a workload."""
MAX_TERMS = 10_000
"""Most terms of all questions of a workload together: some take milliseconds each."""


_EVALUATION = 1e-15
_ROOM = 1e-9


@dataclass(frozen=True)
class Question:
    """A linear query with the requirement on its answer, and with the query's normal form.

    Args:
        measure: what may be measured; None leaves that to the dataset's owner.
        looking: its asker's looks. They change neither plan nor price, unless the noise must be
            independent.
        reading: method and prior of the posterior. They change neither plan nor price.

    Raises:
        InputError: it has another method or prior after a look.
    """

    query: LinearQuery
    requirement: Requirement
    measure: Measure | None = None
    looking: Looking = NOTHING_SEEN
    reading: Reading = AS_EVER

    def __post_init__(self) -> None:
        if self.looking != NOTHING_SEEN and self.reading.unusual:
            raise InputError(
                self.reading.unusual,
                "be left out, or else `selected_from` and `independent`",
                hint="What holds after looking is said of the estimate's error alone.",
            )

    @cached_property
    def row(self) -> Primitive:
        """The query's normal form: a multiple of a row.

        Raises:
            QueryError, CapacityError: as `primitive` does.
        """
        return primitive(self.query)

    @property
    def as_of(self) -> str:
        """The last period that it may count, for data that arrive over time; else ''."""
        return self.query.as_of

    @property
    def confidence(self) -> float:
        """The asked confidence."""
        return self.requirement.confidence

    @cached_property
    def row_half_width(self) -> float:
        """The asked half-width in the row's units, rounded down."""
        return self.requirement.half_width / float(self.row.sensitivity) * (1 - _EVALUATION)

    @property
    def roomy_half_width(self) -> float:
        """Slightly less than `row_half_width`, with room for rounding: the target of a plan."""
        return self.row_half_width * (1.0 - _ROOM)

    def with_requirement(self, requirement: Requirement) -> Question:
        """This query with another requirement; its normal form is kept."""
        return self._changed(replace(self, requirement=requirement))

    def with_measure(self, measure: Measure) -> Question:
        """This question with another `measure`."""
        return self._changed(replace(self, measure=measure))

    def with_looking(self, looking: Looking) -> Question:
        """This question, asked after a look, with the default method."""
        return self._changed(replace(self, looking=looking, reading=AS_EVER))

    def _changed(self, found: Question) -> Question:
        if "row" in vars(self):
            vars(found)["row"] = self.row
        return found

    @property
    def questions(self) -> tuple[Question, ...]:
        """This question alone."""
        return (self,)


@dataclass(frozen=True)
class Workload:
    """Questions that are planned, priced, charged, measured and answered as one: all or none.

    Args:
        questions: at least one, on one domain, with one `measure`.
        simultaneous: whether all intervals must hold at once, with one confidence shared by all
            questions.
        selected_from: a later choice among the answers, and perhaps others, that the intervals
            allow for.
        for_quotients: places of questions used in quotients. These need the laws of the estimates'
            errors in place of posteriors.
        as_drawn: whether too long intervals are not refined after the draw: the asker continues
            from the draw.

    Raises:
        RequirementError: there are none, or `simultaneous` with several confidences, or with one
            so high that a single interval of so many would pass 0.999999999.
        InputError: `measure` differs between questions, or there is a choice among intervals that
            hold at once anyway.
        CapacityError: there are too many, or they have too many terms in all.
    """

    questions: tuple[Question, ...]
    simultaneous: bool = False
    selected_from: Selection | None = None
    for_quotients: tuple[int, ...] = ()
    as_drawn: bool = False

    def __post_init__(self) -> None:
        if not self.questions:
            raise RequirementError("questions", "hold at least one question")
        if len(self.questions) > MAX_QUESTIONS:
            raise CapacityError(
                f"A workload may have at most {MAX_QUESTIONS:,} questions, "
                f"got {len(self.questions):,}."
            )
        check_terms(self.questions)
        if any(q.measure != self.measure for q in self.questions):
            raise InputError("measure", "be the same for all questions of a workload")
        if any(q.looking != NOTHING_SEEN for q in self.questions):
            raise InputError("questions", "say together what was looked at")
        if any(q.reading != AS_EVER for q in self.questions):
            raise InputError("questions", "leave out method and prior: ask with them one by one")
        if self.selected_from is not None and self.simultaneous:
            raise InputError(
                "selected_from",
                "be left out where `simultaneous` is true",
                hint="Intervals that all hold at once hold for any choice.",
            )
        if self.simultaneous:
            self._check_confidences()

    @property
    def measure(self) -> Measure | None:
        """The common `measure` of its questions; None leaves that to the dataset's owner."""
        return self.questions[0].measure

    def with_measure(self, measure: Measure) -> Workload:
        """This workload with another `measure`."""
        return replace(self, questions=tuple(q.with_measure(measure) for q in self.questions))

    def _check_confidences(self) -> None:
        first, *others = [q.requirement.confidence for q in self.questions]
        if any(c != first for c in others):
            raise RequirementError(
                "confidence", "be the same for all questions where `simultaneous` is true"
            )
        n = len(self.questions)
        if (1.0 - first) / n < MIN_DELTA:
            raise RequirementError(
                "confidence", f"be at most 1 - {n} * 1e-9 for {n} simultaneous questions", first
            )


def check_terms(questions: Sequence[Question]) -> None:
    """Raise CapacityError if the questions have too many terms for one workload."""
    n_terms = sum(len(q.query.terms) for q in questions)
    if n_terms > MAX_TERMS:
        raise CapacityError(
            f"The questions of a workload may have at most {MAX_TERMS:,} terms in all, "
            f"got {n_terms:,}."
        )


MAX_SPECIFICATION = 1 << 20
"""Most characters of a model's specification."""


@dataclass(frozen=True)
class ModelAsked:
    """A model to learn from tables: those of history, and bought ones.

    Args:
        kind: of the model, such as `network`.
        sizes: number of values per attribute of the domain.
        specification: the analyst's document, normalised by the kind, as JSON text.
        epsilon_nano: most that may be spent on tables, in nano-epsilon; 0 for history alone.

    Raises:
        InputError: the price is negative or no whole number, or the specification is too long.
    """

    kind: str
    sizes: tuple[int, ...]
    specification: str
    epsilon_nano: int

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon_nano, int) or self.epsilon_nano < 0:
            raise InputError("epsilon", "be 0 or more")
        if len(self.specification) > MAX_SPECIFICATION:
            raise InputError("specification", f"have at most {MAX_SPECIFICATION:,} characters")

    @property
    def questions(self) -> tuple[Question, ...]:
        """No questions: a model asks none."""
        return ()


AnyAsked = Question | Workload | ModelAsked
