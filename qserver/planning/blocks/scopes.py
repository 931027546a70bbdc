"""Paid questions, in all and within scopes: their rent, demand and best bases.

The scope of a question is its attributes. Questions about these attributes, or some of them, are
within the scope.

The best bases depend on paid questions and purchases, not on the question at hand. `Bases` also
tells whether they have settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice, is_within, join_all
from qserver.planning.blocks.demand import Demand, demand_of_state, depth_of, state_of_demand
from qserver.planning.blocks.own_rows import Own
from qserver.planning.blocks.rent import Course, step_of
from qserver.planning.blocks.star import (
    Star,
    candidates,
    fit_star,
    fitting,
    least_price,
    serves,
)
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.records.charge import NANO
from qserver.records.paid_question import FittedBase, PaidQuestion
from qserver.records.state import State

At = tuple[int, int]
"""A class of precision, and a finest level."""


@dataclass(frozen=True, eq=False)
class Bases:
    """The best bases for the paid questions, each fitted when it is first needed.

    Args:
        fits: cache of the bases, and the work of each, until the next payment or purchase.
        is_part: whether the questions are only those of one scope.
        effort: counts the work of every base looked at, whichever question it was first fitted for.
            So a question counts the same in every process.
        anew: collects new bases that must be recorded.
    """

    holdings: Holdings
    demand: Demand
    course: Course
    fits: dict[At, tuple[Star, float]]
    is_part: bool = False
    effort: Effort = field(default_factory=Effort)
    anew: dict[At, FittedBase] = field(default_factory=dict)
    _counted: set[At] = field(default_factory=set)

    @property
    def depth(self) -> int:
        """The finest level of all attributes."""
        return depth_of(self.holdings)

    def has_settled(self, octave: int, most: float) -> bool:
        """Whether the base of a class has settled for the paid questions.

        Args:
            most: as `most_nano` says with one more question's row.
        """
        at = octave, self.depth
        old = self.demand.stars.get(at)
        # More requirements never make a base cheaper, so an old one may say no.
        if old is not None and old.price * NANO > most:
            return False
        if not self.is_for_all(octave):
            return False
        # The base of a part of the questions is not written down. Whether it was fitted for another
        # question changes no count.
        if self.is_part and at not in self._counted and self._is_dearer(at, most):
            return False
        return self._note(at).price * NANO <= most

    def was_dear(self, octave: int, own: Own) -> bool:
        """Whether the old base says no, whatever a search for the rent with one more row finds."""
        old = self.demand.stars.get((octave, self.depth))
        if old is None:
            return False
        rent = self.course.rent_nano(self.holdings, octave=octave)
        half = (rent + own.price_nano(self.holdings.ledger.neighbours)) / 2
        power = self.holdings.engine.law.power
        fits = self.course.fits_by(octave, rent_nano=half, power=power)
        most = max((fit.price_nano for fit in fits), default=0.0)
        return old.price * NANO > max(most, self._bought_nano) + half

    def most_nano(self, octave: int, own: Own | None) -> float:
        """The price up to which a base has settled.

        Since own rows cost half as much, the base may have grown by no more than they did. Own rows
        are those of the class and of looser ones.
        """
        self.effort.add(PLANNER.evaluation_work)
        rent = self.course.rent_nano(self.holdings, own, octave=octave, effort=self.effort)
        half, power = rent / 2, self.holdings.engine.law.power
        then = self.course.price_nano(octave, rent_nano=half, power=power)
        return max(then, self._bought_nano) + half

    def _is_dearer(self, at: At, most_nano: float) -> bool:
        """Whether every base of this class certainly costs more."""
        wants = fitting(self.holdings, self._of(self.demand.wanted, at))
        return least_price(self.holdings, wants, enough=most_nano / NANO) * NANO > most_nano

    def is_for_all(self, octave: int) -> bool:
        """Whether a base of this class was fitted to every wanted component.

        The price of a base for some questions cannot be compared with the rent of all.
        """
        wants = self._of(self.demand.wanted, (octave, self.depth))
        reached = set[BlockKey]().union(*(w.energies for w in wants))
        fits = len(fitting(self.holdings, wants)) == len(wants)
        return bool(wants) and fits and self.demand.forgotten(octave) <= reached

    @property
    def _bought_nano(self) -> float:
        """Price of the bought tables."""
        bought: Mapping[BlockKey, int] = self.holdings.engine.tables.alpha_nano
        return sum(self.holdings.cost_of(b) * a for b, a in bought.items())

    def star(self, at: At) -> Star:
        """The best base for the requirements of this class and looser ones."""
        if at not in self.fits:
            effort = Effort(PLANNER.fit_work)
            old = self.demand.stars.get(at)
            self.fits[at] = self.fit(at, self.demand.wanted, old=old, effort=effort), effort.done
        star, work = self.fits[at]
        if at not in self._counted:
            self._counted.add(at)
            self.effort.add(work)
        return star

    def reaches(self, want: Want, at: At) -> bool:
        """Whether blocks for exactly this class give every component of a query.

        They do if its questions wanted every component, or if one block reaches all components and
        a question of the class.
        """
        return self._are_wanted(want) or self._is_within(want, self.star(at).alphas)

    def write_down(self) -> None:
        """Fit the base that was written down longest ago, if it is time.

        Its price tells later how much bases grew, so it is wanted whether or not this question
        needs the base: each time that the number of paid questions has passed a step.
        """
        last, n = self.course.n_at_fit, step_of(len(self.course.paid))
        for octave in sorted((o for o in self.course.octaves if last(o) < n), key=last):
            at, old = (octave, self.depth), self.demand.stars.get((octave, self.depth))
            is_little = old is None or old.price * NANO <= self.most_nano(octave, None)
            if at not in self.anew and is_little and self.is_for_all(octave):
                self._note(at)
                if at in self.anew:
                    return  # one for each question
            if self.effort.is_spent:
                return

    def _note(self, at: At) -> Star:
        star = self.star(at)
        if not self.is_part and star is not self.demand.stars.get(at):
            self.anew[at] = FittedBase(*at, star.to_base(self.holdings), is_finest=True)
        return star

    def may_reach(self, want: Want, at: At) -> bool:
        """Whether `reaches` may hold, decided without a fit from the candidate blocks."""
        wants = self._of(self.demand.wanted, at)
        return self._are_wanted(want) or self._is_within(want, candidates(self.holdings, wants))

    def _are_wanted(self, want: Want) -> bool:
        """Whether questions of exactly this class wanted every component."""
        alike = self._alike(want)
        return want.energies.keys() <= set[BlockKey]().union(*(w.energies for w in alike))

    def _is_within(self, want: Want, blocks: Iterable[BlockKey]) -> bool:
        """Whether one block reaches all components of a want and of another of its class."""
        top, others = join_all(want.energies), [join_all(w.energies) for w in self._alike(want)]
        finer = [b for b in blocks if is_within(top, b)] if others else []
        return any(is_within(other, b) for other in others for b in finer)

    def _alike(self, want: Want) -> list[Want]:
        return [w for w in self.demand.wanted.wants if w.octave == want.octave]

    def fit(
        self,
        at: At,
        wanted: Wants,
        *,
        old: Star | None,
        effort: Effort,
        n_drawn: int = PLANNER.tries,
    ) -> Star:
        """The best base for these requirements, those of this class and looser ones."""
        wants = fitting(self.holdings, self._of(wanted, at))
        if old is not None and serves(self.holdings, old, wants):
            return old
        # With coarser levels, later questions may be about parts of these, too.
        spare = PLANNER.spare if self.depth == 1 else 0.0
        return fit_star(self.holdings, wants, old=old, spare=spare, effort=effort, n_drawn=n_drawn)

    def _of(self, wanted: Wants, at: At) -> list[Want]:
        octave, depth = at
        wants = wanted.up_to(octave)
        if depth == self.depth:
            return wants
        return [w.to_depth(depth, share=PLANNER.coarse_share) for w in wants]


@dataclass
class Scope:
    """The paid questions within some attributes, followed as more are paid for.

    The course is always followed, the demand only when bases are needed. Bases within some
    attributes are not recorded, so earlier prices are unknown.

    Args:
        course: of the questions about these attributes, or of all.
    """

    course: Course = field(default_factory=Course)
    demand: Demand = field(default_factory=Demand)
    n_read: int = 0
    n_wanted: int = 0
    lattice: Lattice | None = None
    _fits: dict[At, tuple[Star, float]] = field(default_factory=dict)
    _state: tuple[int, dict[BlockKey, float]] | None = None

    @property
    def is_part(self) -> bool:
        """Whether there are other questions."""
        return self.course.scope is not None

    def follow(self, paid: Sequence[PaidQuestion], holdings: Holdings) -> None:
        """Add the new ones of all paid questions."""
        for question in paid[self.n_read :]:
            if self.course.has(question):
                self.course.take_in(question, holdings)
        self.n_read = len(paid)

    def bases(self, holdings: Holdings, effort: Effort | None = None) -> Bases:
        """The best bases for these questions, cached until the state changes.

        Args:
            effort: counts the work.
        """
        if holdings.lattice is not self.lattice:
            self.lattice, self.n_wanted, self.demand = holdings.lattice, 0, Demand()
            self._state = None
        for question in self.course.paid[self.n_wanted :]:
            self.demand.take_in(question, holdings, has_bases=not self.is_part)
        self.n_wanted = len(self.course.paid)
        state = self.n_wanted, dict(holdings.alphas)
        if state != self._state:
            self._state, self._fits = state, {}
        effort = effort or Effort()
        return Bases(holdings, self.demand, self.course, self._fits, self.is_part, effort)


@dataclass
class Scopes:
    """All paid questions, and those within each recent scope."""

    paid: list[PaidQuestion] = field(default_factory=list)
    _asked: set[int] = field(default_factory=set)
    _all: Scope = field(default_factory=Scope)
    _parts: dict[frozenset[int], Scope] = field(default_factory=dict)
    _saved: State | None = None

    def take_in(self, paid: PaidQuestion) -> None:
        """Add a question that was paid for."""
        self.paid.append(paid)
        self._asked |= set(paid.row.scope)

    def all(self, holdings: Holdings) -> Scope:
        """All questions."""
        if self._saved is not None:
            self._resume(self._saved, holdings)
        self._all.follow(self.paid, holdings)
        return self._all

    def within(self, axes: Iterable[int], holdings: Holdings) -> Scope:
        """Questions about these attributes, or some of them."""
        key, whole = frozenset(axes), self.all(holdings)
        if self._asked <= key:
            return whole
        part = self._parts.pop(key, None) or Scope(Course(whole.course.rows, key))
        part.follow(self.paid, holdings)
        self._parts[key] = part
        if len(self._parts) > PLANNER.kept:
            del self._parts[next(iter(self._parts))]
        return part

    def state(self) -> State:
        """State that `restore` reads; public, as paid questions are."""
        known = self._all
        parts, head = {"course": known.course.state()}, {"n_known": known.n_wanted}
        if known.lattice is not None:
            parts["demand"] = state_of_demand(known.demand, known.lattice)
        return State.of_parts(parts, head)

    def restore(self, state: State) -> None:
        """Restore the state of the questions so far, in place of a replay."""
        course = Course.from_state(state.part("course"), self.paid)
        self._all = Scope(course=course, n_read=len(course.paid))
        self._saved = state if "demand" in state.head else None

    def _resume(self, saved: State, holdings: Holdings) -> None:
        """Start from the saved demand, if it was made on this lattice."""
        self._saved, lattice, known = None, holdings.lattice, self._all
        demand = demand_of_state(saved.part("demand"), holdings)
        if demand is not None:
            known.lattice, known.n_wanted, known.demand = lattice, saved.head["n_known"], demand
