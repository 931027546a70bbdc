"""The best bases for what was paid for, and whether they have settled.

They depend on the paid questions and on what was bought, and not on the question that is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from qserver.inference.tables.blocks.pattern import BlockKey, join
from qserver.planning.blocks.demand import Demand, depth_of
from qserver.planning.blocks.rent import Course, Own
from qserver.planning.blocks.star import Star, candidates, fit_star, fitting, serves
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.records.charge import NANO
from qserver.records.paid_question import FittedBase

At = tuple[int, int]
"""A class of precision, and a finest level."""


@dataclass(frozen=True, eq=False)
class Bases:
    """The best bases for the paid questions, each fitted when it is first needed.

    Args:
        fits: takes them; it serves until something is paid for or bought.
        is_part: whether the questions are only those of one scope.
        anew: takes the bases that were fitted anew and are to be written down.
    """

    holdings: Holdings
    demand: Demand
    course: Course
    fits: dict[At, Star]
    is_part: bool = False
    anew: dict[At, FittedBase] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """The finest level of all attributes."""
        return depth_of(self.holdings)

    def has_settled(self, octave: int, own: Own) -> bool:
        """Whether the base of a class has settled for what was paid for.

        Args:
            own: of one more question; its row belongs to the rent.
        """
        at, most = (octave, self.depth), self.most_nano(octave, own)
        old = self.demand.stars.get(at)
        # More requirements never make a base cheaper, so an old one may say no.
        if old is not None and old.price * NANO > most:
            return False
        if not self.is_for_all(octave):
            return False
        star = self.star(at)
        # The base of a part of the questions is fitted again from what is written down.
        if not self.is_part and star is not old:
            self.anew[at] = FittedBase(*at, star.to_base(self.holdings), is_finest=True)
        return star.price * NANO <= most

    def most_nano(self, octave: int, own: Own) -> float:
        """The price up to which a base has settled.

        It may have grown by no more than own rows did since they cost half as much. Own rows are
        those of the class of precision and of looser ones: its base answers no others.
        """
        half = self.course.rent_nano(self.holdings, own, octave=octave) / 2
        return max(self.course.price_nano(octave, rent_nano=half), self._bought_nano) + half

    def is_for_all(self, octave: int) -> bool:
        """Whether there is a base of this class, fitted to every component that was wanted.

        The price of a base for a part of the questions says nothing of the rent of all.
        """
        wants = self._of(self.demand.wanted, (octave, self.depth))
        reached = set[BlockKey]().union(*(w.energies for w in wants))
        fits = len(fitting(self.holdings, wants)) == len(wants)
        return bool(wants) and fits and self.demand.forgotten(octave) <= reached

    @property
    def _bought_nano(self) -> float:
        """What the tables cost that are bought."""
        bought: Mapping[BlockKey, int] = self.holdings.engine.tables.alpha_nano
        return sum(self.holdings.cost_of(b) * a for b, a in bought.items())

    def star(self, at: At) -> Star:
        """The best base for the requirements of this class and looser ones."""
        if at not in self.fits:
            self.fits[at] = self._fitted(at)
        return self.fits[at]

    def reaches(self, want: Want, at: At) -> bool:
        """Whether blocks for questions of exactly this class tell every component of a query.

        They do if these questions wanted every component, or if one block reaches all of them and
        a question of this class.
        """
        return self._are_wanted(want) or self._is_within(want, self.star(at).alphas)

    def may_reach(self, want: Want, at: At) -> bool:
        """Whether `reaches` may hold, told without a fit: a base has no other blocks than these."""
        wants = self._of(self.demand.wanted, at)
        return self._are_wanted(want) or self._is_within(want, candidates(self.holdings, wants))

    def _are_wanted(self, want: Want) -> bool:
        """Whether questions of exactly its class wanted every component."""
        alike = self._alike(want)
        return want.energies.keys() <= set[BlockKey]().union(*(w.energies for w in alike))

    def _is_within(self, want: Want, blocks: Iterable[BlockKey]) -> bool:
        """Whether one of these blocks reaches all components of it, and of a question like it."""
        top = _top(want)
        finer = [b for b in blocks if join(b, top) == b]
        return any(join(b, _top(w)) == b for w in self._alike(want) for b in finer)

    def _alike(self, want: Want) -> list[Want]:
        return [w for w in self.demand.wanted.wants if w.octave == want.octave]

    def _fitted(self, at: At) -> Star:
        # The work does not count for the question that comes first.
        effort = Effort(PLANNER.question_work)
        return self.fit(at, self.demand.wanted, old=self.demand.stars.get(at), effort=effort)

    def fit(self, at: At, wanted: Wants, *, old: Star | None, effort: Effort) -> Star:
        """The best base for these requirements, those of this class and looser ones."""
        wants = fitting(self.holdings, self._of(wanted, at))
        if old is not None and serves(self.holdings, old, wants):
            return old
        # With coarser levels, later questions may be about parts of these, too.
        spare = PLANNER.spare if self.depth == 1 else 0.0
        return fit_star(self.holdings, wants, old=old, spare=spare, effort=effort)

    def _of(self, wanted: Wants, at: At) -> list[Want]:
        octave, depth = at
        wants = wanted.up_to(octave)
        if depth == self.depth:
            return wants
        return [w.to_depth(depth, share=PLANNER.coarse_share) for w in wants]


def _top(want: Want) -> BlockKey:
    """The coarsest block that reaches every component."""
    return reduce(join, want.energies, ())
