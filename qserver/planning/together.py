"""A workload whose intervals must all hold at once, at one confidence.

By the union bound each of n questions may miss with chance delta / n, whatever the errors have in
common; that plan is the fallback, and its price is never passed. But answers from one base have
most of their noise in common, so the chance that any of them misses is far below the sum. Here the
base is bought at the scale at which a certified bound of that chance reaches delta:

    1  the base of the union bound's requirements, then refitted to requirements that are as much
       looser as the joint bound allows
    2  all its alphas times the least factor that the joint bound certifies
    3  on the alphas in whole nano-epsilon, as they will be drawn, the bound is checked again

A sampled bound is false with a small chance over its draws; of the checks of one plan all those
chances are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import exp, log

from qserver.answer import Simultaneous
from qserver.errors import CapacityError
from qserver.history import Estimator
from qserver.inference.engine import InferenceEngine
from qserver.inference.lattice.pattern import BlockKey
from qserver.planning.bought import Bought
from qserver.planning.effort import never
from qserver.planning.ledger import CellLedger
from qserver.planning.one_by_one import Single
from qserver.planning.own_cells import OwnCells
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.question import Question
from qserver.planning.shared import Answers, answers_after, answers_with
from qserver.planning.star import Star, fit_star
from qserver.planning.wanted import Want, Wanted
from qserver.planning.workload import (
    Known,
    WorkloadPlan,
    each_alone,
    plan_unmet,
    simultaneous,
    wants_of,
    workload_plan,
)

SEARCH_WORK = 100_000_000
"""Multiplications of one evaluation while the base is sought: some 50 ms on one core."""
FINAL_WORK = 1_000_000_000
_REFITS = 1
_CHECKS = 6
_EARLIER = 3
_STEP = 1.003
_SLACK = 0.02
_CAREFUL = 0.9


def plan_together(
    questions: Sequence[Question],
    *,
    engine: InferenceEngine,
    ledger: CellLedger,
    limit_nano: int,
    cells: OwnCells | None = None,
    single: Single | None = None,
    out_of_time: Callable[[], bool] = never,
) -> WorkloadPlan:
    """The cheapest plan found with which all intervals hold at once; see `plan_workload`.

    Raises:
        RequirementError: the confidences differ, or are too high for so many questions.
        CapacityError: a requirement is finer than the lattice.
    """
    bought = Bought(engine, ledger, limit_nano, cells or OwnCells())
    state = _State.of(bought, questions, out_of_time)
    free = state.free
    if free is not None:
        return free
    plan = plan_unmet(bought, state.known, each_alone, single, out_of_time)
    found = state.search.base() if plan.price_nano and not out_of_time() else None
    if found is None or found.priced.price_nano >= plan.price_nano:
        return replace(plan, simultaneous=state.by_union)
    return state.plan(found)


def free_together(bought: Bought, questions: Sequence[Question]) -> WorkloadPlan | None:
    """The plan where history is enough for all intervals to hold at once, else None."""
    return _State.of(bought, questions, never).free


@dataclass(frozen=True, eq=False)
class _State:
    """What is known of a workload, by the union bound and by the joint bound."""

    questions: Sequence[Question]
    known: Known
    search: _Search

    @classmethod
    def of(
        cls, bought: Bought, questions: Sequence[Question], out_of_time: Callable[[], bool]
    ) -> _State:
        alone, confidence = simultaneous(questions), questions[0].requirement.confidence
        asked = [q for q in alone if not q.query.is_zero]
        search = _Search(bought, asked, confidence, out_of_time)
        return cls(questions, Known.of(bought, alone), search)

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
        given = tuple(None if q.query.is_zero else next(ordered) for q in self.questions)
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
        questions: each with the union bound's confidence, none zero.
        confidence: that all hold at once.
    """

    bought: Bought
    questions: Sequence[Question]
    confidence: float
    out_of_time: Callable[[], bool]
    n_checks: int = 0

    def free(self) -> _Found | None:
        """What history gives already, if that will do: as it is, or as it was answered before."""
        tables, nothing = self.bought.engine.tables, self.bought.priced(Purchase())
        if not tables.blocks.alphas:
            return None
        with suppress(CapacityError):
            found = self._checked(self._answers({}), nothing)
            kept = [set(tables.kept_at(q.query.key)) for q in self.questions]
            for at in sorted(set.intersection(*kept), reverse=True)[:_EARLIER]:
                earlier = answers_after(self.bought, self.questions, at)
                found = found or self._checked(earlier, nothing)
            return found
        return None

    def base(self) -> _Found | None:
        """The least scale of the base found at which all hold at once."""
        # Too many answers on too many noises leave the union bound.
        with suppress(CapacityError):
            wants = wants_of(self.bought, self.questions)
            return self._scaled(self._fitted(wants)) if wants else None
        return None

    def _fitted(self, wants: Sequence[Want]) -> Star:
        """The base that is cheapest once scaled: refits are no better for sure."""
        looser, star = 1.0, self._star(wants, None)
        found = list[tuple[int, Star]]()
        for i in range(_REFITS + 1):
            part = self._factor(star, SEARCH_WORK)
            found.append((self._priced(star, part).price_nano, star))
            if i == _REFITS or self.out_of_time():
                break
            looser *= part
            relaxed = [replace(w, half_width=w.half_width / looser) for w in wants]
            star = self._star(relaxed, star)
        return min(found, key=lambda f: f[0])[1]

    def _priced(self, star: Star, part: float) -> Priced:
        raises = self.bought.raises(star.alphas, part=part)
        return self.bought.priced(Purchase(tables=self.bought.tables(raises)))

    def _star(self, wants: Sequence[Want], old: Star | None) -> Star:
        wanted = Wanted()
        for want in wants:
            wanted.add(want)
        return fit_star(self.bought, wanted.wants, old=old, out_of_time=self.out_of_time)

    def _factor(self, star: Star, work: int) -> float:
        """The least factor on a base's alphas with which all intervals hold at once."""
        answers = self._answers(self.bought.raises(star.alphas))
        return 1.0 if answers is None else answers.least_factor(self.confidence, work=work)

    def _scaled(self, star: Star) -> _Found | None:
        """The base at the least scale that was certified: up until it is, then down."""
        part, best = self._factor(star, FINAL_WORK), None
        delta = 1.0 - self.confidence
        for _ in range(_CHECKS):
            raises = self.bought.raises(star.alphas, part=part)
            found = self._checked(self._answers(raises), self._priced(star, part))
            if found is None and best is not None:
                break
            best = found or best
            slack = 0.0 if best is None else log(delta / (1.0 - best.certified.confidence))
            if self.out_of_time() or 0.0 < slack < _SLACK:
                break
            # Tails fall about like exp(-log(1 / delta) times the scale).
            part *= _STEP if best is None else exp(-_CAREFUL * slack / (1.0 - log(delta)))
        return best

    def _answers(self, raises: Mapping[BlockKey, int]) -> Answers | None:
        return answers_with(self.bought, self.questions, raises)

    def _checked(self, answers: Answers | None, priced: Priced) -> _Found | None:
        """The purchase, if the bound holds under it."""
        if answers is None:
            return None
        certified = answers.certified(self.confidence, work=FINAL_WORK, n_before=self.n_checks)
        self.n_checks += 1
        if certified.confidence < self.confidence:
            return None
        return _Found(priced, answers.estimators, certified)
