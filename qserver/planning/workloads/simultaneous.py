"""A workload whose intervals must all hold at once, at one confidence.

By the union bound each of n questions may miss with chance delta / n, whatever their errors have in
common. That plan is the fallback, and no plan costs more. But answers from one base share most of
their noise, so the chance that any of them misses is far below the sum. Here the base is bought at
the scale at which a certified bound of that chance reaches delta:

    1  the base of the union bound's requirements, then refitted to looser requirements, as far as
    the joint bound allows 2  all its alphas times the least factor that the joint bound certifies 3
    on the alphas in whole nano-epsilon, as they will be drawn, the bound is checked again

A sampled bound is false with a small chance over its draws. The chances of all checks of one plan
are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log

from qserver.errors import CapacityError
from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.failures import sound
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.workloads.one_by_one import Single
from qserver.planning.workloads.shared_noise import Answers, answers_after, answers_with
from qserver.planning.workloads.workload import (
    MetQuestions,
    WorkloadPlan,
    plan_grown,
    simultaneous,
    workload_plan,
)
from qserver.planning.workloads.workload_base import Base, answered_base, fitted, view_of, wants_of
from qserver.query.question import Question
from qserver.records.history import Estimator
from qserver.records.statement import Simultaneous


def plan_together(
    questions: Sequence[Question],
    holdings: Holdings,
    *,
    rule: RentOrBuy | None = None,
    single: Single | None = None,
    effort: Effort | None = None,
) -> WorkloadPlan:
    """The cheapest plan found with which all intervals hold at once; see `plan_workload`.

    Raises:
        RequirementError: the confidences differ, or are too high for so many questions.
        CapacityError: a requirement is finer than the lattice.
    """
    effort = effort or Effort()
    state = _State.of(holdings, questions, effort)
    free = state.free
    if free is not None:
        return free
    plan = plan_grown(holdings, state.known, rule, single, effort.part(PLANNER.work_part))
    # Where data arrive over time, the union bound is all: no base is fitted to the joint one.
    with_base = plan.price_nano and not (effort.is_spent or holdings.period_axis is not None)
    with_base = with_base and not holdings.engine.law.is_additive
    base = partial(state.search.base, rule)
    found = sound("joint base", base, holdings.on_fault) if with_base else None
    if found is None or found.priced.price_nano >= plan.price_nano:
        return replace(plan, simultaneous=state.by_union)
    return state.plan(found)


def free_together(holdings: Holdings, questions: Sequence[Question]) -> WorkloadPlan | None:
    """The plan if history suffices for all intervals to hold at once, else None."""
    return _State.of(holdings, questions, Effort()).free


@dataclass(frozen=True, eq=False)
class _State:
    """A workload's state, by the union bound and by the joint bound."""

    questions: Sequence[Question]
    known: MetQuestions
    search: _Search

    @classmethod
    def of(cls, holdings: Holdings, questions: Sequence[Question], effort: Effort) -> _State:
        alone, confidence = simultaneous(questions), questions[0].confidence
        asked = [q for q in alone if not q.row.is_zero]
        search = _Search(holdings, asked, confidence, effort)
        return cls(questions, MetQuestions.of(holdings, alone), search)

    @property
    def by_union(self) -> Simultaneous:
        return Simultaneous(self.search.confidence, "union")

    @property
    def free(self) -> WorkloadPlan | None:
        if self.known.is_all:
            return replace(self.known.free, simultaneous=self.by_union)
        found = self.search.free()
        return None if found is None else self.plan(found)

    def plan(self, found: _Found) -> WorkloadPlan:
        ordered = iter(found.estimators)
        given = tuple(None if q.row.is_zero else next(ordered) for q in self.questions)
        paid_for = self.known.still
        return workload_plan(found.priced, paid_for, given, simultaneous=found.certified)


@dataclass(frozen=True)
class _Found:
    """A purchase of blocks, or of nothing, under which all intervals hold at once."""

    priced: Priced
    estimators: tuple[Estimator, ...]
    certified: Simultaneous


@dataclass
class _Search:
    """The search for a base.

    Args:
        questions: each with the union bound's confidence; no zero queries.
        confidence: the confidence that all intervals hold at once.
    """

    holdings: Holdings
    questions: Sequence[Question]
    confidence: float
    effort: Effort
    n_checks: int = 0

    def free(self) -> _Found | None:
        """The answers from history, present or earlier ones, if all hold at once."""
        tables, nothing = self.holdings.engine.tables, self.holdings.priced(Purchase())
        # What certifies the joint bound is about Laplace noise.
        if not tables.blocks.alphas or self.holdings.engine.law.is_additive:
            return None
        with suppress(CapacityError):
            found = self._checked(self._answers({}), nothing)
            kept = [set(tables.kept_at(q.row.key)) for q in self.questions]
            for at in sorted(set.intersection(*kept), reverse=True)[: PLANNER.tries]:
                earlier = answers_after(self.holdings, self.questions, at)
                found = found or self._checked(earlier, nothing)
            return found
        return None

    def base(self, rule: RentOrBuy | None) -> _Found | None:
        """The base found, at the least scale at which all intervals hold at once."""
        # With too many answers on too many noises only the union bound remains.
        with suppress(CapacityError):
            found = self._fitted(view_of(self.holdings, self.questions, rule, self.effort))
            return self._scaled(min(found, key=lambda f: f[0])[1]) if found else None
        return None

    def _fitted(self, view: Holdings) -> list[tuple[int, Base]]:
        """Bases with their prices once scaled; a refit is not always better."""
        wants, found = wants_of(view, self.questions, self.effort), list[tuple[int, Base]]()
        if not wants:
            return found
        looser, star = 1.0, fitted(view, wants, self.effort)
        for is_last in (False, True):
            base = answered_base(self.holdings, view, star)
            if base is None:
                break
            part = self._factor(base, PLANNER.joint_work // 10)
            found.append((base.priced(part).price_nano, base))
            if is_last or self.effort.is_spent:
                break
            looser *= part
            relaxed = [replace(w, half_width=w.half_width / looser) for w in wants]
            star = fitted(view, relaxed, self.effort, star)
        return found

    def _factor(self, base: Base, work: int) -> float:
        """The least factor on a base's alphas with which all intervals hold at once."""
        answers = self._answers(base.raises(1.0), base.holdings)
        if answers is None:
            return 1.0
        self.effort.add(answers.work(work) * PLANNER.product_work)
        return answers.least_factor(self.confidence, work=work)

    def _scaled(self, base: Base) -> _Found | None:
        """The base at the least scale that was certified: up until it is, then down."""
        part, best = self._factor(base, PLANNER.joint_work), None
        delta = 1.0 - self.confidence
        for _ in range(PLANNER.tries):
            answers = self._answers(base.raises(part), base.holdings)
            if answers is None:
                break
            certified = self._certified(answers)
            holds = certified.confidence >= self.confidence
            if best is not None and not holds:
                break
            # Tails fall about like exp(-log(1 / delta) times the scale).
            missed = max(1.0 - certified.confidence, PLANNER.negligible)
            slack = log(delta / missed) / (1.0 - log(delta))
            if holds:
                best = _Found(base.priced(part), answers.estimators, certified)
            # Continue though the effort is spent if none holds yet: the base would be lost.
            if holds and (self.effort.is_spent or slack < PLANNER.small_part):
                break
            room = 1.0 + PLANNER.small_part
            part *= min(room, room**0.1 * exp(-slack))
        return best

    def _answers(
        self, raises: Mapping[BlockKey, int], holdings: Holdings | None = None
    ) -> Answers | None:
        self.effort.add(PLANNER.evaluation_work * len(self.questions))
        n_events = self.holdings.engine.tables.n_events
        return answers_with(holdings or self.holdings, self.questions, raises, n_events=n_events)

    def _checked(self, answers: Answers | None, priced: Priced) -> _Found | None:
        """The purchase, if the bound holds under it."""
        if answers is None:
            return None
        certified = self._certified(answers)
        if certified.confidence < self.confidence:
            return None
        return _Found(priced, answers.estimators, certified)

    def _certified(self, answers: Answers) -> Simultaneous:
        """The certified confidence, at the work of a last check."""
        self.effort.add(answers.work(PLANNER.joint_work) * PLANNER.product_work)
        self.n_checks += 1
        before = self.n_checks - 1
        return answers.certified(self.confidence, work=PLANNER.joint_work, n_before=before)
